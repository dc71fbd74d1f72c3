"""One page about a run: how it learnt, what it thinks along an episode, what is in its replay."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from revalued.config import to_dict
from revalued.envs import EnvSource
from revalued.envs.spaces.choice_table import ChoiceTable, choice_table
from revalued.envs.spaces.factored import FactoredEnv
from revalued.errors import UserError
from revalued.report import pages
from revalued.report.drawing import Panel, panel_svg, require_matplotlib
from revalued.report.inspection.episode import EpisodeRecord, record_episode
from revalued.report.inspection.episode_panels import (
    ILLEGAL,
    agreement_panels,
    choice_panels,
    colour_of,
    utility_panels,
    value_panels,
)
from revalued.report.inspection.replay_errors import ReplayErrors, replay_errors
from revalued.report.inspection.run_panels import curves, learning_panels, replay_panels
from revalued.report.video import check_video, record_video
from revalued.run.load import SavedRun, load_run
from revalued.training.evaluation import Watch, checked_seeds, cut_off_note

GENERATOR = "revalued inspect"
CLOSE_UP_STEPS = 100
LARGEST_EMBEDDED_VIDEO = 20_000_000
"""Bytes; a larger video lies beside the page."""


@dataclass(frozen=True)
class Played:
    """The episodes of a page, and the video of the first or why there is none."""

    records: list[EpisodeRecord]
    choices: ChoiceTable
    video: bytes | None
    why_no_video: str
    """Empty where there is a video, or where none was wanted."""


def inspect_run(
    path: Path,
    out: Path | None = None,
    warn: Callable[[str], None] = lambda text: None,
    *,
    episodes: int = 1,
    seed: int = 0,
    video: bool = True,
    force: bool = False,
    env: EnvSource | None = None,
    trust_modules: Collection[str] = (),
) -> Path:
    """Write the page about a run, `inspect.html` in its folder unless told otherwise, and return where it is.

    The episodes are those of `revalued evaluate` with the same seed; without any, the environment is not built. A file
    that is no earlier page of this kind is replaced only by `force`.
    """
    if episodes < 0:
        raise UserError(f"episodes = {episodes} is not possible: it must be at least 0")
    seeds = checked_seeds(seed, episodes) if episodes else []
    require_matplotlib()
    run = load_run(path, warn, env, trust_modules=trust_modules, needs_env=episodes > 0, replay=True)
    out = path / "inspect.html" if out is None else out
    mark = pages.generator_tag(GENERATOR)
    pages.check_replaceable(out, mark, force)
    _refuse_unwritable(out)
    beside = out.with_suffix(".mp4")
    may_replace_video = force or out.exists() or not beside.exists()
    played = play_episodes(run, seeds, video=video) if episodes else None
    if played is not None and any(record.outcome.is_cut_off for record in played.records):
        warn(cut_off_note(run.config.schedule.max_eval_steps))
    if played is not None and played.video is not None and len(played.video) > LARGEST_EMBEDDED_VIDEO:
        if not may_replace_video:
            raise UserError(f"the video is too large for the page, and {beside} exists: move it away or add --force")
        out.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(played.video)
    pages.write_own(out, page_of(run, played, replay_errors(run), seed, beside.name), mark, force)
    return out


def _refuse_unwritable(out: Path) -> None:
    """Raise an OSError where no file can be written, before everything is played and drawn."""
    folder = next(parent for parent in out.absolute().parents if parent.exists())
    with tempfile.TemporaryFile(dir=folder):
        pass


def play_episodes(run: SavedRun, seeds: Iterable[int], *, video: bool) -> Played:
    """Play the episodes, with a video of the first if wanted and possible."""
    first_seed, *seeds_left = seeds
    records: list[EpisodeRecord] = []
    video_bytes, reason = None, ""
    if video:
        try:
            video_bytes, first = _with_video(run, first_seed)
            records.append(first)
        except UserError as error:
            reason = str(error)
    with closing(run.task.make()) as env:
        records += [_record(run, env, seed) for seed in (seeds_left if records else [first_seed, *seeds_left])]
        return Played(records, choice_table(env), video_bytes, reason)


def _with_video(run: SavedRun, seed: int) -> tuple[bytes, EpisodeRecord]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "episode.mp4"
        check_video(path)
        with closing(run.task.make("rgb_array")) as env, record_video(env, path) as watch:
            record = _record(run, env, seed, watch)
        return path.read_bytes(), record


def _record(run: SavedRun, env: FactoredEnv, seed: int, watch: Watch = lambda total_reward: None) -> EpisodeRecord:
    decomposition, max_steps = run.config.algorithm.decomposition, run.config.schedule.max_eval_steps
    return record_episode(env, run.policy, seed, decomposition=decomposition, watch=watch, max_steps=max_steps)


def page_of(run: SavedRun, played: Played | None, errors: ReplayErrors | None, seed: int, video_name: str) -> str:
    """Return the page as HTML; a video too large to be embedded is linked to under `video_name`."""
    config = run.config
    several = config.algorithm.critics > 1
    tests = run.folder.eval_table.rows()
    facts: list[tuple[str, object]] = []
    if played is not None:
        outcome = played.records[0].outcome
        facts.append(("return of this episode", _number(outcome.total_reward)))
        facts.append(("steps of this episode", f"{outcome.length:,}"))
    facts.append(("interactions trained", f"{run.meta['env_steps']:,}"))
    facts.append(("updates", f"{run.meta['updates']:,}"))
    returns = curves(tests, ["return"]).get("return")
    if returns is not None:
        facts.append(("best test return", _number(max(returns[1]))))
    if several and played is not None:
        agreement = np.concatenate([record.judgement.agreement for record in played.records]).mean()
        facts.append(("critics that choose as the ensemble", f"{agreement:.0%}"))
    critics = f"{config.algorithm.critics} critics" if several else "1 critic"
    lead = f"{config.algo}, {critics}, seed {config.seed}, at its newest checkpoint"
    lead += "." if played is None else f"; test episode of seed {seed}."
    sections = [
        _learning(run, tests),
        *([] if played is None else [_episode(run, played, video_name), _utilities(run, played), _choices(played)]),
        _replay(errors, config.replay.prioritised),
        pages.section("Configuration", _configuration(run)),
    ]
    introduction = pages.join([pages.paragraph(lead, "lead"), pages.tiles(facts)])
    return pages.page(f"{config.task}: inside the agent", sections, introduction, GENERATOR)


def _number(value: float) -> str:
    return f"{value:,.1f}".replace("-", "−")


def _drawn(panels: Sequence[Panel]) -> list[pages.Html]:
    return [pages.inline_svg(panel_svg(panel), panel.description) for panel in panels]


def _learning(run: SavedRun, tests: list[dict[str, str]]) -> pages.Section:
    panels = learning_panels(tests, run.folder.metric_table.rows(), run.config.learner.gradient_clip)
    if not panels:
        return pages.section("Learning", pages.paragraph("This folder has no rows in eval.csv and metrics.csv."))
    caption = "From eval.csv and metrics.csv; each point of the log is a mean over the updates since the last one."
    return pages.section("Learning", pages.panels(_drawn(panels), caption))


def _episode(run: SavedRun, played: Played, video_name: str) -> pages.Section:
    cells = _drawn(value_panels(played.records[0], run.config.algorithm.discount, run.config.learner.reward_scale))
    parts: list[pages.Html] = []
    if played.why_no_video:
        parts.append(pages.paragraph(f"No video: {played.why_no_video}.", "note"))
    elif played.video is not None and len(played.video) > LARGEST_EMBEDDED_VIDEO:
        size = f"{len(played.video) / 1e6:.0f} MB"
        anchor = pages.Html(f'<a href="{pages.escape(video_name)}">{pages.escape(video_name)}</a>')
        parts.append(pages.paragraph(pages.join(["The video is a file beside this page:", anchor, f"({size})"], " ")))
    elif played.video is not None:
        data = base64.b64encode(played.video).decode()
        video = '<video controls muted loop playsinline style="width:100%" aria-label="video of the episode" '
        cells.insert(0, pages.Html(f'{video}src="data:video/mp4;base64,{data}"></video>'))
    caption = (
        "What came is the discounted sum of the rewards up to the end of the episode, so it drops there if the episode "
        "met its time limit."
    )
    if run.config.algorithm.critics > 1:
        caption = f"Q is the ensemble's mean, the band one standard deviation over critics. {caption}"
    parts.append(pages.panels(cells, caption))
    if len(played.records) > 1:
        rows = [
            (number, _number(record.outcome.total_reward), f"{record.outcome.length:,}")
            for number, record in enumerate(played.records, start=1)
        ]
        parts.append(pages.table(("episode", "return", "steps"), rows, "All episodes; the pictures show the first."))
    return pages.section("The episode", pages.join(parts))


def _utilities(run: SavedRun, played: Played) -> pages.Section:
    legend = [("best choice, which is taken", colour_of(1.0)), ("worse by the range or more", colour_of(0.0))]
    if played.records[0].masks is not None:
        legend.append(("illegal", ILLEGAL))
    caption = (
        "One map per dimension: steps from left to right, one row per choice, labelled with the environment's value. "
        "The colour is the utility below that of the best choice; the range is what lies between best and worst."
    )
    if run.policy.shape.actions.atomic_over is not None:
        caption += " This agent values whole combinations: shown is the best one that contains the choice."
    record, length = played.records[0], len(played.records[0].actions)
    content = pages.panels(_drawn(utility_panels(record, played.choices, range(length))), caption, legend)
    if length >= 2 * CLOSE_UP_STEPS:
        middle = (length - CLOSE_UP_STEPS) // 2
        close = _drawn(utility_panels(record, played.choices, range(middle, middle + CLOSE_UP_STEPS)))
        text = f"The same for {CLOSE_UP_STEPS} steps from the middle of the episode."
        content = pages.join([content, pages.folded("A closer look, step by step", pages.panels(close, text, legend))])
    return pages.section("Utilities along the episode", content)


def _choices(played: Played) -> pages.Section:
    count = sum(len(record.actions) for record in played.records)
    caption = f"Over {count:,} steps of greedy play; the labels are the values that the environment receives."
    panels = choice_panels(played.records, played.choices)
    agreement = agreement_panels(played.records, played.choices)
    if agreement:
        caption += " Agreement: how often a critic by itself would choose what the ensemble's mean chooses."
    return pages.section("Choices", pages.panels(_drawn([*panels, *agreement]), caption))


def _replay(errors: ReplayErrors | None, prioritised: bool) -> pages.Section:
    if errors is None:
        return pages.section("Replay", pages.paragraph("The checkpoint holds no transitions that could be sampled."))
    caption = (
        f"{len(errors.uniform):,} of {errors.num_stored:,} transitions. |y − Q| is the mean over critics under the "
        f"checkpoint's networks: mean {errors.uniform.mean():.3g}, median {np.median(errors.uniform):.3g}."
    )
    if prioritised and errors.priorities is not None:
        caption += " New transitions enter at the largest priority seen, which makes the bump at the right end."
    return pages.section("Replay", pages.panels(_drawn(replay_panels(errors)), caption))


def _configuration(run: SavedRun) -> pages.Html:
    rows: list[tuple[str, str]] = []
    for name, value in to_dict(run.config).items():
        entries = value.items() if isinstance(value, dict) else [(name, value)]
        rows += [(entry, json.dumps(given)) for entry, given in entries]
    return pages.folded("every setting of the run", pages.table(("name", "value"), rows))
