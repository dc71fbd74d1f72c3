"""Print the tables of docs/theory.md: python docs/theory_tables.py [RESULTS].

RESULTS is the folder with theorems/results.csv and tabular/results.csv, `results` unless told otherwise. The last
table, on learning rates, is computed here, in a minute or two.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from revalued.experiments.closed_forms import maximum_of_gaussians, maximum_of_uniform_means, maximum_of_uniforms
from revalued.experiments.naming import variant_label
from revalued.experiments.result_files import Row
from revalued.experiments.tabular import VARIANTS, frequencies, simulate
from revalued.report.results import load_results
from revalued.report.tables import TextTable, to_markdown
from revalued.report.theory import Cell, Cells, mean_frequencies

LABELS = tuple(variant_label(variant) for variant in VARIANTS)


def show(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table in Markdown."""
    print(to_markdown(TextTable(tuple(header), tuple(map(tuple, rows)))) + "\n")


def print_theorems(results: Sequence[Row]) -> None:
    """Print both readings of Theorem 2, the check of Theorem 1 under both noises, and how far Monte Carlo strays."""
    table = Cells(row for row in results if row["theorem"] != "lemma-1")

    def value(noise: str, n: int, K: int, target: str, quantity: str) -> float:
        found = table.exact(Cell(noise, 6, n, K), target, quantity)
        assert found is not None
        return found.value

    rows = []
    for n, K in ((3, 10), (10, 10), (30, 5), (30, 10), (100, 10)):
        base = value("uniform", n, 1, "decqn", "variance")
        eq5 = value("uniform", n, K, "max-of-mean", "variance")
        biases = [value("uniform", n, 1, "decqn", "bias"), value("uniform", n, K, "max-of-mean", "bias")]
        sampled = table.simulated(Cell("uniform", 6, n, K), "max-of-mean", "bias")
        assert sampled is not None
        ratios = (1.0, K * eq5 / base, eq5 / base)
        simulation = f"{sampled.value:.4f} ± {sampled.error:.4f}"
        rows.append([str(n), str(K), *(f"{x:.4f}" for x in biases), simulation, *(f"{x:.2f}" for x in ratios)])
    header = ["n", "K", "bias DecQN = mean of max", "bias max of mean", "Monte Carlo ± standard error"]
    show([*header, "K·Var/Var_DecQN mean of max", "max of mean", "Var/Var_DecQN max of mean"], rows)
    rows = []
    for noise in ("uniform", "gaussian"):
        for n in (2, 3, 10, 30, 100):
            cells = [value(noise, n, 1, target, q) for q in ("bias", "variance") for target in ("dqn", "decqn", "sum")]
            rows.append([noise, str(n), *(f"{x:.3f}" for x in cells[:3]), *(f"{x:.2e}" for x in cells[3:])])
    show(["noise", "n", *(f"{q} {target}" for q in ("bias", "Var") for target in ("DQN", "DecQN", "sum"))], rows)
    errors = [(row["monte_carlo"] - row["closed_form"]) / row["standard_error"] for row in results]
    mean_square = sum(error * error for error in errors) / len(errors)
    print(f"{len(errors)} rows: largest |error| {max(map(abs, errors)):.2f}, root mean square {mean_square**0.5:.2f}\n")


def print_crossings() -> None:
    """Print from which number of choices on one target varies more than another."""
    rows = []
    for K in (2, 3, 5, 10, 20):
        choices = (n for n in range(2, 1000) if _mean_variance(n, K) > maximum_of_uniforms(n, 1.0).variance)
        rows.append([str(K), str(next(choices))])
    show(["K", "fewest choices at which max of mean varies more than one critic"], rows)
    for N in (2, 6, 38):
        fewer = (n for n in range(2, 1000) if _gaussian_variance(n**N) < _gaussian_variance(n) / N)
        print(f"Gaussian noise, N = {N}: Var DQN < Var DecQN from n = {next(fewer)} on")
    print()


def _mean_variance(choices: int, critics: int) -> float:
    return maximum_of_uniform_means(choices, critics, 1.0).variance


def _gaussian_variance(count: int) -> float:
    return maximum_of_gaussians(count, 1.0).variance


def print_tabular(results: Sequence[Row]) -> None:
    """Print the frequency of the best sub-action, averaged over all updates."""
    means = [mean_frequencies(results, variant) for variant in VARIANTS]
    rows = [[str(N), str(n), *(f"{mean[N, n].value:.1f}" for mean in means)] for N, n in sorted(means[0])]
    show(["N", "n", *LABELS], rows)


def print_learning_rates(trials: int = 200, updates: int = 3000, window: int = 5) -> None:
    """Print when half of the trials have lost the optimal sub-action, and how often the whole action was optimal."""
    rows = []
    for size in ((10, 10), (10, 3), (5, 5)):
        for rate in (0.01, 0.03, 0.1, 0.3):
            half_lost, rewarded = [], []
            for learner in VARIANTS.values():
                taken = simulate(replace(learner, learning_rate=rate), *size, trials, updates)
                means, _ = frequencies(taken[..., -1], window)
                below = [i for i, mean in enumerate(means.tolist(), start=1) if mean < 50]
                half_lost.append(str(window * below[0]) if below else f"> {updates}")
                rewarded.append(f"{100 * taken[-500:].all(-1).double().mean():.1f}")
            rows.append([*map(str, size), str(rate), *half_lost, *rewarded])
    show(["N", "n", "learning rate", *LABELS, *(f"{label}: reward +1, %" for label in LABELS)], rows)


if __name__ == "__main__":
    torch.set_num_threads(1)  # small arrays: waking a second thread costs more than it does
    experiments = load_results(Path(sys.argv[1] if len(sys.argv) > 1 else "results"))
    print_theorems(experiments["theorems"].rows)
    print_crossings()
    print_tabular(experiments["tabular"].rows)
    print_learning_rates()
