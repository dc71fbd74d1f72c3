"""Files that were crafted or damaged: one line that names the file, never a traceback, never a wait without end."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np
import pytest
import torch
from campaign.mutations import IRREGULAR, make_irregular
from safetensors.torch import load_file, save_file

from revalued.cli import main
from revalued.config import misfit
from revalued.errors import UserError
from revalued.experiments.result_files import origin_commit
from revalued.run.files import read_json, replace_file
from revalued.run.folder import RunFolder
from revalued.run.start import start
from revalued.seeding import restore_rng, rng_state, stream_rng
from run_helpers import checkpoints_in, evolve, newest, quick_config, refusal, rows, sign, stop_after, train

CONFIG = quick_config("toy-levers", checkpoint_every=20)


class Inner(TypedDict):
    names: list[str]


class Outer(TypedDict):
    count: int
    rate: float
    inner: Inner
    pair: tuple[float, int] | None
    more: NotRequired[dict[str, int]]


GOOD: dict[str, Any] = {"count": 1, "rate": 2, "inner": {"names": ["a"]}, "pair": [1.5, 2], "more": {"a": 1}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, None),
        ({"pair": None, "unheard_of": [[]]}, None),
        ({"count": True}, "count is True"),
        ({"count": 1.0}, r"count is 1\.0"),
        ({"count": 10**400}, r"count is 1000.*\.\.\..*0"),
        ({"rate": 10**400}, "rate is 1000"),
        ({"rate": "1"}, "rate is '1'"),
        ({"inner": []}, r"inner is \[\], not an object"),
        ({"inner": {}}, "inner lacks names"),
        ({"inner": {"names": ["a", 3]}}, r"inner\.names\[1\] is 3"),
        ({"inner": {"names": "abc"}}, r"inner\.names is 'abc'"),
        ({"inner": {"names": ["\ud800"]}}, r"inner\.names\[0\] is "),
        ({"inner": {"names": ["a\0b"]}}, r"inner\.names\[0\] is "),
        ({"pair": [1.0]}, "pair is"),
        ({"pair": [1.0, 2.0]}, "pair"),
        ({"more": {"a": None}}, r"more\.'a' is None"),
    ],
)
def test_a_schema_finds_what_is_wrong(change: dict[str, Any], message: str | None) -> None:
    found = misfit({**GOOD, **change}, Outer)
    if message is None:
        assert found is None
    else:
        with pytest.raises(UserError, match=message):
            raise UserError(str(found))
        assert len(str(found)) < 300


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "3", "null", "[" * 100_000, '{"a":' * 100_000, '{"a": NaN}', '{"a": -Infinity}', '{"a": 1e999}',
        '{"a": ' + "9" * 5_000 + "}", "{}", '{"count": {}}', "\ufeff{}",
    ],
    ids=lambda text: text[:20],
)  # fmt: skip
def test_json_is_read_with_suspicion(text: str, tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    path.write_text(text)
    with pytest.raises(UserError, match=r"facts\.json cannot be used") as caught:
        read_json(path, Outer)
    assert len(str(caught.value)) < 500
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with two checkpoints."""
    path = tmp_path_factory.mktemp("hostile") / "run"
    start(CONFIG, path, should_stop=stop_after(65))
    assert len(checkpoints_in(path)) == 2
    return path


@pytest.fixture
def run(unfinished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(unfinished, tmp_path / "run"))


@pytest.mark.parametrize("kind", IRREGULAR)
def test_something_else_in_the_place_of_a_file(
    kind: str, unfinished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("config.json", "summary.json", "eval.csv", "metrics.csv"):
        path = Path(shutil.copytree(unfinished, tmp_path / name))
        make_irregular(path / name, kind)
        assert f"{name} cannot be used" in refusal(capsys, "resume", path, "--quiet")
    path = Path(shutil.copytree(unfinished, tmp_path / "all"))
    for checkpoint in checkpoints_in(path):
        make_irregular(checkpoint / "manifest.json", kind)
    assert "all are damaged" in refusal(capsys, "evaluate", path)
    assert "all are damaged" in refusal(capsys, "export", path, tmp_path / "policy.onnx")
    make_irregular(tmp_path / "origin.json", kind)
    with pytest.raises(UserError, match="cannot be used"):
        origin_commit(tmp_path)


@pytest.mark.parametrize("kind", IRREGULAR[1:])
def test_leftovers_are_no_trap(kind: str, run: Path, tmp_path: Path) -> None:
    """What looks like the leftover of a kill is removed, not written to, wherever it leads."""
    make_irregular(run / ".config.unfinished.json", kind)
    make_irregular(run / "checkpoint" / "incomplete-env-steps-1", kind)
    (run / "checkpoint" / "incomplete-notes").write_text("a file")
    assert main(["resume", str(run), "--quiet"]) == 0
    assert not list(run.glob(".*"))
    assert not list((run / "checkpoint").glob("incomplete-*"))
    replace_file(tmp_path / "a.txt", "a")
    assert (tmp_path / "a.txt").read_text() == "a"


def test_config_under_another_name_alone(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "config.json").rename(run / "config.json.new")
    assert "no run folder" in refusal(capsys, "resume", run)


def change_meta(run: Path, change: Callable[[dict[str, Any]], object]) -> None:
    for checkpoint in checkpoints_in(run):
        meta = json.loads((checkpoint / "meta.json").read_text())
        change(meta)
        (checkpoint / "meta.json").write_text(json.dumps(meta))
        sign(checkpoint, "meta.json")


@pytest.mark.parametrize(
    "change",
    [
        lambda meta: meta.update(env_steps=10**400),
        lambda meta: meta.update(env_steps=-1),
        lambda meta: meta.update(env_steps=meta["env_steps"] + 5),
        lambda meta: meta.update(updates="many"),
        lambda meta: meta.update(updates=-3),
        lambda meta: meta.update(format=None),
        lambda meta: meta.update(task=["toy-levers"]),
        lambda meta: meta.update(rng=[]),
        lambda meta: meta["rng"].update(replay=3),
        lambda meta: meta.update(record=None),
        lambda meta: meta["record"].update(best=[1]),
        lambda meta: meta["record"].update(last={"a": 1}),
        lambda meta: meta["record"].update(rows={"eval": "x", "metrics": 1}),
        lambda meta: meta["record"]["episodes"].update(running=[None] * 5),
        lambda meta: meta["record"]["window"].update(sums="x"),
        lambda meta: meta.update(spaces={"sizes": "x", "observation_size": 1}),
        lambda meta: meta.update(environment=7),
        lambda meta: meta.update(fleet=[]),
        lambda meta: meta.update(epsilon=float("nan")),
    ],
)
def test_meta_data_of_another_form_is_damage(
    change: Callable[[dict[str, Any]], object], run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change_meta(run, change)
    for words in (["resume", run, "--quiet"], ["evaluate", run]):
        assert "all are damaged" in refusal(capsys, *words)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda meta: meta["rng"]["replay"].pop("state"), "random stream"),
        (lambda meta: meta["rng"]["replay"]["state"].update(state=-1), "random stream"),
        (lambda meta: meta["rng"]["replay"]["state"].update(inc=2**128), "random stream"),
        (lambda meta: meta["rng"]["exploration"].update(bit_generator="MT19937"), "not that of PCG64"),
        (lambda meta: meta["rng"]["exploration"].update(uinteger="x"), "random stream"),
        (lambda meta: meta["rng"].pop("exploration"), "by a run with actors"),
        (lambda meta: meta["record"]["episodes"].update(running=[0.0]), "not those of these lanes"),
        (lambda meta: meta["record"]["window"].update(names=["loss"]), "do not fit each other"),
        (lambda meta: meta.pop("record"), "lacks record"),
    ],
)
def test_a_state_that_nothing_can_go_on_from(
    change: Callable[[dict[str, Any]], object], message: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (run / "config.json").read_bytes()
    change_meta(run, change)
    assert message in refusal(capsys, "resume", run, "--quiet", "--env-steps", 1_000)
    assert (run / "config.json").read_bytes() == before
    assert main(["evaluate", str(run), "--episodes", "1"]) == 0, "nothing of it is needed to act"


def test_metrics_of_another_engine_are_not_added_to(run: Path) -> None:
    change_meta(run, lambda meta: meta["record"]["window"].update(names=["x", "y"], sums=[1.0, 2.0], count=3))
    assert main(["resume", str(run), "--quiet"]) == 0
    assert rows(run, "metrics.csv")[-1]["loss"]


def test_random_streams_come_back_to_the_bit() -> None:
    rng, other = stream_rng(3), stream_rng(4)
    rng.random(7, np.float32)
    restore_rng(other, json.loads(json.dumps(rng_state(rng))))
    assert rng.random(5).tolist() == other.random(5).tolist()


def change_array(run: Path, name: str, change: Callable[[Any], Any]) -> None:
    for checkpoint in checkpoints_in(run):
        file = checkpoint / "arrays" / f"{name}.npy"
        np.save(file, change(np.load(file)))
        sign(checkpoint, f"arrays/{name}.npy")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("replay.next_rows", lambda array: array + 10**6),
        ("replay.actions", lambda array: array + 100),
        ("replay.observations", lambda array: array * np.nan),
        ("replay.leaves", lambda array: array * 1e300),
        ("replay.heads", lambda array: array + 2**62),
        ("replay.heads", lambda array: np.where(np.arange(len(array)) == 1, -1, array)),
        ("replay.discount", lambda array: np.array([[1]])),
        ("lanes.actions", lambda array: array + 100),
        ("lanes.actions", lambda array: array.astype(np.float32)),
        ("lanes.actions", lambda array: array[:, :1]),
        ("lanes.lengths", lambda array: array - 10**6),
        ("lanes.lengths", lambda array: array.astype(bool)),
        ("lanes.episodes", lambda array: array - 100),
        ("lanes.episodes", lambda array: array + (2**63 - 10)),
        ("lanes.episodes", lambda array: array[:2]),
        ("lanes.masks", lambda array: array.astype(np.int8)),
        ("lanes.observations", lambda array: array.astype(complex)),
    ],
)
def test_arrays_that_would_lead_astray(
    name: str, change: Callable[[Any], Any], run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change_array(run, name, change)
    assert "is damaged or does not match config.json" in refusal(capsys, "resume", run, "--quiet")
    if name.startswith("replay.") and -1 not in np.load(checkpoints_in(run)[0] / "arrays" / "replay.heads.npy"):
        assert "is damaged or does not match" in refusal(capsys, "inspect", run, "--no-video")


@pytest.mark.parametrize("content", ["", "header", "short", "objects"])
def test_an_array_file_that_promises_too_much(content: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A header that speaks of terabytes is compared with the file before any memory is asked for."""
    for checkpoint in checkpoints_in(run):
        file = checkpoint / "arrays" / "replay.returns.npy"
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }".ljust(117) + b"\n"
        crafted = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
        if content == "objects":
            np.save(file, np.array([{}], object), allow_pickle=True)
        else:
            file.write_bytes({"": b"", "header": crafted, "short": file.read_bytes()[:-3]}[content])
        sign(checkpoint, "arrays/replay.returns.npy")
    assert "all are damaged" in refusal(capsys, "resume", run, "--quiet")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["online.head.bias", "target.input", "adam.first_moment.input"])
def test_parameters_that_are_no_numbers(
    name: str, value: float, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for checkpoint in checkpoints_in(run):
        tensors = load_file(checkpoint / "learner.safetensors")
        tensors[name].view(-1)[0] = value
        save_file(tensors, checkpoint / "learner.safetensors")
        sign(checkpoint, "learner.safetensors")
    assert f"{name} holds numbers that are not finite" in refusal(capsys, "resume", run, "--quiet")
    if not name.startswith("adam"):
        for words in (["evaluate", run], ["export", run, tmp_path / "policy.onnx"]):
            assert "holds numbers that are not finite" in refusal(capsys, *words)


def test_parameters_of_another_type(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for checkpoint in checkpoints_in(run):
        tensors = load_file(checkpoint / "learner.safetensors")
        tensors["online.input"] = tensors["online.input"].to(torch.float64)
        save_file(tensors, checkpoint / "learner.safetensors")
        sign(checkpoint, "learner.safetensors")
    for words in (["resume", run, "--quiet"], ["evaluate", run]):
        assert "online.input does not fit this network" in refusal(capsys, *words)


def test_a_normaliser_whose_sums_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = train(evolve(CONFIG, normalise_observations=True), tmp_path / "run")
    for checkpoint in checkpoints_in(run):
        tensors = load_file(checkpoint / "learner.safetensors")
        tensors["observations.squares"][0] = -1.0
        save_file(tensors, checkpoint / "learner.safetensors")
        sign(checkpoint, "learner.safetensors")
    assert "not those of any observations" in refusal(capsys, "evaluate", run)
    assert "not those of any observations" in refusal(capsys, "resume", run, "--env-steps", 400, "--quiet")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("summary.json", '{"finished": true, "env_steps": "many"}'),
        ("summary.json", '{"finished": 1, "env_steps": 5}'),
        ("summary.json", '{"finished": true}'),
        ("config.json", '{"task": "toy-levers", "seed": ' + "9" * 400 + "}"),
        ("config.json", '{"task": "toy-levers", "algo": "' + "x" * 10_000 + '"}'),
        ("config.json", '{"task": "' + "x" * 10_000 + '"}'),
        ("config.json", '{"task": "\\ud800"}'),
        ("config.json", '{"task": "toy-levers", "learner": {"learning_rate": 1e999}}'),
        ("config.json", '{"task": "toy-levers", "' + "x" * 10_000 + '": 1}'),
        ("config.json", '{"task": "toy-levers", "algorithm": {"head": {"a": 1}}}'),
    ],
    ids=lambda text: text[:30],
)
def test_entries_of_the_wrong_kind(name: str, text: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / name).write_text(text)
    refusal(capsys, "resume", run, "--quiet")


def test_the_rows_of_a_sound_run_are_counted(unfinished: Path) -> None:
    counted = newest(unfinished).meta["record"]["rows"]
    folder = RunFolder.open(unfinished)
    assert counted == {"eval": len(folder.eval_table.rows()), "metrics": len(folder.metric_table.rows())}
    assert counted["eval"] == 2
