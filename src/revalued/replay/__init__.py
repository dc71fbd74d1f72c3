"""Experience replay: storage, n-step assembly and prioritised sampling."""

from revalued.replay.batch import Batch
from revalued.replay.buffer import Replay
from revalued.replay.sum_tree import SumTree

__all__ = ["Batch", "Replay", "SumTree"]
