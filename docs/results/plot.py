"""Draw walker-walk.png from the CSV files beside this script: python docs/results/plot.py."""

import csv
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
RUNS = {
    "decqn": "DecQN",
    "revalued-3-critics-mean": "REValueD, 3 critics, mean reduction",
    "revalued-3-critics": "REValueD, 3 critics, sum reduction",
}


def column(rows: list[dict[str, str]], name: str) -> list[float]:
    """Return one column as numbers."""
    return [float(row[name]) for row in rows]


def main() -> None:
    """Draw test episodes as lines and the training episodes' means as dots."""
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    for colour, (name, label) in zip(("tab:blue", "tab:green", "tab:red"), RUNS.items(), strict=True):
        with (HERE / "walker-walk" / f"{name}-eval.csv").open(newline="") as file:
            tests = list(csv.DictReader(file))
        with (HERE / "walker-walk" / f"{name}-metrics.csv").open(newline="") as file:
            training = [row for row in csv.DictReader(file) if row["train_return"]]
        axes.plot(column(tests, "env_steps"), column(tests, "return"), color=colour, label=f"{label}: test episode")
        axes.plot(
            column(training, "env_steps"),
            column(training, "train_return"),
            ".",
            color=colour,
            alpha=0.4,
            label=f"{label}: training episodes",
        )
    axes.set(xlabel="environment interactions", ylabel="return", ylim=(0, 1000), title="walker-walk, seed 0")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.grid(alpha=0.3)
    figure.legend(fontsize="small", ncols=2, loc="outside lower center")
    figure.savefig(HERE / "walker-walk.png", dpi=120)


if __name__ == "__main__":
    main()
