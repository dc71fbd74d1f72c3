"""Value-based reinforcement learning for factorised action spaces."""

__version__ = "0.1.0"
