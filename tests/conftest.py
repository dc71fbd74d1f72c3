"""One thread for tensor work: the tests' tensors are tiny, and several test processes may share the cores."""

from __future__ import annotations

import torch

torch.set_num_threads(1)
