"""Which source this is: the commit that results can be traced back to."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import revalued


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
