"""Claims and verdicts: the rule at its edges, which runs count, and the paper's numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from report_data import outcomes, write_cvar, write_training
from revalued.experiments import naming
from revalued.experiments.catalogue import EXPERIMENTS
from revalued.experiments.plan import Experiment
from revalued.report import published, results, verdicts
from revalued.report.claims import CLAIMS, claims_of
from revalued.report.published import BETA, ENSEMBLE_SIZE, REGULARISER, WALL_TIME, Published, reference
from revalued.report.verdicts import Finding, decide, decide_returns, decide_within


def findings(tmp_path: Path, name: str) -> dict[str, Finding]:
    found = verdicts.training_findings(results.load_results(tmp_path)[name])
    return {finding.statement: finding for finding in found}


def test_the_rule_at_its_edges() -> None:
    assert decide((0.1, 5.0)) == "holds"
    assert decide((-5.0, -0.1)) == "does not hold"
    assert decide((0.0, 5.0)) == "undecided"
    assert decide((-5.0, 0.0)) == "undecided"
    assert decide_within((1.1, 1.4), (1.1, 1.4)) == "holds"
    assert decide_within((1.0, 1.4), (1.1, 1.4)) == "undecided"
    assert decide_within((1.41, 1.6), (1.1, 1.4)) == "does not hold"
    assert decide_within((0.5, 0.9), (1.1, 1.4)) == "does not hold"


def test_nobody_is_ahead_where_half_of_all_have_learnt_nothing() -> None:
    lain, stood = [5.0, 5.1, 5.2, 5.3, 5.4], [6.0, 6.1, 6.2, 6.3, 83.0]
    assert decide_returns(stood, lain) == "undecided"
    assert decide_returns(lain, stood) == "undecided"
    several = [6.0, 6.1, 80.0, 81.0, 83.0]
    assert decide_returns(several, lain) == "holds"
    assert decide_returns(lain, several) == "does not hold"
    assert decide_returns([20.0, 20.0], [19.0, 19.0]) == "holds"
    assert decide_returns([19.9, 19.9], [19.0, 19.0]) == "undecided"


def test_main_is_judged_task_by_task_and_over_all(tmp_path: Path) -> None:
    levels = {
        ("revalued", "dog-walk"): 600.0,
        ("decqn", "dog-walk"): 500.0,
        ("revalued", "walker-walk"): 500.0,
        ("decqn", "walker-walk"): 600.0,
        ("revalued", "fish-swim"): 505.0,
        ("decqn", "fish-swim"): 500.0,
    }
    write_training(tmp_path, "main", levels, seeds=3, spread=20)
    finding = findings(tmp_path, "main")["REValueD beats DecQN"]
    expected = {"dog-walk": "holds", "walker-walk": "does not hold", "fish-swim": "undecided"}
    assert outcomes(finding) == expected
    assert finding.overall is not None
    assert finding.overall.decision == "undecided"
    assert finding.scale == "laptop scale: K = 3, 120,000 interactions, 3 seeds"
    detail = {verdict.where: verdict.detail for verdict in finding.verdicts}["dog-walk"]
    assert "600.0 against 500.0; difference +100.0 [+" in detail
    assert detail.endswith("3 and 3 seeds")
    assert verdicts.untested("main", [finding])[0] == "DecQN beats BDQ"


def test_two_finished_seeds_are_needed_on_either_side(tmp_path: Path) -> None:
    levels = {("revalued", "dog-walk"): 600.0, ("decqn", "dog-walk"): 100.0}
    write_training(tmp_path, "main", levels, seeds=2, unfinished={("decqn", "dog-walk", 1): "unfinished"})
    finding = findings(tmp_path, "main")["REValueD beats DecQN"]
    assert outcomes(finding) == {"dog-walk": "perhaps"}
    assert finding.verdicts[0].detail.endswith("difference +505.0; finished seeds: 2 and 1; 2 of each are needed")
    assert finding.overall is None
    levels = {("revalued", "dog-walk"): 100.0, ("decqn", "dog-walk"): 600.0}
    write_training(tmp_path, "main", levels, seeds=1)
    assert outcomes(findings(tmp_path, "main")["REValueD beats DecQN"]) == {"dog-walk": "perhaps not"}
    write_training(tmp_path, "main", levels, seeds=1, unfinished={("decqn", "dog-walk", 0): "unfinished"})
    finding = findings(tmp_path, "main")["REValueD beats DecQN"]
    assert outcomes(finding) == {"dog-walk": "not enough data"}
    assert "1 and 0" in finding.verdicts[0].detail


def test_tasks_where_the_paper_sees_no_difference_are_left_out(tmp_path: Path) -> None:
    tasks = ("quadruped-run+state-noise", "dog-walk+state-noise")
    write_training(tmp_path, "stochastic-state", {(v, t): 1.0 for v in ("revalued", "decqn") for t in tasks})
    finding = findings(tmp_path, "stochastic-state")["With noisy states REValueD beats DecQN"]
    assert list(outcomes(finding)) == ["dog-walk, state noise"]


def test_claims_of_tables_are_their_clear_differences() -> None:
    by_statement = {claim.statement: claim.tasks for claim in claims_of("beta")}
    # 947.80 ± 10.6 against 905.86 ± 16.1: 41.9 is more than twice 19.3; walker-run's 6.0 is less than twice 4.0
    assert by_statement["REValueD: β = 0 beats β = 0.5"] == ("finger-spin",)
    assert by_statement["REValueD: β = 0.5 beats β = 0"] == ("cheetah-run", "quadruped-run", "dog-walk")
    sizes = {claim.statement: claim.tasks for claim in claims_of("ensemble-size")}
    assert sizes["REValueD: K = 15 beats K = 3"] == ("cheetah-run", "dog-run")


def test_settings_are_found_under_either_name(tmp_path: Path) -> None:
    levels = {("revalued-k1", "dog-walk"): 300.0, ("revalued-k5", "dog-walk"): 500.0, ("revalued", "dog-walk"): 400.0}
    write_training(tmp_path, "ensemble-size", levels)
    experiment = results.load_results(tmp_path)["ensemble-size"]
    assert experiment.setting("revalued-k5") == 5
    assert experiment.with_setting("revalued-k3") == "revalued"  # by what its overrides say
    assert experiment.with_setting("revalued-k15") is None
    assert experiment.scale == "laptop scale: K = 3 to 5, 120,000 interactions, 2 seeds"
    found = findings(tmp_path, "ensemble-size")
    assert outcomes(found["REValueD: K = 3 beats K = 1"]) == {"dog-walk": "holds"}
    assert "REValueD: K = 20 beats K = 1" not in found
    assert "REValueD: K = 20 beats K = 1" in verdicts.untested("ensemble-size", found.values())


def test_the_lower_cvar_wins(tmp_path: Path) -> None:
    write_cvar(
        tmp_path,
        {
            ("revalued", "dog-walk"): [1.0, 1.2],
            ("decqn", "dog-walk"): [2.0, 2.2],
            ("revalued", "fish-swim"): [3.0, 3.2],
            ("decqn", "fish-swim"): [2.0, 2.2],
        },
    )
    finding = findings(tmp_path, "stability")["REValueD's gradient norms have the lower CVaR"]
    assert outcomes(finding) == {"dog-walk": "holds", "fish-swim": "does not hold"}
    assert finding.overall is None  # gradients of different tasks are not added up


@pytest.mark.parametrize(("minutes", "outcome"), [(12.5, "holds"), (75.0, "does not hold")])
def test_wall_time_is_judged_by_its_ratio(tmp_path: Path, minutes: float, outcome: str) -> None:
    levels = {("revalued", "walker-walk"): 1.0, ("decqn", "walker-walk"): 1.0}
    write_training(tmp_path, "wall-time", levels, minutes={"decqn": 10.0, "revalued": minutes}, env_steps=20_000)
    finding = findings(tmp_path, "wall-time")["REValueD takes about 25% longer than DecQN"]
    assert outcomes(finding) == {"walker-walk": outcome}
    experiment = results.load_results(tmp_path)["wall-time"]
    measured = verdicts.minutes_of(experiment, "decqn", "walker-walk")
    # 20 s and 21 s before the first interaction, by the generator
    assert [minutes for minutes, _ in measured] == pytest.approx([10 + 20 / 60, 10 + 21 / 60])
    assert all(is_projected for _, is_projected in measured)


def test_sample_efficiency_is_the_area_under_the_curve(tmp_path: Path) -> None:
    folder = write_training(tmp_path, "weight-function", {("revalued", "t"): 500.0, ("revalued-quadratic", "t"): 500.0})
    lines = (folder / "results.csv").read_text().splitlines()
    changed = [
        ",".join([*line.split(",")[:6], "0", line.split(",")[7]])
        if "quadratic" in line and int(line.split(",")[5]) < 100_000
        else line
        for line in lines
    ]
    (folder / "results.csv").write_text("\n".join(changed))
    found = findings(tmp_path, "weight-function")
    assert outcomes(found["The exponential weight learns faster"]) == {"t": "holds"}


def test_questions_are_marked() -> None:
    found = [Finding(claim.statement, "laptop", ()) for claim in CLAIMS]
    questions = {claim.experiment for claim, finding in zip(CLAIMS, found, strict=True) if finding.is_question}
    assert questions == {"main", "regulariser-reduction", "ensemble-target", "weight-function", "confirmation"}


def test_every_claim_is_about_an_experiment_of_the_catalogue() -> None:
    assert {claim.experiment for claim in CLAIMS} <= set(EXPERIMENTS)
    computed = {"theorems", "tabular"}
    assert set(EXPERIMENTS) - {claim.experiment for claim in CLAIMS} == computed


def test_claims_name_variants_that_the_experiments_have() -> None:
    for claim in CLAIMS:
        experiment = EXPERIMENTS[claim.experiment]
        assert isinstance(experiment, Experiment)
        assert {claim.better, claim.worse} <= {variant.id for variant in experiment.variants}, claim


def test_published_numbers() -> None:
    assert REGULARISER["dog-walk"]["decqn-ensemble"] == Published(819.95, 22.0)
    assert ENSEMBLE_SIZE["cheetah-run"][15] == Published(883.55, 2.99)
    assert BETA["finger-spin"][0.0] == Published(947.80, 10.6)
    assert WALL_TIME["dog-walk"]["revalued"] == Published(69.55, 0.32)
    sizes = [len(REGULARISER), len(ENSEMBLE_SIZE), len(BETA), len(WALL_TIME)]
    assert sizes == [6, 6, 5, 2]
    # the same runs stand in two tables
    for task in ("walker-run", "cheetah-run", "quadruped-run", "dog-walk"):
        assert ENSEMBLE_SIZE[task][10] == BETA[task][0.5]


def test_remarks_are_true() -> None:
    assert REGULARISER["dog-walk"]["revalued"].mean != BETA["dog-walk"][0.5].mean
    assert REGULARISER["dog-trot"]["revalued"].mean != ENSEMBLE_SIZE["dog-trot"][10].mean
    assert max(ENSEMBLE_SIZE["dog-trot"].items(), key=lambda item: item[1].mean)[0] == 3
    assert "915.67" in published.REMARKS["ensemble-size"]


def test_the_reference_for_a_result() -> None:
    assert reference("main", "revalued", "dog-walk") == Published(862.31, 12.0)
    assert reference("main", "revalued", "finger-spin") == Published(905.86, 16.1)
    assert reference("main", "decqn", "finger-spin") is None
    assert reference("ensemble-size", "revalued-k5", "dog-run", 5.0) == Published(815.29, 15.9)
    assert reference("ensemble-size", "revalued-k2", "dog-run", 2.0) is None
    assert reference("beta", "revalued-beta1", "dog-walk", 1.0) == Published(880.50, 9.96)
    assert reference("wall-time", "decqn", "walker-walk") == Published(30.47, 0.0)
    assert reference("bins", "revalued", "dog-walk") is None


def test_names_for_readers() -> None:
    assert naming.task_in_words("cheetah-run@30+reward-noise") == "cheetah-run, 30 bins, reward noise"
    assert naming.task_in_words("metaworld:reach-v3") == "reach-v3"
    assert naming.task_in_words("dog-walk+state-noise0.2") == "dog-walk, state noise 0.2"
    assert naming.split_bins("cheetah-run@30+reward-noise") == ("cheetah-run+reward-noise", 30)
    assert naming.variant_label("revalued-k3") == "REValueD, K = 3"
    assert naming.variant_label("revalued-beta0.25") == "REValueD, β = 0.25"
    assert naming.variant_label("lr=0.1") == "lr=0.1"


@pytest.mark.parametrize(("tasks", "decision"), [(5, None), (6, "holds")])
def test_single_seeds_on_enough_tasks_decide_together(tmp_path: Path, tasks: int, decision: str | None) -> None:
    levels = {(name, f"t{task}"): 100.0 * task + (50.0 + task) * (name == "revalued") + 100.0
              for name in ("revalued", "decqn") for task in range(tasks)}  # fmt: skip
    write_training(tmp_path, "main", levels, seeds=1)
    finding = findings(tmp_path, "main")["REValueD beats DecQN"]
    assert set(outcomes(finding).values()) == {"perhaps"}
    assert (finding.overall and finding.overall.decision) == decision
    if finding.overall:  # differences of 50 to 55
        assert finding.overall.detail.startswith("mean difference +52.5 [+51")
        assert finding.overall.detail.endswith("over 6 tasks, 6 of them with a single seed (tasks resampled)")


def test_seeds_decide_where_every_task_has_several() -> None:
    together = verdicts.together([([10.0, 12.0], [1.0, 2.0])] * 6)
    assert together is not None
    assert together.in_words.startswith("difference of interquartile means +9.5 [")
    several_and_single = verdicts.together([([10.0, 12.0], [1.0, 2.0])] * 2 + [([1.0], [5.0])])
    assert several_and_single is not None
    assert several_and_single.in_words.endswith("over 2 tasks")
    assert verdicts.together([([10.0, 12.0], [1.0, 2.0])]) is None
