"""The learner: the only owner of the online and target parameters, the optimiser, and the priorities it hands back."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from revalued.acting.normalisation import ObservationNormaliser
from revalued.acting.policy import Policy
from revalued.config import AlgorithmConfig, EngineName, LearnerConfig
from revalued.learner.engine import Engine, NonFiniteError, Updated
from revalued.learner.native_update import NativeEngine
from revalued.learner.torch_update import TorchEngine
from revalued.native.choice import resolve_engine
from revalued.networks import NetworkShape, initialise, zeros
from revalued.ops.targets import compensated_rate
from revalued.replay import Batch
from revalued.seeding import drawn_critics


class Learner:
    """Stacked critics and their targets, updated together."""

    def __init__(
        self,
        algorithm: AlgorithmConfig,
        config: LearnerConfig,
        shape: NetworkShape,
        support: tuple[float, float] | None,
        seed: int,
        device: torch.device,
        *,
        engine: EngineName = "auto",
        compile_update: bool = False,
    ) -> None:
        self.algorithm, self.config, self.shape, self.device = algorithm, config, shape, device
        self.target_rate = _target_rate(algorithm, config, shape.actions.num_dimensions)
        """How far the target moves in every update."""
        self.updates = 0
        self._seed = seed
        self.online = initialise(shape, torch.Generator().manual_seed(seed), device)
        self.target = {name: tensor.clone() for name, tensor in self.online.items()}
        self.first_moment, self.second_moment = zeros(shape, device), zeros(shape, device)
        # which choices are no padding, [N, A], None where none is; the atoms [Z] of categorical heads
        self.exists = torch.from_numpy(shape.actions.exists).to(device) if shape.actions.is_padded else None
        self.support = None if support is None else torch.linspace(*support, shape.atoms, device=device)
        self.normaliser = ObservationNormaliser(shape.observation_size) if config.normalise_observations else None
        self._engine: Engine
        if resolve_engine(engine, device, compiled=compile_update, torso=shape.torso) == "native":
            self._engine = NativeEngine(self)
        else:
            self._engine = TorchEngine(self, compiled=compile_update)

    @torch.no_grad()
    def update(self, batch: Batch) -> Updated:
        """Do one gradient step on the batch; return its new priorities [B] and metrics for the log."""
        if self.normaliser is not None:
            now, following = self.normaliser(batch.observations), self.normaliser(batch.next_observations)
            batch = batch._replace(observations=now, next_observations=following)
        updated = self._engine.update(batch, self.updates)
        self.updates += 1
        return updated

    def drawn_critics(self, updates: int) -> NDArray[np.int64] | None:
        """Return the target critics [m] whose smallest value the update after so many others learns; None: all."""
        count = self.algorithm.target_critics
        return None if count is None else drawn_critics(self._seed, updates, count, self.shape.critics)

    def policy(self) -> Policy:
        """Return the online critics' policy, which follows every update."""
        return Policy(self.shape, self.online, self.support, self._engine.critics(), self.normaliser)

    def check_finite(self) -> None:
        """Raise if any parameter is not a finite number; called before a checkpoint is written."""
        for name, tensor in self.online.items():
            if not torch.isfinite(tensor).all():
                raise NonFiniteError(f"parameter {name} is not finite after update {self.updates:,}")

    def tensors(self) -> dict[str, Tensor]:
        """Return all learned state by name, for a checkpoint."""
        groups = {
            "online": self.online,
            "target": self.target,
            "adam.first_moment": self.first_moment,
            "adam.second_moment": self.second_moment,
        }
        if self.normaliser is not None:
            groups["observations"] = self.normaliser.tensors()
        return {f"{group}.{name}": tensor for group, stack in groups.items() for name, tensor in stack.items()}

    def load_tensors(self, tensors: Mapping[str, Tensor], updates: int) -> None:
        """Take over the state that `tensors` returned after that many updates."""
        own = self.tensors()
        for name, tensor in own.items():
            stored = tensors.get(name)
            if stored is None or stored.shape != tensor.shape or stored.dtype != tensor.dtype:
                raise ValueError(f"the checkpoint's {name} does not fit this network")
            if not torch.isfinite(stored).all():
                raise ValueError(f"the checkpoint's {name} holds numbers that are not finite")
        for name, tensor in own.items():
            tensor.copy_(tensors[name])
        if self.normaliser is not None:
            self.normaliser.check()
            self.normaliser.settle()
        self.updates = updates


def _target_rate(algorithm: AlgorithmConfig, config: LearnerConfig, num_dimensions: int) -> float:
    if config.target_update_rate != "auto":
        return config.target_update_rate
    return compensated_rate(algorithm.beta, num_dimensions, is_summed=algorithm.regulariser_reduction == "sum")
