"""What the best policy earns, where it is known."""

from __future__ import annotations

from revalued.envs import Task
from revalued.envs.suites.problems import PREFIX, PROBLEMS
from revalued.seeding import evaluate_seeds


def known_optimum(task: Task, name: str, episodes: int) -> float | None:
    """Return the mean return of a perfect player over the test episodes, or its expectation; None where nobody knows.

    An environment may tell by an attribute `optimal_return`, asked after each reset.
    """
    problem = PROBLEMS.get(name.removeprefix(PREFIX)) if name.startswith(PREFIX) else None
    if problem is not None and problem.optimum is not None:
        return problem.optimum
    env = task.make()
    try:
        total = 0.0
        for seed in evaluate_seeds(0, episodes):
            env.reset(seed=seed)
            value = getattr(env.unwrapped, "optimal_return", None)
            if not isinstance(value, int | float):
                return None
            total += float(value)
        return total / episodes
    finally:
        env.close()
