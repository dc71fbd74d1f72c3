"""The native engine's C code; everything else about the package is in pyproject.toml.

It is optional: without a C compiler the installation goes on, and PyTorch does the work.
"""

import hashlib
from pathlib import Path

from setuptools import Extension, setup

FOLDER = Path("src/revalued/native")
SOURCES = sorted(FOLDER.glob("*.c"))
HEADERS = sorted(FOLDER.glob("*.h"))
# the library can tell whether it was compiled from the sources that lie beside it
DIGEST = hashlib.sha256(b"".join(path.read_bytes() for path in [*SOURCES, *HEADERS])).hexdigest()
# no error numbers, traps or signed zeros: they would keep loops from using vectors; sums keep their order
NO_LIMITS = ["-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros"]

setup(
    ext_modules=[
        Extension(
            "revalued.native._kernels",
            sources=[str(path) for path in SOURCES],
            depends=[str(path) for path in HEADERS],
            define_macros=[("REVALUED_DIGEST", f'"{DIGEST}"')],
            extra_compile_args=["-std=gnu11", "-O3", "-fopenmp-simd", "-pthread", *NO_LIMITS],
            optional=True,
        )
    ]
)
