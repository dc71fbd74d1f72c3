"""Checkpoints: whole or not at all, checked before use, and never a way to run code."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

from revalued.errors import UserError
from revalued.run.checkpoint import FORMAT_VERSION, Checkpoint, CheckpointWriter, load_newest, read_checkpoint
from revalued.run.files import write_json
from run_helpers import checkpoints_in, full_disk, quick_config, sign, train, truncate


def save(folder: Path, env_steps: int, writer: CheckpointWriter | None = None) -> Path:
    """Write a checkpoint whose contents tell which one it is."""
    writer = writer or CheckpointWriter(folder)
    tensors = {"online.weight": torch.full((2, 3), float(env_steps)), "target.weight": torch.arange(6.0)}
    arrays = {"replay.heads": np.full(4, env_steps), "lanes.lengths": np.arange(3, dtype=np.uint8)}
    writer.save(env_steps, {"updates": env_steps // 5}, tensors, arrays)
    writer.wait()
    return folder / f"env-steps-{env_steps:012d}"


def load(folder: Path, **options: Any) -> tuple[Checkpoint | None, list[str]]:
    warnings: list[str] = []
    return load_newest(folder, warnings.append, **options), warnings


def test_what_was_saved_comes_back(tmp_path: Path) -> None:
    path = save(tmp_path, 100)
    checkpoint, warnings = load(tmp_path)
    assert checkpoint is not None
    assert warnings == []
    assert checkpoint.meta == {"format": FORMAT_VERSION, "env_steps": 100, "updates": 20}
    assert checkpoint.tensors["online.weight"].tolist() == [[100.0] * 3] * 2
    assert checkpoint.arrays.keys() == {"replay.heads", "lanes.lengths"}
    assert checkpoint.arrays["lanes.lengths"].dtype == np.uint8
    assert {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()} == {
        "meta.json",
        "manifest.json",
        "learner.safetensors",
        "arrays/replay.heads.npy",
        "arrays/lanes.lengths.npy",
    }
    without_arrays, _ = load(tmp_path, arrays=False)
    assert without_arrays is not None
    assert without_arrays.arrays == {}


def test_no_checkpoint_is_none(tmp_path: Path) -> None:
    assert load(tmp_path) == (None, [])
    assert load(tmp_path / "nowhere") == (None, [])


def test_tensors_of_any_layout(tmp_path: Path) -> None:
    writer = CheckpointWriter(tmp_path)
    shared = torch.arange(12.0).reshape(3, 4)
    tensors = {"transposed": shared.T, "part": shared[:, 1:3], "whole": shared}
    writer.save(5, {"updates": 1}, tensors, {})
    writer.wait()
    checkpoint, _ = load(tmp_path)
    assert checkpoint is not None
    for name, tensor in tensors.items():
        assert torch.equal(checkpoint.tensors[name], tensor)


def test_data_may_change_as_soon_as_save_returns(tmp_path: Path) -> None:
    writer = CheckpointWriter(tmp_path)
    tensor, array = torch.zeros(1000), np.zeros(100_000)
    writer.save(5, {"updates": 1}, {"weight": tensor}, {"rewards": array})
    tensor += 1
    array += 1
    writer.wait()
    checkpoint, _ = load(tmp_path)
    assert checkpoint is not None
    assert not checkpoint.tensors["weight"].any()
    assert not checkpoint.arrays["rewards"].any()


def test_two_are_kept(tmp_path: Path) -> None:
    writer = CheckpointWriter(tmp_path)
    paths = [save(tmp_path, env_steps, writer) for env_steps in (10, 20, 30, 1_000_000)]
    assert sorted(tmp_path.iterdir()) == paths[-2:]


def flip_one_bit(checkpoint: Path) -> None:
    file = checkpoint / "arrays" / "replay.heads.npy"
    data = bytearray(file.read_bytes())
    data[-3] ^= 0x10
    file.write_bytes(data)


def truncate_with_a_true_manifest(checkpoint: Path) -> None:
    truncate(checkpoint)
    sign(checkpoint, "learner.safetensors")


def name_no_learner(checkpoint: Path) -> None:
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    del manifest["learner.safetensors"]
    (checkpoint / "manifest.json").write_text(json.dumps(manifest))


def spoil_meta(checkpoint: Path) -> None:
    (checkpoint / "meta.json").write_text("[1, 2]")
    sign(checkpoint, "meta.json")


def empty(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint)
    checkpoint.mkdir()


def replace_by_a_file(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint)
    checkpoint.write_text("")


DAMAGE: dict[str, Callable[[Path], object]] = {
    "truncated file": truncate,
    "one bit flipped": flip_one_bit,
    "missing manifest": lambda path: (path / "manifest.json").unlink(),
    "empty manifest": lambda path: (path / "manifest.json").write_text(""),
    "manifest of nothing": lambda path: (path / "manifest.json").write_text("{}"),
    "manifest is a list": lambda path: (path / "manifest.json").write_text('["meta.json"]'),
    "manifest is garbage": lambda path: (path / "manifest.json").write_bytes(b"\xff\x00{"),
    "manifest without learner": name_no_learner,
    "missing array": lambda path: (path / "arrays" / "replay.heads.npy").unlink(),
    "missing tensors": lambda path: (path / "learner.safetensors").unlink(),
    "missing meta": lambda path: (path / "meta.json").unlink(),
    "garbage in meta": lambda path: (path / "meta.json").write_text("{"),
    "meta is a list": spoil_meta,
    "truncated file, manifest agrees": truncate_with_a_true_manifest,
    "nothing but the folder": empty,
    "a file instead of a folder": replace_by_a_file,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_is_passed_over(damage: str, tmp_path: Path) -> None:
    writer = CheckpointWriter(tmp_path)
    save(tmp_path, 100, writer)
    DAMAGE[damage](save(tmp_path, 200, writer))
    checkpoint, warnings = load(tmp_path)
    assert checkpoint is not None
    assert checkpoint.meta["env_steps"] == 100
    assert len(warnings) == 1
    assert "env-steps-000000000200 is damaged" in warnings[0]
    assert "\n" not in warnings[0]


def test_only_damaged_checkpoints_are_an_error(tmp_path: Path) -> None:
    writer = CheckpointWriter(tmp_path)
    for env_steps in (100, 200):
        flip_one_bit(save(tmp_path, env_steps, writer))
    warnings: list[str] = []
    with pytest.raises(UserError, match="all are damaged"):
        load_newest(tmp_path, warnings.append)
    assert len(warnings) == 2


def test_a_damaged_checkpoint_is_replaced_when_the_run_comes_there_again(tmp_path: Path) -> None:
    writer = CheckpointWriter(tmp_path)
    save(tmp_path, 100, writer)
    flip_one_bit(save(tmp_path, 200, writer))
    save(tmp_path, 200, CheckpointWriter(tmp_path))
    checkpoint, warnings = load(tmp_path)
    assert warnings == []
    assert checkpoint is not None
    assert checkpoint.meta["env_steps"] == 200


def test_a_damaged_checkpoint_never_outlives_good_ones(tmp_path: Path) -> None:
    writer = CheckpointWriter(tmp_path)
    first = save(tmp_path, 100, writer)
    flip_one_bit(save(tmp_path, 200, writer))
    second = save(tmp_path, 150, CheckpointWriter(tmp_path))
    assert checkpoints_of(tmp_path) == [first, second]


def checkpoints_of(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def test_leftovers_of_an_unfinished_write_are_ignored_and_removed(tmp_path: Path) -> None:
    path = save(tmp_path, 100)
    leftover = tmp_path / "incomplete-env-steps-000000000200"
    shutil.copytree(path, leftover)
    checkpoint, warnings = load(tmp_path)
    assert checkpoint is not None
    assert checkpoint.meta["env_steps"] == 100
    assert warnings == []
    assert leftover.exists(), "reading changes nothing"
    CheckpointWriter(tmp_path)
    assert checkpoints_of(tmp_path) == [path]


class Payload:
    """Unpickled, it makes a file: proof that code was run."""

    def __init__(self, proof: Path) -> None:
        self.proof = proof

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.proof),)


def test_an_array_of_objects_is_never_unpickled(tmp_path: Path) -> None:
    folder, proof = tmp_path / "checkpoint", tmp_path / "code was run"
    path = save(folder, 100)
    np.save(path / "arrays" / "replay.heads.npy", np.array([Payload(proof)], object), allow_pickle=True)
    sign(path, "arrays/replay.heads.npy")
    with pytest.raises(UserError, match="all are damaged"):
        load(folder)
    np.load(path / "arrays" / "replay.heads.npy", allow_pickle=True)
    assert proof.exists(), "the trap itself works"


@pytest.mark.parametrize(
    "name", ["../outside.npy", "arrays/../../outside.npy", "arrays/../outside.npy", "{absolute}", "arrays\\..\\x.npy"]
)
def test_a_manifest_cannot_name_files_outside_its_folder(name: str, tmp_path: Path) -> None:
    path = save(tmp_path / "checkpoint", 100)
    outside = tmp_path / "checkpoint" / "outside.npy"
    np.save(outside, np.arange(3))
    name = name.format(absolute=outside)
    data = outside.read_bytes()
    manifest = json.loads((path / "manifest.json").read_text())
    manifest[name] = {"bytes": len(data), "crc32": zlib.crc32(data)}
    (path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(Exception, match="belongs to no checkpoint"):
        read_checkpoint(path)


def test_another_format_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path, 100)
    meta = json.loads((path / "meta.json").read_text())
    (path / "meta.json").write_text(json.dumps({**meta, "format": FORMAT_VERSION + 1}))
    sign(path, "meta.json")
    with pytest.raises(UserError, match=f"format {FORMAT_VERSION + 1}"):
        load(tmp_path)


def test_an_error_while_writing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "save", full_disk)
    with pytest.raises(UserError, match=r"could not be written.*No space left"):
        save(tmp_path, 100)
    assert load(tmp_path) == (None, [])


def test_an_error_in_the_background_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = CheckpointWriter(tmp_path)
    good = save(tmp_path, 100, writer)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full_disk)
        with pytest.raises(UserError, match=r"could not be written.*No space left"):
            save(tmp_path, 200, writer)
    checkpoint, warnings = load(tmp_path)
    assert checkpoint is not None
    assert checkpoint.meta["env_steps"] == 100
    assert warnings == []
    CheckpointWriter(tmp_path)
    assert checkpoints_of(tmp_path) == [good]


def test_tensors_can_be_read_by_others(tmp_path: Path) -> None:
    """The learner's file is plain safetensors, so other programs can read a policy without this package."""
    path = train(quick_config("toy-levers"), tmp_path / "run")
    tensors = safetensors.torch.load_file(checkpoints_in(path)[-1] / "learner.safetensors")
    assert any(name.startswith("online.") for name in tensors)


def test_write_json_is_whole_or_nothing(tmp_path: Path) -> None:
    file = tmp_path / "data.json"
    write_json(file, {"a": 1})
    with pytest.raises(TypeError):
        write_json(file, {"a": object()})
    assert json.loads(file.read_text()) == {"a": 1}
