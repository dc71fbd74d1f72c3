"""What results can be traced back to: the commit of the source, versions of packages, the machine."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import revalued

_PACKAGES = ("revalued", "torch", "numpy", "gymnasium", "dm_control", "mujoco", "metaworld")


@cache
def source_commit() -> str:
    """Return the commit of the source, marked where files differ from it; outside a checkout the package's version."""
    package = Path(revalued.__file__).parent
    version = f"revalued {revalued.__version__}"
    # A virtual environment may lie within somebody's own repository: only one that tracks this very file counts.
    if _git(package, "ls-files", "--error-unmatch", "__init__.py") is None:
        return version
    commit = _git(package, "rev-parse", "HEAD")
    if commit is None:
        return version
    changed = _git(package, "status", "--porcelain", "--untracked-files=no", "--", ".")
    return f"{commit} with changes" if changed else commit


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def versions() -> dict[str, str]:
    """Return the versions of everything that results depend on."""
    return {"python": platform.python_version()} | {name: _version(name) for name in _PACKAGES}


@cache  # every checkpoint asks, and the answer takes milliseconds
def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def machine() -> dict[str, Any]:
    """Return what kind of machine this is."""
    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        names = [
            line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "processor": model,
        "cores": os.cpu_count(),
    }
