"""Checkpoints: folders of plain arrays that appear whole or not at all, and never run code when they are read.

`checkpoint/env-steps-000050000/` holds `meta.json`, `learner.safetensors`, one `.npy` file per array, and
`manifest.json` with the size and checksum of each. It is written under a temporary name; a background thread computes
checksums, syncs everything to disk and renames it, so a kill at any moment leaves the previous checkpoints intact.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import threading
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import safetensors.torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from torch import Tensor

from revalued.config import misfit
from revalued.errors import UserError
from revalued.run.files import read_json
from revalued.run.schemas import FileMark, Meta

FORMAT_VERSION = 1
KEPT_CHECKPOINTS = 2
_PREFIX, _TEMPORARY = "env-steps-", "incomplete-"
_REQUIRED_FILES = {"meta.json", "learner.safetensors"}
_ARRAY_FILE = re.compile(r"arrays/[A-Za-z0-9_.]+\.npy")


class DamagedCheckpointError(Exception):
    """A checkpoint's files are not what its manifest says."""


@dataclass(frozen=True)
class Checkpoint:
    """Everything that was saved, read back."""

    meta: dict[str, Any]
    tensors: dict[str, Tensor]
    arrays: dict[str, NDArray[Any]]

    def group(self, name: str) -> dict[str, NDArray[Any]]:
        """Return the arrays of one part of a run, `replay` or `lanes`, by the names that it gave them."""
        prefix = f"{name}."
        return {key.removeprefix(prefix): array for key, array in self.arrays.items() if key.startswith(prefix)}


class CheckpointWriter:
    """Writes checkpoints of one run, one at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        folder.mkdir(parents=True, exist_ok=True)
        for leftover in folder.glob(f"{_TEMPORARY}*"):
            _delete(leftover)

    def save(
        self, env_steps: int, meta: Mapping[str, Any], tensors: Mapping[str, Tensor], arrays: Mapping[str, NDArray[Any]]
    ) -> None:
        """Write the files now (the data may change afterwards) and complete the checkpoint in the background."""
        self.wait()
        name = _name_at(env_steps)
        temporary = self.folder / f"{_TEMPORARY}{name}"
        stated = {"format": FORMAT_VERSION, "env_steps": env_steps, **meta}
        try:
            (temporary / "arrays").mkdir(parents=True)
            (temporary / "meta.json").write_text(json.dumps(stated, indent=1))
            whole = {key: tensor.contiguous() for key, tensor in tensors.items()}  # as the format demands
            safetensors.torch.save_file(whole, temporary / "learner.safetensors")
            for key, array in arrays.items():
                np.save(temporary / "arrays" / f"{key}.npy", array, allow_pickle=False)
        except (OSError, SafetensorError) as error:
            raise self._failure(error) from error
        self._thread = threading.Thread(target=self._complete, args=(temporary, name), name="checkpoint")
        self._thread.start()

    def wait(self) -> None:
        """Return when the checkpoint in progress is safely on disk."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._error is not None:
            error, self._error = self._error, None
            raise self._failure(error) from error

    def _failure(self, error: BaseException) -> UserError:
        return UserError(f"the checkpoint could not be written to {self.folder}: {error}")

    def _complete(self, temporary: Path, name: str) -> None:
        try:
            files = sorted(path for path in temporary.rglob("*") if path.is_file())
            manifest = {str(path.relative_to(temporary)): _fingerprint(path) for path in files}
            (temporary / "manifest.json").write_text(json.dumps(manifest, indent=1))
            for path in [*files, temporary / "manifest.json", temporary / "arrays", temporary]:
                _sync(path)
            if (self.folder / name).exists():
                _remove(self.folder / name)
            temporary.rename(self.folder / name)
            _sync(self.folder)
            found = _checkpoints(self.folder)
            # one from this moment or later is damaged: the run has gone back behind it and come here again
            kept = [path for path in found if path.name <= name][:KEPT_CHECKPOINTS]
            for path in found:
                if path not in kept:
                    _remove(path)
        except BaseException as error:  # handed to the training thread by wait()
            self._error = error


def load_newest(folder: Path, warn: Callable[[str], None], *, arrays: bool = True) -> Checkpoint | None:
    """Return the newest checkpoint that is undamaged, warning of any that is not; None where there is none at all.

    `arrays=False` leaves replay and lanes on disk: the rest is enough to act.
    """
    found = _checkpoints(folder)
    for path in found:
        try:
            return read_checkpoint(path, arrays=arrays)
        except (DamagedCheckpointError, OSError) as error:
            warn(f"checkpoint {path.name} is damaged and left out: {error}")
    if found:
        raise UserError(f"no checkpoint in {folder} can be used: all are damaged")
    return None


def read_checkpoint(path: Path, *, arrays: bool = True) -> Checkpoint:
    """Read one checkpoint after comparing every file with the manifest; `arrays=False` leaves the replay alone."""
    manifest = _read_object(path / "manifest.json", dict[str, Any])
    for name, mark in manifest.items():
        # only names that `save` gives, and never a path that leads out of the folder
        if name not in _REQUIRED_FILES and not _ARRAY_FILE.fullmatch(name):
            raise DamagedCheckpointError(f"manifest.json names {name[:80]!r}, which belongs to no checkpoint")
        if misfit(mark, FileMark) is not None:
            raise DamagedCheckpointError(f"manifest.json does not say what {name} is like")
    if missing := sorted(_REQUIRED_FILES - manifest.keys()):
        raise DamagedCheckpointError(f"manifest.json lacks {', '.join(missing)}")
    wanted = {name: mark for name, mark in manifest.items() if arrays or name in _REQUIRED_FILES}
    for name, mark in wanted.items():
        file = path / name
        if not file.is_file() or file.stat().st_size != mark["bytes"] or _fingerprint(file) != mark:
            raise DamagedCheckpointError(f"{name} is missing or differs from the manifest")
    stated = _read_object(path / "meta.json", dict[str, Any]).get("format")
    if misfit(stated, int) is not None:
        raise DamagedCheckpointError("meta.json does not say which format it has")
    if stated != FORMAT_VERSION:
        raise UserError(f"{path} has checkpoint format {stated}, this version of revalued reads {FORMAT_VERSION}")
    meta = _read_object(path / "meta.json", Meta)
    if meta["updates"] < 0 or path.name != _name_at(meta["env_steps"]):
        raise DamagedCheckpointError("the counters in meta.json are not those of this checkpoint")
    try:
        tensors = safetensors.torch.load_file(path / "learner.safetensors")
    except Exception as error:  # whatever a crafted header leads to
        raise DamagedCheckpointError(f"learner.safetensors: {_in_short(error)}") from error
    names = [name for name in wanted if name not in _REQUIRED_FILES]
    return Checkpoint(meta, tensors, {Path(name).stem: _read_array(path / name) for name in names})


def _read_array(path: Path) -> NDArray[Any]:
    """Read an array that is as large as its file, so that a crafted header cannot ask for all memory there is."""
    try:
        with path.open("rb") as file:
            expected = _header_bytes(file)
            if path.stat().st_size != expected:
                raise ValueError(f"its header speaks of {expected:,} bytes")
            file.seek(0)
            array: NDArray[Any] = np.load(file, allow_pickle=False)
            return array
    except Exception as error:  # whatever a crafted header leads to
        raise DamagedCheckpointError(f"arrays/{path.name}: {_in_short(error)}") from error


def _header_bytes(file: BinaryIO) -> int:
    """Return how long a file with this header is."""
    layout: Any = np.lib.format  # which has no types
    version = layout.read_magic(file)
    read = {(1, 0): layout.read_array_header_1_0, (2, 0): layout.read_array_header_2_0}
    shape, _, dtype = read[version](file)
    if dtype.hasobject:
        raise ValueError("it holds objects, which could run code")
    return file.tell() + int(math.prod(shape) * dtype.itemsize)


def _in_short(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def _read_object(path: Path, schema: type[Any]) -> dict[str, Any]:
    try:
        found: dict[str, Any] = read_json(path, schema)
        return found
    except UserError as error:
        raise DamagedCheckpointError(str(error)) from error


def _remove(path: Path) -> None:
    # renamed first, so that a kill halfway through deleting leaves nothing that looks like a checkpoint
    _delete(path.rename(path.with_name(f"{_TEMPORARY}removal-{path.name}")))


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:  # nothing that this package wrote
        path.unlink()


def _name_at(env_steps: int) -> str:
    return f"{_PREFIX}{env_steps:012d}"


def _checkpoints(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{_PREFIX}*"), reverse=True)


def _fingerprint(path: Path) -> dict[str, int]:
    checksum, size = 0, 0
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            checksum = zlib.crc32(block, checksum)
            size += len(block)
    return {"bytes": size, "crc32": checksum}


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
