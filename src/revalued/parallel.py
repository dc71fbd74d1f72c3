"""A few threads that share independent pieces of tensor work, each piece computed by one of them alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


class Threads:
    """Carries out pieces of work side by side; one thread means: right here.

    Torch releases Python's lock inside its operations, so plain threads keep all cores busy. Its own threads inside
    an operation are turned off: they wait for each other at every operation, which costs 20% on an idle machine and
    many times that where another program holds a core.
    """

    def __init__(self, count: int) -> None:
        torch.set_num_threads(1)
        self._pool = ThreadPoolExecutor(count - 1, "revalued", _begin_thread) if count > 1 else None
        self.count = count

    def map(self, work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Return the results of all items, in order; item i is carried out by thread i mod `count`.

        An exception in any of them is raised here.
        """
        if self._pool is None:
            return [work(item) for item in items]
        pieces = list(items)
        others = [self._pool.submit(_several, work, pieces[start :: self.count]) for start in range(1, self.count)]
        found = [_several(work, pieces[0 :: self.count]), *(future.result() for future in others)]
        return [found[number % self.count][number // self.count] for number in range(len(pieces))]


def _several(work: Callable[[Item], Result], items: list[Item]) -> list[Result]:
    return [work(item) for item in items]


def _begin_thread() -> None:
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
