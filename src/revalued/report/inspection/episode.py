"""What a policy thinks along an episode, as plain arrays; meant for notebooks as much as for pages.

T steps, K critics, N dimensions of the environment's action, A choices (padded to the largest dimension).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from revalued.acting.policy import Policy
from revalued.actions import FactorisedActions
from revalued.algorithms.decompositions import find_decomposition
from revalued.ops.utilities import hide_illegal
from revalued.training.evaluation import MAX_EVAL_STEPS, Episode, greedy_episodes

_MAX_ENTRIES = 2**24
"""Numbers that are looked at together; an atomic space may have a million combinations for each critic and step."""


@dataclass(frozen=True)
class Judgement:
    """What the critics say about the actions taken in T states."""

    utilities: NDArray[np.float32]
    """[T, N, A] the ensemble's mean; NaN at padding and at illegal choices."""
    spread: NDArray[np.float32]
    """[T, N, A] the standard deviation over critics."""
    q_values: NDArray[np.float32]
    """[T, K] each critic's value of the action taken."""
    agreement: NDArray[np.float32]
    """[T, N] the fraction of critics that would choose the same sub-action."""


@dataclass(frozen=True)
class EpisodeRecord:
    """One greedy episode, and what the critics thought in each of its steps."""

    observations: NDArray[np.float32]
    """[T, D] what each action was chosen from."""
    masks: NDArray[np.bool_] | None
    """[T, Σ sizes] what was legal then; None in a task without action masks."""
    actions: NDArray[np.int64]
    """[T, N] the sub-actions taken."""
    rewards: NDArray[np.float64]
    """[T] without noise."""
    outcome: Episode
    judgement: Judgement


def record_episode(
    env: gymnasium.Env[Any, Any],
    policy: Policy,
    seed: int,
    *,
    decomposition: str = "mean",
    watch: Callable[[float], None] = lambda total_reward: None,
    max_steps: int = MAX_EVAL_STEPS,
) -> EpisodeRecord:
    """Play a greedy episode and keep everything; `watch` is called as by `evaluation.greedy_episodes`.

    The environment is one that `revalued.envs.make_env` makes.
    """
    recorder = _RecordingPolicy(policy)
    totals: list[float] = []

    def see(total_reward: float) -> None:
        totals.append(total_reward)
        watch(total_reward)

    (outcome,) = greedy_episodes(env, recorder, [seed], see, max_steps=max_steps)
    observations, actions = np.concatenate(recorder.observations), np.concatenate(recorder.actions)
    masks = np.concatenate(recorder.masks) if recorder.masks else None
    return EpisodeRecord(
        observations=observations,
        masks=masks,
        actions=policy.shape.actions.to_environment(actions),
        rewards=np.diff(totals),
        outcome=outcome,
        judgement=judge(policy, observations, actions, masks, decomposition=decomposition),
    )


def judge(
    policy: Policy,
    observations: NDArray[np.float32],
    actions: NDArray[np.int64],
    masks: NDArray[np.bool_] | None = None,
    *,
    decomposition: str = "mean",
) -> Judgement:
    """Return what the critics say about actions in T states; `actions` as `policy.greedy` returns them.

    For an atomic policy (`dqn`) the utility of a sub-action is the value of the best combination that contains it.
    """
    shape = policy.shape
    per_row = shape.critics * shape.actions.num_dimensions * shape.actions.max_choices * shape.atoms
    size = max(1, _MAX_ENTRIES // per_row)
    parts = []
    for start in range(0, len(observations), size):
        rows = slice(start, start + size)
        own = None if masks is None else masks[rows]
        parts.append(_judge_rows(policy, observations[rows], actions[rows], own, decomposition))
    return Judgement(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


class _RecordingPolicy(Policy):
    """Acts as another policy and remembers what it saw and did."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy.shape, policy.parameters, policy.support, policy.critics, policy.normaliser)
        self.observations: list[NDArray[np.float32]] = []
        self.masks: list[NDArray[np.bool_]] = []
        self.actions: list[NDArray[np.int64]] = []

    def greedy(self, observations: NDArray[np.float32], masks: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        actions = super().greedy(observations, masks)
        self.observations.append(observations.copy())
        self.actions.append(actions)
        if masks is not None:
            self.masks.append(masks.copy())
        return actions


def _judge_rows(
    policy: Policy,
    observations: NDArray[np.float32],
    actions: NDArray[np.int64],
    masks: NDArray[np.bool_] | None,
    decomposition: str,
) -> tuple[NDArray[np.float32], ...]:
    space = policy.shape.actions
    legal = policy.exists if masks is None else torch.from_numpy(space.legal(masks)).to(policy.device)
    each = hide_illegal(policy.utilities(observations), legal)  # [K, B, N, A]
    taken = torch.from_numpy(actions).to(policy.device)
    chosen = each.gather(-1, taken[None, ..., None].expand(len(each), *taken.shape, 1)).squeeze(-1)
    q_values = find_decomposition(decomposition)(chosen)
    own = space.to_environment(each.argmax(dim=-1).cpu().numpy())  # [K, B, N]
    agreement = (own == space.to_environment(actions)).mean(axis=0, dtype=np.float32)
    mean = each.mean(dim=0)
    if space.atomic_over is not None:
        mean, each = _best_with(mean, space), _best_with(each, space)
    utilities = mean.masked_fill(mean.isinf(), torch.nan)
    spread = each.masked_fill(each.isinf(), torch.nan).std(dim=0, correction=0)
    return utilities.cpu().numpy(), spread.cpu().numpy(), q_values.T.cpu().numpy(), agreement


def _best_with(joint: Tensor, space: FactorisedActions) -> Tensor:
    """Return the value of the best combination that contains a sub-action: [..., N, A] from [..., 1, combinations]."""
    sizes = space.environment_sizes
    axes = joint.dim() - 2  # those in front
    grid = joint.reshape(*joint.shape[:-2], *sizes)
    best = joint.new_full((*joint.shape[:-2], len(sizes), max(sizes)), -torch.inf)
    for dimension, size in enumerate(sizes):
        others = [axes + other for other in range(len(sizes)) if other != dimension]
        best[..., dimension, :size] = grid.amax(dim=others) if others else grid
    return best
