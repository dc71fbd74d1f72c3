"""Value-based reinforcement learning for factorised action spaces."""

from revalued.envs.registration import register_tasks

__version__ = "0.1.0"

register_tasks()
