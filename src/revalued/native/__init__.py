"""C code for what takes most of a run's time on a CPU: the update, choosing actions, the replay's sum tree and steps.

It computes what PyTorch and NumPy compute elsewhere in this package, arranged for the cache. The library is compiled
when the package is installed, if there is a C compiler; where there is none, the others do the work, and `why_missing`
tells the reason.
"""

from revalued.native.library import why_missing

__all__ = ["why_missing"]
