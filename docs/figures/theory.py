"""Draw theory-*.svg and print the tables of docs/theory.md: python docs/figures/theory.py [RESULTS].

RESULTS is the folder with theorems/results.csv and tabular/results.csv, `results` unless told otherwise. The last
table, on learning rates, is computed here, in half a minute.
"""

import csv
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from revalued.experiments.closed_forms import maximum_of_gaussians, maximum_of_uniform_means, maximum_of_uniforms
from revalued.experiments.tabular import VARIANTS, Learner, frequencies, simulate

HERE = Path(__file__).parent
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "theory",  # the same picture gives the same file
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
LABELS = {"decqn": "DecQN", "revalued": "REValueD (sum)", "revalued-mean": "REValueD (mean)"}
COLOURS = {"decqn": "tab:blue", "revalued": "tab:red", "revalued-mean": "tab:green"}
Row = dict[str, str]
Theory = dict[tuple[str, int, int, int, str, str], tuple[float, float, float]]
Curves = dict[tuple[int, int, str], list[tuple[int, float, float]]]


def read(path: Path) -> list[Row]:
    """Return the rows of a CSV file."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def read_theory(path: Path) -> Theory:
    """Return (closed form, Monte Carlo, standard error) by noise, N, n, K, target and quantity."""
    return {
        (row["noise"], int(row["N"]), int(row["n"]), int(row["K"]), row["target"], row["quantity"]): (
            float(row["closed_form"]),
            float(row["monte_carlo"]),
            float(row["standard_error"]),
        )
        for row in read(path)
        if row["theorem"] != "lemma-1"
    }


def read_curves(path: Path) -> Curves:
    """Return (updates, frequency, standard error) along each curve, by N, n and variant."""
    curves: Curves = {}
    for row in read(path):
        point = (int(row["updates"]), float(row["frequency"]), float(row["standard_error"]))
        curves.setdefault((int(row["N"]), int(row["n"]), row["variant"]), []).append(point)
    return curves


def draw_targets(theory: Theory, dimensions: int = 6) -> None:
    """Draw bias and variance of the algorithm's target against n, closed forms as lines, Monte Carlo as dots."""
    choices = sorted({key[2] for key in theory})
    critics = sorted({key[3] for key in theory if key[3] > 1})
    figure, (bias, ratio) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")

    def curve(axes: Axes, target: str, K: int, quantity: str, colour: str, label: str) -> None:
        points = [theory["uniform", dimensions, n, K, target, quantity] for n in choices]
        base = [theory["uniform", dimensions, n, 1, "decqn", "variance"][0] for n in choices]
        scale = [K / b for b in base] if quantity == "variance" else [1.0] * len(choices)
        axes.plot(choices, [p[0] * s for p, s in zip(points, scale, strict=True)], color=colour, label=label)
        axes.plot(choices, [p[1] * s for p, s in zip(points, scale, strict=True)], ".", color=colour)

    curve(bias, "decqn", 1, "bias", "black", "mean of max, any K")
    curve(ratio, "mean-of-max", critics[-1], "variance", "black", "mean of max, any K")
    for K, colour in zip(critics, ("tab:blue", "tab:orange", "tab:green", "tab:red"), strict=True):
        curve(bias, "max-of-mean", K, "bias", colour, f"max of mean, K = {K}")
        curve(ratio, "max-of-mean", K, "variance", colour, f"max of mean, K = {K}")
    for axes in (bias, ratio):
        axes.set(xscale="log", xlabel="n, choices per dimension", xticks=choices)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_locator(mpl.ticker.NullLocator())
    bias.set(ylabel="bias of the target", ylim=(0, 1), title="bias")
    ratio.set(ylabel="K · Var / Var of one critic", yscale="log", title="variance times K, relative to one critic")
    ratio.yaxis.set_major_formatter("{x:g}")
    figure.legend(*bias.get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize="small")
    save(figure, "theory-targets.svg")


def draw_tabular(curves: Curves) -> None:
    """Draw the frequency of the optimal last sub-action, one panel per N and n from 3 on, with 95% intervals."""
    dimensions, choices = sorted({N for N, _, _ in curves if N >= 3}), sorted({n for _, n, _ in curves if n >= 3})
    figure, grid = plt.subplots(
        len(dimensions), len(choices), figsize=(9, 6.5), layout="constrained", sharex=True, sharey=True, squeeze=False
    )
    for row, N in zip(grid, dimensions, strict=True):
        for axes, n in zip(row, choices, strict=True):
            for variant, label in LABELS.items():
                updates, means, errors = zip(*curves[N, n, variant], strict=True)
                axes.plot(updates, means, color=COLOURS[variant], label=label, lw=1.2)
                low = [m - 1.96 * e for m, e in zip(means, errors, strict=True)]
                high = [m + 1.96 * e for m, e in zip(means, errors, strict=True)]
                axes.fill_between(updates[::2], low[::2], high[::2], color=COLOURS[variant], alpha=0.25, lw=0)
            axes.set_title(f"N = {N}, n = {n}", fontsize="small")
    grid[0][0].set(ylim=(0, 100))
    figure.supxlabel("updates")
    figure.supylabel("optimal last sub-action taken, %")
    figure.legend(*grid[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    save(figure, "theory-tabular.svg")


def save(figure: Figure, name: str) -> None:
    """Write a figure beside this script, without a date."""
    figure.savefig(HERE / name, metadata={"Date": None})
    plt.close(figure)


def print_table(header: list[str], rows: list[list[str]]) -> None:
    """Print a table in Markdown."""
    for cells in (header, ["---"] * len(header), *rows):
        print("| " + " | ".join(cells) + " |")
    print()


def print_theory(theory: Theory, path: Path) -> None:
    """Print both readings of Theorem 2, the check of Theorem 1 under both noises, and how far Monte Carlo strays."""

    def value(noise: str, N: int, n: int, K: int, target: str, quantity: str) -> float:
        return theory[noise, N, n, K, target, quantity][0]

    rows = []
    for n, K in ((3, 10), (10, 10), (30, 5), (30, 10), (100, 10)):
        base = value("uniform", 6, n, 1, "decqn", "variance")
        eq5 = value("uniform", 6, n, K, "max-of-mean", "variance")
        biases = [value("uniform", 6, n, 1, "decqn", "bias"), value("uniform", 6, n, K, "max-of-mean", "bias")]
        sampled = "{1:.4f} ± {2:.4f}".format(*theory["uniform", 6, n, K, "max-of-mean", "bias"])
        ratios = [1.0, K * eq5 / base, eq5 / base]
        rows.append([str(n), str(K), *(f"{x:.4f}" for x in biases), sampled, *(f"{x:.2f}" for x in ratios)])
    header = ["n", "K", "bias DecQN = mean of max", "bias max of mean", "Monte Carlo ± standard error"]
    print_table([*header, "K·Var/Var_DecQN mean of max", "max of mean", "Var/Var_DecQN max of mean"], rows)

    rows = []
    for noise in ("uniform", "gaussian"):
        for n in (2, 3, 10, 30, 100):
            cells = [value(noise, 6, n, 1, t, q) for q in ("bias", "variance") for t in ("dqn", "decqn", "sum")]
            rows.append([noise, str(n), *(f"{x:.3f}" for x in cells[:3]), *(f"{x:.2e}" for x in cells[3:])])
    print_table(["noise", "n", *(f"{q} {t}" for q in ("bias", "Var") for t in ("DQN", "DecQN", "sum"))], rows)

    rows = []
    for K in (2, 3, 5, 10, 20):
        worse = (n for n in range(2, 1000) if uniform_ensemble_variance(n, K) > maximum_of_uniforms(n, 1.0).variance)
        rows.append([str(K), str(next(worse))])
    print_table(["K", "fewest choices at which max of mean varies more than one critic"], rows)
    for N in (2, 6, 38):
        fewer = (n for n in range(2, 1000) if gaussian_variance(n**N) < gaussian_variance(n) / N)
        print(f"Gaussian noise, N = {N}: Var DQN < Var DecQN from n = {next(fewer)} on")
    everything = read(path)
    errors = [(float(r["monte_carlo"]) - float(r["closed_form"])) / float(r["standard_error"]) for r in everything]
    mean_square = sum(e * e for e in errors) / len(errors)
    print(f"{len(errors)} rows: largest |error| {max(map(abs, errors)):.2f}, root mean square {mean_square**0.5:.2f}\n")


def uniform_ensemble_variance(choices: int, critics: int) -> float:
    """Return the variance of the maximum of n means of K uniforms."""
    return maximum_of_uniform_means(choices, critics, 1.0).variance


def gaussian_variance(count: int) -> float:
    """Return the variance of the maximum of n standard Gaussians."""
    return maximum_of_gaussians(count, 1.0).variance


def print_tabular(curves: Curves) -> None:
    """Print the frequency averaged over all updates, and at the end."""
    rows = []
    for N, n in sorted({key[:2] for key in curves}):
        cells = [curves[N, n, variant] for variant in LABELS]
        means = [f"{sum(point[1] for point in curve) / len(curve):.1f}" for curve in cells]
        ends = [f"{curve[-1][1]:.1f} ± {curve[-1][2]:.1f}" for curve in cells]
        rows.append([str(N), str(n), *means, *ends])
    print_table(["N", "n", *LABELS.values(), *(f"{label}, end" for label in LABELS.values())], rows)


def print_learning_rates(trials: int = 200, updates: int = 3000, window: int = 5) -> None:
    """Print when half of the trials have lost the optimal sub-action, and how often the whole action was optimal."""
    rows = []
    for size in ((10, 10), (10, 3), (5, 5)):
        for rate in (0.01, 0.03, 0.1, 0.3):
            half_lost, rewarded = [], []
            for learner in VARIANTS.values():
                taken = simulate(Learner(learner.beta, learner.reduction, rate), *size, trials, updates)
                means, _ = frequencies(taken[..., -1], window)
                below = [i for i, mean in enumerate(means.tolist(), start=1) if mean < 50]
                half_lost.append(str(window * below[0]) if below else f"> {updates}")
                rewarded.append(f"{100 * taken[-500:].all(-1).double().mean():.1f}")
            rows.append([*map(str, size), str(rate), *half_lost, *rewarded])
    labels = list(LABELS.values())
    print_table(["N", "n", "learning rate", *labels, *(f"{label}: reward +1, %" for label in labels)], rows)


def main() -> None:
    """Draw and print everything."""
    results = Path(sys.argv[1] if len(sys.argv) > 1 else "results")
    theory, curves = read_theory(results / "theorems/results.csv"), read_curves(results / "tabular/results.csv")
    with mpl.rc_context(STYLE):
        draw_targets(theory)
        draw_tabular(curves)
    print_theory(theory, results / "theorems/results.csv")
    print_tabular(curves)
    print_learning_rates()


if __name__ == "__main__":
    main()
