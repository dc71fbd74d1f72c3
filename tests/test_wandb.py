"""Weights & Biases, the real package, offline: what it wrote is read back from its file."""

from __future__ import annotations

import importlib
import json
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from revalued import UserError
from revalued.cli import main
from revalued.run.loggers import Logging
from revalued.run.start import resume, start
from run_helpers import DEADLINE_SECONDS, flags_of, quick_config, rows, stop_after

pytest.importorskip("wandb")
CONFIG = quick_config("toy-levers")


@pytest.fixture(autouse=True)
def _offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings of this machine, no network, no reports of errors."""
    for name, value in {
        "WANDB_MODE": "offline",
        "WANDB_ERROR_REPORTING": "false",
        "WANDB_SILENT": "true",
        "WANDB_CONFIG_DIR": str(tmp_path / "config"),
        "WANDB_CACHE_DIR": str(tmp_path / "cache"),
        "WANDB_DATA_DIR": str(tmp_path / "data"),
        "HOME": str(tmp_path),
    }.items():
        monkeypatch.setenv(name, value)


def records(file: Path) -> Iterator[Any]:
    """Read the records of a `.wandb` file: LevelDB's log format, in blocks of 32 KiB after a header of 7 bytes."""
    messages = importlib.import_module("wandb.proto.wandb_internal_pb2")
    data, block_size = file.read_bytes(), 32 * 1024
    position, parts = 7, b""
    while position + 7 <= len(data):
        left_in_block = block_size - position % block_size
        if left_in_block < 7:
            position += left_in_block
            continue
        _, length, kind = struct.unpack_from("<IHB", data, position)
        parts += data[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield messages.Record.FromString(parts)
            parts = b""


def complete(file: Path) -> list[Any]:
    """Read all records; the process that writes them may be a moment behind."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (found := list(records(file))) or found[-1].WhichOneof("record_type") != "exit":
        assert time.monotonic() < deadline, "the session has no end"
        time.sleep(0.01)
    return found


def logged(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a run's history, of all sessions in order."""
    found = []
    for file in sorted(path.glob("wandb/offline-run-*/*.wandb")):
        for record in complete(file):
            if record.WhichOneof("record_type") == "history":
                keys = {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
                found.append({"step": record.history.step.num, **keys})
    return found


def column(path: Path, name: str) -> list[tuple[int, float]]:
    return [(row["step"], row[name]) for row in logged(path) if name in row]


@pytest.mark.slow
def test_a_run_and_its_continuation_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    addresses: list[Any] = []
    connect = socket.socket.connect

    def noted(self: socket.socket, address: Any) -> None:
        addresses.append(address)
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", noted)
    path = tmp_path / "run"
    logging = Logging(tensorboard=False, wandb=True, wandb_project="levers")
    start(CONFIG, path, should_stop=stop_after(50), logging=logging)
    first = json.loads((path / "wandb.json").read_text())
    assert resume(path, logging=Logging(wandb=True)).finished
    assert json.loads((path / "wandb.json").read_text()) == first
    assert (first["project"], len(first["id"])) == ("levers", 8)
    sessions = [folder.name.rpartition("-")[2] for folder in path.glob("wandb/offline-run-*")]
    assert sessions == [first["id"]] * 2
    assert all(isinstance(address, str) or address[0] == "127.0.0.1" for address in addresses), addresses

    returns = [(int(row["updates"]), float(row["return"])) for row in rows(path, "eval.csv")]
    assert column(path, "eval/return") == returns
    losses = [(int(row["updates"]), float(row["loss"])) for row in rows(path, "metrics.csv")]
    assert column(path, "train/loss") == losses
    assert dict(column(path, "env_steps"))[20] == int(rows(path, "eval.csv")[0]["env_steps"])
    assert not (path / "tensorboard" / "wandb").exists()


@pytest.mark.slow
def test_by_flag_and_by_keyword(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run"
    short = flags_of(quick_config("toy-levers", env_steps=120))
    assert main(["train", *short, "--out", str(path), "--wandb", "--wandb-project", "us", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert json.loads((path / "wandb.json").read_text())["project"] == "us"
    assert main(["resume", str(path), "--env-steps", "130", "--wandb", "--quiet"]) == 0
    assert [step for step, _ in column(path, "eval/return")] == [4, 6]


def test_without_an_account_the_message_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import wandb

    def refuse(**options: Any) -> None:
        raise wandb.errors.UsageError("api_key not configured (no-tty)")

    monkeypatch.setattr(wandb, "init", refuse)
    with pytest.raises(UserError, match=r"api_key not configured .*WANDB_MODE=offline"):
        start(CONFIG, tmp_path / "run", logging=Logging(wandb=True))
    assert not (tmp_path / "run" / "wandb.json").exists()
