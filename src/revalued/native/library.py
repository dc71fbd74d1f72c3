"""Finding the compiled library."""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
from functools import cache
from pathlib import Path

from revalued.native.layout import STRUCTURES

_MODULE = "revalued.native._kernels"


@cache
def _load() -> ctypes.CDLL | str:
    """Return the library, or why there is none."""
    found = importlib.util.find_spec(_MODULE)
    if found is None or found.origin is None:
        return "it was not compiled when revalued was installed: that takes a C compiler, such as gcc"
    try:
        functions = ctypes.CDLL(found.origin)
        functions.revalued_digest.restype = ctypes.c_char_p
        compiled_from = functions.revalued_digest().decode()
    except (OSError, AttributeError) as error:
        return f"it cannot be loaded: {error}"
    if compiled_from != _digest():
        return "it was compiled from other sources than are installed: install revalued again"
    functions.revalued_size_of.restype = ctypes.c_int64
    for structure in STRUCTURES:
        name, size = structure.__name__.removesuffix("C"), ctypes.sizeof(structure)
        if (compiled := functions.revalued_size_of(name.encode())) != size:
            return f"it does not fit this Python code: {name} has {compiled} bytes in C and {size} here"
    for name in ("merge", "fold", "predict", "step", "delay_helpers"):
        getattr(functions, f"revalued_{name}").restype = None
    pointer = ctypes.c_void_p  # plain integers would be cut to 32 bits
    functions.revalued_outputs.argtypes = [pointer, pointer, pointer, ctypes.c_int, pointer]
    functions.revalued_tree_set.argtypes = [pointer, pointer, pointer, ctypes.c_int, ctypes.c_int]
    functions.revalued_tree_find.argtypes = [pointer, pointer, ctypes.c_int, ctypes.c_int, pointer]
    number, matrix = ctypes.c_int, (pointer, ctypes.c_int)
    functions.revalued_product.argtypes = [*(number,) * 6, *matrix, *matrix, number, *matrix]
    functions.revalued_multiply_adds.restype = ctypes.c_int64
    functions.revalued_append.argtypes = [pointer, pointer, ctypes.c_int, ctypes.c_double]
    for name in ("update", "outputs", "tree_set", "tree_find", "append"):
        getattr(functions, f"revalued_{name}").restype = ctypes.c_int
    return functions


def _digest() -> str:
    """Return what stands for the sources, as setup.py computes it."""
    folder = Path(__file__).parent
    sources = [*sorted(folder.glob("*.c")), *sorted(folder.glob("*.h"))]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()


def load() -> ctypes.CDLL:
    """Return the library's functions, see `kernels.h`; raises where there is none."""
    found = _load()
    if isinstance(found, str):
        raise RuntimeError(f"no native engine: {found}")
    return found


def why_missing() -> str | None:
    """Return why the library cannot be used on this machine; None where it can."""
    found = _load()
    return found if isinstance(found, str) else None
