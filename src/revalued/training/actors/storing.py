"""From a block to the replay: every step into its lane, a new stream where a new incarnation begins."""

from __future__ import annotations

import numpy as np

from revalued.replay import Replay
from revalued.training.actors.actor import lanes_of
from revalued.training.actors.block import Block


def store_block(replay: Replay, block: Block) -> None:
    """Append all steps of a checked block; its first actions belong to what the lanes saw last."""
    num_lanes = len(block.first_observations)
    lanes = np.array(lanes_of(block.actor, num_lanes))
    is_masked = block.first_masks.shape[1] > 0
    if block.number == 0:
        # cuts off what a predecessor left unfinished: its last steps must not bootstrap from the new episode
        replay.begin(block.first_observations, lanes, block.first_masks if is_masked else None)
    observations, masks = block.observations(), block.masks() if is_masked else None
    for step in range(len(block.rewards)):
        replay.append(
            block.actions[step],
            block.rewards[step],
            block.terminated[step],
            block.truncated[step],
            block.next_observations[step],
            observations[step],
            lanes,
            next_masks=block.next_masks[step] if is_masked else None,
            reset_masks=None if masks is None else masks[step],
        )
