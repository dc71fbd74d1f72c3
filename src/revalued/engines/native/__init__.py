"""The update in C, for CPUs: the same arithmetic as `TorchEngine`, arranged for the cache.

The library is compiled when the package is installed, if there is a C compiler. Where there is none, or where PyTorch
brings no BLAS along that can be called, `TorchEngine` does the work; `why_missing` tells the reason.
"""

from revalued.engines.native.acting import NativeCritics
from revalued.engines.native.engine import NativeEngine
from revalued.engines.native.library import why_missing

__all__ = ["NativeCritics", "NativeEngine", "why_missing"]
