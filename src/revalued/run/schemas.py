"""What the JSON files of a run hold, as types: `files.read_json` checks what it reads against them.

Entries that a schema does not name are left alone, so that an older version can read what a newer one wrote.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class RunSummary(TypedDict):
    """summary.json."""

    finished: bool
    env_steps: int
    updates: NotRequired[int]
    final_return: NotRequired[float | None]
    best_return: NotRequired[float | None]
    best_at_updates: NotRequired[int | None]
    success: NotRequired[float | None]
    train_episodes: NotRequired[int]
    wall_seconds: NotRequired[float]
    versions: NotRequired[dict[str, str]]
    machine: NotRequired[dict[str, str | int | None]]
    commit: NotRequired[str]


class FileMark(TypedDict):
    """What a manifest says about a file."""

    bytes: int
    crc32: int


class StoredRandom(TypedDict):
    """The random streams of a run; each state is checked by the generator that takes it over."""

    replay: dict[str, Any]
    exploration: NotRequired[dict[str, Any]]


class StoredWindow(TypedDict):
    """Sums of the metrics since the last row of the log."""

    names: list[str]
    sums: list[float]
    count: int


class StoredEpisodes(TypedDict):
    """Returns of the training episodes."""

    running: list[float]
    finished: list[float]
    total_episodes: int


class TableRows(TypedDict):
    """How many rows the tables have that the checkpoint knows of."""

    eval: int
    metrics: int


class StoredRecord(TypedDict):
    """What a run has told so far."""

    window: StoredWindow
    episodes: StoredEpisodes
    best: tuple[float, int] | None
    last: tuple[float, int] | None
    success: NotRequired[float | None]
    wall_seconds: float
    rows: NotRequired[TableRows]


class StoredFleet(TypedDict):
    """What is known of the actors."""

    incarnations: list[int]
    lost: int
    max_staleness: int


class StoredSizes(TypedDict):
    """The sizes of what the critics take and choose."""

    observation_size: int
    sizes: list[int]


class StoredEnvironment(TypedDict):
    """What has to be known of an environment to act in it; the spaces are in the form of `envs.spaces.stored`."""

    observation_space: dict[str, Any]
    """What users see."""
    action_space: dict[str, Any]
    """The environment's own."""
    keeps_spaces: bool
    """Whether users see the environment's own spaces."""
    action_names: list[str]
    reward_range: tuple[float, float] | None
    max_episode_steps: int | None
    masked: bool


class Meta(TypedDict):
    """meta.json of a checkpoint; one that can only act has neither `rng` nor `record`."""

    env_steps: int
    updates: int
    task: NotRequired[str]
    acting_only: NotRequired[bool]
    spaces: NotRequired[StoredSizes]
    environment: NotRequired[StoredEnvironment]
    rng: NotRequired[StoredRandom]
    record: NotRequired[StoredRecord]
    epsilon: NotRequired[float]
    exploratory_actions: NotRequired[int]
    fleet: NotRequired[StoredFleet]


class WandbRun(TypedDict):
    """wandb.json: which run of Weights & Biases this is."""

    id: NotRequired[str | None]
    project: NotRequired[str | None]
    entity: NotRequired[str | None]


class Origin(TypedDict):
    """origin.json: which source made a run."""

    commit: NotRequired[str]


class VariantFacts(TypedDict):
    """A variant of an experiment."""

    label: NotRequired[str]
    overrides: NotRequired[dict[str, bool | int | float | str | None]]


class RunFacts(TypedDict):
    """A run of an experiment."""

    variant: str
    task: str
    seed: int
    status: str
    env_steps: NotRequired[int]
    wall_s: NotRequired[float | None]
    commit: NotRequired[str | None]
    threads: NotRequired[int | None]
    processor: NotRequired[str | int | None]
    folder: NotRequired[str]


class Provenance(TypedDict):
    """provenance.json: where an experiment's results come from."""

    experiment: NotRequired[str]
    title: NotRequired[str]
    scale: NotRequired[str]
    scale_note: NotRequired[str]
    commit: NotRequired[str]
    versions: NotRequired[dict[str, str]]
    machine: NotRequired[dict[str, str | int | None]]
    written_at: NotRequired[str]
    seeds: NotRequired[list[int]]
    tasks: NotRequired[list[str]]
    variants: NotRequired[dict[str, VariantFacts]]
    runs: NotRequired[list[RunFacts]]
    planned_env_steps: NotRequired[int]
