"""Numbers of an update for the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Values = Tensor | NDArray[np.float64]
"""Float64; on the CPU NumPy's, which does little work faster, elsewhere a tensor's."""


class Metrics(Mapping[str, float]):
    """Numbers of one update by name, together in an array, or in a tensor on another device until one is read."""

    def __init__(self, names: Sequence[str], values: Values) -> None:
        if isinstance(values, Tensor):
            values = values.double()
            if values.device.type == "cpu":
                values = values.numpy()
        self.names, self.numbers = names, values

    def __getitem__(self, name: str) -> float:
        if name not in self.names:
            raise KeyError(name)
        return float(self.numbers[self.names.index(name)])

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)
