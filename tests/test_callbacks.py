"""Callbacks: they hear of everything, can end a run, and cannot leave it half-written."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from revalued import Event, SaveBest, StopOnReturn, UserError, load
from revalued.learner.metrics import Metrics
from revalued.run.folder import RunFolder
from revalued.run.progress import Silent, Status
from revalued.run.provenance import source_commit
from revalued.run.start import resume, start
from revalued.training.averages import MetricWindow
from revalued.training.callbacks import Callbacks
from revalued.training.trainer import Trainer
from run_helpers import assert_same_run, evolve, newest, quick_config, rows, stop_after, train
from test_agent import agent

CONFIG = quick_config("toy-levers")


class Diary:
    """Writes down everything."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def on_start(self, event: Event) -> None:
        self.events.append(event)

    on_update = on_evaluation = on_end = on_start

    def of(self, kind: str) -> list[Event]:
        return [event for event in self.events if event.kind == kind]


def test_every_update_and_every_evaluation(tmp_path: Path) -> None:
    diary = Diary()
    seen: list[float] = []
    hear = lambda event: seen.append(event.metrics["loss"]) if event.kind == "update" else None  # noqa: E731
    start(evolve(CONFIG, log_every=1), tmp_path / "run", callbacks=Callbacks([diary, hear]))
    assert [event.updates for event in diary.of("update")] == list(range(1, 51))
    table = rows(tmp_path / "run", "eval.csv")
    told = [(event.updates, event.env_steps, event.mean_return) for event in diary.of("evaluation")]
    assert told == [(int(row["updates"]), int(row["env_steps"]), float(row["return"])) for row in table]
    returns = [event.mean_return for event in diary.of("evaluation")]
    assert [event.is_best for event in diary.of("evaluation")] == [
        value > max(returns[:index], default=-1)  # type: ignore[type-var, operator]
        for index, value in enumerate(returns)
    ]
    assert seen == pytest.approx([float(row["loss"]) for row in rows(tmp_path / "run", "metrics.csv")])
    assert [(event.kind, event.updates) for event in (diary.events[0], diary.events[-1])] == [("start", 0), ("end", 50)]
    assert diary.events[0].folder == tmp_path / "run"


def test_listening_changes_nothing(tmp_path: Path) -> None:
    start(CONFIG, tmp_path / "heard", callbacks=Callbacks(Diary()))
    assert_same_run(train(CONFIG, tmp_path / "unheard"), tmp_path / "heard")


@pytest.mark.parametrize("kind", ["update", "evaluation"])
def test_false_ends_the_run_with_a_checkpoint(kind: str, tmp_path: Path) -> None:
    def stop(event: Event) -> bool:
        return not (event.kind == kind and event.updates >= 20)

    _, outcome = start(CONFIG, tmp_path / "run", callbacks=Callbacks(stop))
    assert not outcome.finished
    assert outcome.summary["updates"] == newest(tmp_path / "run").meta["updates"] == 20
    assert resume(tmp_path / "run").finished
    assert_same_run(train(CONFIG, tmp_path / "whole"), tmp_path / "run")


def test_none_and_other_false_things_do_not_end_it(tmp_path: Path) -> None:
    answers: Iterator[Any] = iter([None, 0, "", [], 0.0] * 100)
    _, outcome = start(CONFIG, tmp_path / "run", callbacks=Callbacks(lambda event: next(answers)))
    assert outcome.finished


def test_one_that_does_not_want_to_begin(tmp_path: Path) -> None:
    class Never:
        def on_start(self, event: Event) -> bool:
            return False

    _, outcome = start(CONFIG, tmp_path / "run", callbacks=Callbacks([Never()]))
    assert (outcome.finished, outcome.summary["env_steps"]) == (False, 0)


def test_one_that_raises_leaves_a_checkpoint_and_its_own_traceback(tmp_path: Path) -> None:
    calls: list[int] = []

    def careless(event: Event) -> None:
        calls.append(event.updates)
        if event.updates == 23:
            raise ZeroDivisionError("in the user's code")

    with pytest.raises(ZeroDivisionError, match="in the user's code") as caught:
        start(CONFIG, tmp_path / "run", callbacks=Callbacks(careless))
    assert [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)][-1] == "careless"
    assert calls[-1] == 23, "nobody is called any more"
    assert newest(tmp_path / "run").meta["updates"] == 23
    summary = RunFolder.open(tmp_path / "run").summary()
    assert summary is not None
    assert not summary["finished"]
    assert resume(tmp_path / "run").finished
    assert_same_run(train(CONFIG, tmp_path / "whole"), tmp_path / "run")


def test_what_is_no_callback() -> None:
    for wrong in (3, "print", object()):
        with pytest.raises(UserError, match="neither a function nor an object"):
            Callbacks([wrong])


def test_metrics_stay_where_they_are_until_they_are_read() -> None:
    """A tensor without numbers stands in for one on a GPU, for which a read would wait."""
    elsewhere, window = Metrics(["loss", "mean_q"], torch.zeros(2, device="meta")), MetricWindow()
    for _ in range(2):
        window.add(elsewhere)
    assert list(elsewhere) == ["loss", "mean_q"]
    assert len(elsewhere) == 2
    with pytest.raises(RuntimeError, match="meta"):
        elsewhere["loss"]
    with pytest.raises((RuntimeError, NotImplementedError), match="meta"):
        window.flush()
    assert dict(Metrics(["loss", "mean_q"], torch.tensor([0.5, 2.0]))) == {"loss": 0.5, "mean_q": 2.0}


def test_nobody_listens_to_updates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then no event is made for them, and without any callback none at all."""
    made: list[str] = []
    make = Trainer._event

    def counted(self: Trainer, kind: Any, *rest: Any, **more: Any) -> Event:
        made.append(kind)
        return make(self, kind, *rest, **more)

    monkeypatch.setattr(Trainer, "_event", counted)
    train(CONFIG, tmp_path / "none")
    assert made == []
    start(CONFIG, tmp_path / "evaluations", callbacks=Callbacks(StopOnReturn(1e9)))
    assert made == ["start", "evaluation", "evaluation", "evaluation", "end"]


def test_the_agent_acts_with_the_weights_of_the_moment() -> None:
    one = agent("toy-levers")
    observation = one.make_env().reset(seed=0)[0]
    seen: list[Any] = []

    def look(event: Event) -> None:
        assert event.agent is one
        seen.append(one.utilities(observation).mean.tolist())

    one.learn(120, callback=[look])
    assert len(seen) == 5  # four updates and an evaluation
    assert seen[0] != seen[1]
    assert str(seen[-1]) == str(one.utilities(observation).mean.tolist())


def test_the_agent_counts_every_update_that_is_heard(tmp_path: Path) -> None:
    """In an update's callback the agent is where the update is, not where the last evaluation was."""
    one = agent("toy-levers", eval_every=3, epsilon_decay=0.99)
    seen: list[tuple[int, int, int, int]] = []

    def look(event: Event) -> None:
        seen.append((one.updates, event.updates, one.env_steps, event.env_steps))
        if (event.kind, event.updates) == ("update", 5):
            one.save(tmp_path / "fifth", replay=False)

    one.learn(130, callback=look)
    assert [updates for updates, *_ in seen] == [1, 2, 3, 3, 4, 5, 6, 6]
    assert all(row[0] == row[1] and row[2] == row[3] for row in seen)
    saved = load(tmp_path / "fifth")
    assert (saved.updates, saved.env_steps) == (5, 120)


def test_saving_in_the_middle(tmp_path: Path) -> None:
    def save(event: Event) -> None:
        assert event.agent is not None
        with pytest.raises(UserError, match="replay=False"):
            event.agent.save(tmp_path / "whole")
        event.agent.save(tmp_path / f"{event.kind}-{event.updates}", replay=False)
        with pytest.raises(UserError, match="learning already"):
            event.agent.learn(5)

    agent("toy-levers").learn(105, callback=save)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["evaluation-1", "update-1"]
    assert load(tmp_path / "evaluation-1").updates == 1


def test_stop_on_return() -> None:
    one = agent("toy-levers").learn(350, callback=StopOnReturn(-1))
    assert one.updates == 20, "the first evaluation was good enough"
    assert one.outcome is not None
    assert not one.outcome.finished
    assert one.learn(25, callback=StopOnReturn(11)).env_steps == 225


def test_save_best(tmp_path: Path) -> None:
    diary = Diary()
    one = agent("toy-levers", eval_every=5).learn(350, callback=[SaveBest(tmp_path / "best"), diary])
    best = max(diary.of("evaluation"), key=lambda event: event.mean_return or 0)
    saved = load(tmp_path / "best")
    assert saved.updates == best.updates
    assert len({event.mean_return for event in diary.of("evaluation")}) > 1
    with pytest.raises(UserError, match="already exists"):
        agent("toy-levers").learn(5, callback=SaveBest(tmp_path / "best"))
    one.learn(5, callback=SaveBest(tmp_path / "best"))  # goes on, and has been here before
    agent("toy-levers").learn(5, callback=SaveBest(tmp_path / "best", overwrite=True))
    assert load(tmp_path / "best").env_steps == 5


class Watched(Silent):
    """A view that counts."""

    def __init__(self) -> None:
        self.seen: list[Status] = []

    def update(self, status: Status) -> None:
        self.seen.append(status)

    evaluated = update


def test_the_bar_moves_in_the_warm_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("revalued.run.recorder.SECONDS_BETWEEN_TICKS", 0.0)
    view = Watched()
    start(evolve(CONFIG, env_steps=100), tmp_path / "run", view)
    in_warm_up = [status.env_steps for status in view.seen if status.updates == 0]
    assert in_warm_up[:4] == [0, 5, 10, 15]
    assert view.seen[1].env_steps_per_second > 0


def test_the_bar_is_not_drawn_in_every_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("revalued.run.recorder.SECONDS_BETWEEN_TICKS", 1e9)
    view = Watched()
    start(evolve(CONFIG, env_steps=100), tmp_path / "run", view)
    assert [status.env_steps for status in view.seen] == [0, 100, 100]  # the start, the evaluation, the end


def test_the_summary_knows_success_and_commit(tmp_path: Path) -> None:
    path = train(CONFIG, tmp_path / "run")
    summary = RunFolder.open(path).summary()
    assert summary is not None
    assert summary["success"] is None, "levers do not tell"
    assert summary["commit"] == source_commit()


def test_success_survives_a_resume(tmp_path: Path) -> None:
    from revalued.envs import LeverGame

    class Solved(LeverGame):
        def step(self, action: Any) -> Any:
            *rest, info = super().step(action)
            return (*rest, {**info, "success": self.np_random.random() < 0.1})

    config = evolve(CONFIG, task="custom:solved", eval_episodes=3)
    path, outcome = start(config, tmp_path / "run", env=Solved)
    assert outcome.summary["success"] == float(rows(path, "eval.csv")[-1]["success"])
    resumed = resume(path, should_stop=stop_after(0), env_steps=400, env=Solved)
    assert not resumed.finished, "no further evaluation was held"
    assert resumed.summary["success"] == outcome.summary["success"]
