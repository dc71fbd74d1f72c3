"""Prioritised n-step replay in which every observation is stored exactly once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from revalued.replay.batch import Batch, read_batch
from revalued.replay.checks import check_fit, check_range, checked, checked_lanes, smallest_and_largest
from revalued.replay.faster_rows import MakeFasterRows
from revalued.replay.masks import MaskStore
from revalued.replay.memory import zeros_together
from revalued.replay.n_step import NStepWindow
from revalued.replay.priorities import Priorities
from revalued.replay.sum_tree import MakeFasterTree

Array = npt.NDArray[Any]

_LAST_SLOT = 2**62


class Replay:
    """The most recent transitions of several environments, one *lane* for each.

    Each lane is a ring of slots and each slot holds one observation, in order of time. The transition that starts at an
    observation lives in the same slot and points to the slot of its s', which is always a later one. Slots are
    overwritten from the oldest on, so as long as a transition lives its s' lives too.

    The slots of a lane are counted on for ever, `_heads` is the newest; slot x is stored in row
    (x mod positions) · num_lanes + lane. A row can be sampled if its leaf in the sum tree is positive. It is 0 while a
    step waits for its n rewards, and for good where a row only holds the last observation of a truncated episode.

    `capacity` counts rows over all lanes, rounded up to a multiple of `num_lanes`; actions are below `max_choices`;
    `mask_size` booleans per observation tell which choices are legal there, 0 in a task without masks. Rewards are kept
    times `reward_scale`. `faster_tree` draws faster than NumPy, `faster_rows` stores faster, and both the same.
    """

    def __init__(
        self,
        *,
        capacity: int,
        num_lanes: int,
        observation_size: int,
        num_dimensions: int,
        n_step: int,
        discount: float,
        max_choices: int,
        mask_size: int = 0,
        reward_scale: float = 1.0,
        prioritised: bool = True,
        priority_exponent: float = 0.6,
        importance_exponent: float = 0.2,
        faster_tree: MakeFasterTree | None = None,
        faster_rows: MakeFasterRows | None = None,
    ) -> None:
        counts = {"num_lanes": num_lanes, "observation_size": observation_size, "num_dimensions": num_dimensions}
        for name, count in {**counts, "n_step": n_step, "max_choices": max_choices}.items():
            if count < 1:
                raise ValueError(f"{name} must be at least 1, got {count}")
        exponents = {"priority_exponent": priority_exponent, "importance_exponent": importance_exponent}
        for name, fraction in {**exponents, "discount": discount}.items():
            if not 0 <= fraction <= 1:
                raise ValueError(f"{name} must lie in [0, 1], got {fraction}")
        self._positions = -(-capacity // num_lanes)
        # Waiting steps and the two slots that a truncation writes must not meet around the ring.
        if self._positions <= n_step + 3:
            smallest = (n_step + 3) * num_lanes + 1
            raise ValueError(f"{num_lanes} lanes with n_step {n_step} need a capacity of {smallest}, got {capacity}")
        self._num_lanes, self._max_choices = num_lanes, max_choices
        self._discount, self._prioritised, self._reward_scale = float(discount), prioritised, reward_scale
        # Uniform replay is the prioritised one with exponent 0: all leaves and all weights are 1.
        exponent = priority_exponent if prioritised else 0.0
        num_rows = self._positions * num_lanes
        action_type = np.uint8 if max_choices <= 2**8 else np.uint16 if max_choices <= 2**16 else np.int32
        # Zeros rather than `np.empty`: pages never touched cost nothing, and a saved state holds no stray memory.
        self._observations, self._actions, self._returns, self._discounts, self._next_rows = zeros_together(
            ((num_rows, observation_size), np.float32),
            ((num_rows, num_dimensions), action_type),
            ((num_rows,), np.float32),
            ((num_rows,), np.float32),
            ((num_rows,), np.int32 if num_rows < 2**31 else np.int64),
        )
        self._masks = MaskStore(num_rows, mask_size)
        self._priorities = Priorities(num_rows, exponent, importance_exponent, faster_tree)
        self._row_arrays: dict[str, Array] = {
            "observations": self._observations,
            "actions": self._actions,
            "returns": self._returns,
            "discounts": self._discounts,
            "next_rows": self._next_rows,
            "leaves": self._priorities.tree.leaves,
            "masks": self._masks.packed,
        }
        self._heads = np.full(num_lanes, -1, np.int64)
        self._window = NStepWindow(n_step=n_step, discount=self._discount, num_lanes=num_lanes)
        self._all_lanes = np.arange(num_lanes)
        self._faster = None
        if faster_rows is not None:
            arrays = {**self._row_arrays, **self._small_arrays(), "discount_powers": self._window.discount_powers}
            self._faster = faster_rows(arrays, self._priorities.tree.levels, num_rows, max_choices)

    def __len__(self) -> int:
        """How many transitions can be sampled now."""
        return self._priorities.num_live

    @property
    def has_begun(self) -> bool:
        """Tell whether every lane has its first observation."""
        return bool((self._heads >= 0).all())

    @property
    def nbytes(self) -> int:
        """Memory held once every row has been written, in bytes."""
        arrays, tree = {**self._row_arrays, **self._small_arrays()}, self._priorities.tree
        return sum(array.nbytes for array in arrays.values()) + tree.nbytes - tree.leaves.nbytes

    def begin(
        self,
        observations: npt.ArrayLike,
        lanes: npt.ArrayLike | None = None,
        masks: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        """Start a new stream in these lanes (all by default) with its first observation [L, D] and its masks [L, M].

        Whatever a lane was in the middle of is cut off: complete transitions stay, waiting steps are discarded.
        """
        lane = self._all_lanes if lanes is None else checked_lanes(lanes, self._num_lanes)
        observations = checked("observations", observations, (len(lane), self._observations.shape[1]))
        masks = self._masks.checked("masks", masks, len(lane))
        # A slot of its own even in mid-episode: the head may be the s' of complete transitions.
        self._heads[lane] += 1
        rows = self._rows(self._heads[lane], lane)
        self._observations[rows] = observations
        self._masks.write(rows, masks)
        self._window.clear(lane)
        self._priorities.set(rows, np.zeros(len(rows)))

    def append(
        self,
        actions: npt.ArrayLike,
        rewards: npt.ArrayLike,
        terminated: npt.ArrayLike,
        truncated: npt.ArrayLike,
        next_observations: npt.ArrayLike,
        reset_observations: npt.ArrayLike,
        lanes: npt.ArrayLike | None = None,
        next_masks: npt.NDArray[np.bool_] | None = None,
        reset_masks: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        """Add one step of each of these lanes (all by default).

        `next_observations` [L, D] is what the step led to: the true last observation where an episode ended.
        `reset_observations` [L, D] is the first one of the next episode, read only where an episode ended.
        `next_masks` and `reset_masks` [L, M] tell what is legal in these; None in a task without masks.
        An episode both `terminated` and `truncated` in the same step counts as terminated.
        """
        lane = self._all_lanes if lanes is None else checked_lanes(lanes, self._num_lanes)
        by_lane, by_observation = (len(lane),), (len(lane), self._observations.shape[1])
        actions = checked("actions", actions, (len(lane), self._actions.shape[1]))
        rewards = self._reward_scale * checked("rewards", rewards, by_lane)
        terminated = checked("terminated", terminated, by_lane).astype(bool, copy=False)
        truncated = checked("truncated", truncated, by_lane).astype(bool, copy=False)
        next_observations = checked("next_observations", next_observations, by_observation)
        reset_observations = checked("reset_observations", reset_observations, by_observation)
        next_masks = self._masks.checked("next_masks", next_masks, len(lane))
        reset_masks = self._masks.checked("reset_masks", reset_masks, len(lane))
        if self._faster is not None:  # nearly every step is one that it takes
            step = (actions, rewards, terminated, truncated, next_observations, self._priorities.new_leaf)
            if (overwritten := self._faster.append(lane, *step)) is not None:
                self._priorities.num_live += len(lane) - overwritten
                if next_masks is not None:
                    self._masks.write(self._rows(self._heads[lane], lane), next_masks)
                return
        smallest, largest = smallest_and_largest(actions)
        if smallest < 0 or largest >= self._max_choices:
            raise ValueError(f"actions must lie in [0, {self._max_choices}), got {smallest} to {largest}")
        heads = self._heads[lane]
        if heads.item(heads.argmin()) < 0:
            raise ValueError(f"lane {lane[heads.argmin()]} has no first observation: call begin before append")

        # The action belongs to the newest observation; what it led to goes into the next slot.
        rows = self._rows(heads, lane)
        next_rows = written_rows = self._later(rows, 1)
        self._actions[rows] = actions
        self._observations[next_rows] = next_observations
        self._masks.write(next_rows, next_masks)
        self._heads[lane] = heads + 1
        ended = terminated | truncated
        has_end = True in ended.tolist()  # `any` takes thrice as long with so few
        if has_end:
            # After a termination nobody asks for s', so the next episode begins there; else one slot later.
            only_truncated = truncated & ~terminated
            self._heads[lane] += only_truncated
            reset_rows = self._rows(self._heads[lane], lane)
            self._observations[reset_rows[ended]] = reset_observations[ended]
            self._masks.write(reset_rows[ended], None if reset_masks is None else reset_masks[ended])
            written_rows = np.concatenate([next_rows, reset_rows[only_truncated]])

        complete = self._window.push(slice(None) if lanes is None else lane, rewards, terminated, ended)
        of = complete.columns
        complete_rows, their_next = self._later(rows[of], -complete.ages), next_rows[of]
        self._returns[complete_rows] = complete.returns
        self._discounts[complete_rows] = complete.discounts
        # Where Γ = 0 any s' will do, if it is finite and lives as long as the transition: its own s.
        self._next_rows[complete_rows] = np.where(terminated[of], complete_rows, their_next) if has_end else their_next
        # What was overwritten leaves the tree in the same moment, so no sample can mix old and new.
        leaves = np.zeros(len(written_rows) + len(complete_rows))
        leaves[len(written_rows) :] = self._priorities.new_leaf
        self._priorities.set(np.concatenate([written_rows, complete_rows]), leaves)

    def sample(self, batch_size: int, rng: np.random.Generator) -> Batch:
        """Draw transitions in proportion to priority^exponent, one from each of `batch_size` equal parts of the sum."""
        rows, weights = self._priorities.draw(batch_size, rng)
        return read_batch(self._row_arrays, rows, weights, self._masks.size)

    def update_priorities(self, rows: npt.NDArray[np.int64], priorities: npt.ArrayLike) -> None:
        """Set new priorities (absolute errors) of sampled rows; rows overwritten since then stay out of the tree."""
        if self._prioritised:
            self._priorities.update(rows, priorities)

    def state(self) -> dict[str, Array]:
        """Return all that a replay of the same settings needs to continue bit for bit, as plain arrays.

        They are views of the living arrays, so store them before the next call. Positions never written are left out.
        """
        num_rows = self._num_rows_written(self._heads)
        rows = {name: array[:num_rows] for name, array in self._row_arrays.items()}
        return {**rows, **self._small_arrays(), **self._settings()}

    def load_state(self, state: Mapping[str, Array]) -> None:
        """Take over what `state` returned; a state that does not fit is refused and changes nothing."""
        num_rows = self.check_state(state)
        self._priorities.load(state["leaves"], state["max_priority"])
        for name, array in self._row_arrays.items():
            if name != "leaves":
                array[num_rows : self._num_rows_written(self._heads)] = 0  # a fresh replay stays untouched there
                array[:num_rows] = state[name]
        for name, array in self._small_arrays().items():
            array[...] = state[name]

    def check_state(self, state: Mapping[str, Array]) -> int:
        """Refuse a state that this replay could not go on from, whoever wrote it; return its number of rows."""
        if missing := sorted(self.state().keys() - state.keys()):
            raise ValueError(f"the replay state lacks {', '.join(missing)}")
        for name, setting in self._settings().items():
            if state[name].shape != () or state[name].dtype.kind not in "iuf" or state[name] != setting:
                raise ValueError(
                    f"the replay state was saved with {name} {str(state[name])[:100]}, this replay has {setting}"
                )
        for name, array in self._small_arrays().items():
            check_fit(name, state[name], array.shape, array.dtype)
        check_range("heads", state["heads"], -1, _LAST_SLOT)
        num_rows = self._num_rows_written(state["heads"])
        for name, array in self._row_arrays.items():
            check_fit(name, state[name], (num_rows, *array.shape[1:]), array.dtype)
        limit, largest = float(np.finfo(np.float32).max), float(np.finfo(np.float64).max)
        check_range("actions", state["actions"], 0, self._max_choices - 1)
        check_range("next_rows", state["next_rows"], 0, num_rows - 1)
        check_range("observations", state["observations"], -limit, limit)
        check_range("returns", state["returns"], -limit, limit)
        check_range("discounts", state["discounts"], 0, 1)
        check_range("num_pending", state["num_pending"], 0, len(self._window.returns) - 1)
        check_range("pending_returns", state["pending_returns"], -largest, largest)
        check_range("max_priority", state["max_priority"], 0, largest)
        # every priority was the largest when it was set, or smaller; a sum of them must stay finite
        check_range("leaves", state["leaves"], 0, float(state["max_priority"]) ** self._priorities.exponent)
        check_range("the sum of the leaves", state["leaves"].sum(keepdims=True), 0, largest)
        return num_rows

    def _small_arrays(self) -> dict[str, Array]:
        """Return the arrays whose size does not depend on the capacity."""
        return {
            "heads": self._heads,
            "num_pending": self._window.num_pending,
            "pending_returns": self._window.returns,
            "max_priority": self._priorities.largest,
        }

    def _settings(self) -> dict[str, Array]:
        """Return the settings that the stored numbers depend on and that no array's shape gives away."""
        return {
            "positions": np.array(self._positions),
            "max_choices": np.array(self._max_choices),
            "mask_size": np.array(self._masks.size),
            "discount": np.array(self._discount),
            "priority_exponent": np.array(self._priorities.exponent),
        }

    def _num_rows_written(self, heads: Array) -> int:
        """Return the length of the prefix of rows outside which nothing was ever written."""
        return min(int(heads.max()) + 1, self._positions) * self._num_lanes

    def _rows(self, slots: npt.NDArray[np.int64], lane: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return slots % self._positions * self._num_lanes + lane

    def _later(self, rows: npt.NDArray[np.int64], steps: npt.NDArray[np.int64] | int) -> npt.NDArray[np.int64]:
        """Return the rows so many slots later in the same lanes, around the ring."""
        return (rows + steps * self._num_lanes) % len(self._observations)
