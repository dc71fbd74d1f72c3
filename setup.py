"""The native engine's C code; everything else about the package is in pyproject.toml.

It is optional: without a C compiler the installation goes on, and PyTorch does the work. It is compiled with OpenMP but
linked to no OpenMP library, for it must use the one that PyTorch has loaded (see engines/native/library.py).
"""

from setuptools import Extension, setup

FOLDER = "src/revalued/engines/native"
NO_LIMITS = ["-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros"]

setup(
    ext_modules=[
        Extension(
            "revalued.engines.native._kernels",
            sources=[f"{FOLDER}/{name}.c" for name in ("acting", "loss", "passes", "update")],
            depends=[f"{FOLDER}/kernels.h"],
            # no error numbers, traps or signed zeros: they would keep loops from using vectors; sums keep their order
            extra_compile_args=["-std=gnu11", "-O3", "-fopenmp", *NO_LIMITS],
            optional=True,
        )
    ]
)
