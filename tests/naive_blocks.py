"""A twin of storing blocks: every lane's steps go into a replay of the same size, one lane and one step at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from revalued.config import TrainConfig
from revalued.replay import Replay
from revalued.training.actors.actor import ActorPlan
from revalued.training.actors.block import Block
from revalued.training.build import agent_shape, make_replay


class NaiveBlocks:
    """Takes blocks apart by hand."""

    def __init__(self, replay: Replay, lanes_per_actor: int) -> None:
        self._replay, self._lanes_per_actor = replay, lanes_per_actor

    def store(self, block: Block) -> None:
        is_masked = block.first_masks.shape[1] > 0
        resets = iter(range(len(block.reset_observations)))
        reset_of = {(int(step), int(lane)): next(resets) for step, lane in np.argwhere(block.ended)}
        for column in range(self._lanes_per_actor):
            lane = [block.actor * self._lanes_per_actor + column]
            if block.number == 0:
                masks = block.first_masks[column][None] if is_masked else None
                self._replay.begin(block.first_observations[column][None], lane, masks)
            for step in range(len(block.rewards)):
                reset = reset_of.get((step, column))
                following, mask = block.next_observations[step, column], block.next_masks[step, column]
                self._replay.append(
                    [block.actions[step, column]],
                    [block.rewards[step, column]],
                    [block.terminated[step, column]],
                    [block.truncated[step, column]],
                    following[None],
                    (following if reset is None else block.reset_observations[reset])[None],
                    lane,
                    next_masks=mask[None] if is_masked else None,
                    reset_masks=(mask if reset is None else block.reset_masks[reset])[None] if is_masked else None,
                )

    def state(self) -> dict[str, NDArray[Any]]:
        return self._replay.state()


def naive_replay(config: TrainConfig, plan: ActorPlan) -> NaiveBlocks:
    return NaiveBlocks(make_replay(config, agent_shape(config, plan.task.info)), plan.num_lanes)
