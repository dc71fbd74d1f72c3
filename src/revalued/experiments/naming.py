"""Names of what is compared: labels of variants, and tasks with their settings as files and readers know them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from revalued.errors import UserError
from revalued.experiments.scales import EQUAL_PRICE

DEFAULT_BINS = 3
DEFAULT_NOISE = 0.1
"""Standard deviation that a noise suffix without a number stands for: the paper's."""
_NOISES = ("reward-noise", "state-noise")

VARIANT_LABELS = {
    "revalued": "REValueD",
    "decqn": "DecQN",
    "bdq": "BDQ",
    "decqn-wide": f"DecQN, {EQUAL_PRICE['hidden_size']} wide",
    "decqn-tuned": "DecQN, tuned",
    "decqn-paper": "DecQN, the paper's settings",
    "lean": "Lean",
    "decqn-ensemble": "DecQN+Ensemble",
    "decqn-sum": "DecQN-Sum",
    "decqn-c51": "DecQN-C51",
    "bdq-ensemble": "BDQ+Ensemble",
    "decqn-sum-ensemble": "DecQN-Sum+Ensemble",
    "dqn": "DQN",
    "revalued-quadratic": "REValueD, quadratic weights",
    "revalued-mean": "REValueD, mean over dimensions",
    "revalued-mean-of-max": "REValueD, mean of maxima",
}
"""What people call a variant, for legends and tables."""
_SYMBOLS = {"k": "K", "beta": "β", "c": "c"}


def variant_label(variant: str) -> str:
    """Return a variant's name for readers; `revalued-k3` is REValueD, K = 3."""
    if variant in VARIANT_LABELS:
        return VARIANT_LABELS[variant]
    parts = re.fullmatch(r"(.+)-(k|beta|c)([\d.]+)", variant)
    return variant if parts is None else f"{variant_label(parts[1])}, {_SYMBOLS[parts[2]]} = {parts[3]}"


@dataclass(frozen=True, order=True)
class Setting:
    """How a task is set up: bins per dimension and noise."""

    bins: int = DEFAULT_BINS
    reward_noise: float = 0.0
    state_noise: float = 0.0


@dataclass(frozen=True, order=True)
class TaskLabel:
    """A task with its setting: what the `task` column of a result says."""

    task: str
    setting: Setting = Setting()


def format_task(label: TaskLabel) -> str:
    """Write a label: TASK[@BINS][+reward-noise[SIGMA]][+state-noise[SIGMA]]; what is left out is 3 bins, no noise.

    A noise without a number has the paper's σ = 0.1.
    """
    setting = label.setting
    text = label.task if setting.bins == DEFAULT_BINS else f"{label.task}@{setting.bins}"
    for name, sigma in zip(_NOISES, (setting.reward_noise, setting.state_noise), strict=True):
        if sigma:
            text += f"+{name}" if sigma == DEFAULT_NOISE else f"+{name}{sigma:g}"
    return text


_LABEL = re.compile(r"(?P<task>[^@+]+)(@(?P<bins>\d+))?(?P<noise>(\+(reward|state)-noise[\d.e-]*)*)")


def parse_task(text: str) -> TaskLabel:
    """Read what `format_task` writes."""
    match = _LABEL.fullmatch(text)
    if match is None:
        raise UserError(f"task {text!r} cannot be read: write TASK, TASK@BINS, TASK+reward-noise or TASK+state-noise")
    sigmas = dict.fromkeys(_NOISES, 0.0)
    for part in filter(None, match["noise"].split("+")):
        name = part[: part.index("noise") + len("noise")]
        number = part.removeprefix(name)
        try:
            sigmas[name] = float(number) if number else DEFAULT_NOISE
        except ValueError:
            raise UserError(f"task {text!r} cannot be read: {number!r} is no number") from None
    bins = int(match["bins"]) if match["bins"] else DEFAULT_BINS
    return TaskLabel(match["task"], Setting(bins, sigmas["reward-noise"], sigmas["state-noise"]))


def task_in_words(text: str) -> str:
    """Return a task's name for readers: `cheetah-run@30+reward-noise` is cheetah-run, 30 bins, reward noise."""
    setup, *noises = text.split("+")
    name, at, bins = setup.removeprefix("metaworld:").partition("@")
    words = [f"{bins} bins"] if at else []
    words += [re.sub(r"-noise(.*)", lambda parts: f" noise {parts[1]}".rstrip(), noise) for noise in noises]
    return ", ".join([name, *words])


def split_bins(text: str) -> tuple[str, int]:
    """Return a task's label without its bins, and the bins."""
    label = parse_task(text)
    return format_task(replace(label, setting=replace(label.setting, bins=DEFAULT_BINS))), label.setting.bins
