"""Where the runs of an experiment or a sweep are carried out: flags, and what they mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from revalued.errors import UserError
from revalued.experiments.executor import Executor
from revalued.experiments.process_executor import ProcessExecutor


@dataclass(frozen=True)
class Where:
    """Where runs are carried out."""

    cluster: str | None = None
    """Fan runs out over a Ray cluster: `auto`, HOST:PORT of its head node, or `local`; --out is on shared storage."""
    cpus_per_run: float = 1.0
    """Cores that each run takes on a cluster."""
    gpus_per_run: float = 0.0
    """GPUs that each run takes on a cluster; a fraction lets runs share one."""

    @contextmanager
    def executor(self, jobs: int, say: Callable[[str], None], trust_modules: Sequence[str] = ()) -> Iterator[Executor]:
        """Return what carries out the runs, no more than `jobs` at a time: processes here, or on a cluster."""
        if self.cluster is None:
            yield ProcessExecutor(jobs, trust_modules=trust_modules)
            return
        if self.cpus_per_run <= 0 or self.gpus_per_run < 0:
            raise UserError("a run takes more than 0 CPUs and at least 0 GPUs: see --cpus-per-run and --gpus-per-run")
        from revalued.experiments.ray_executor import RayExecutor
        from revalued.training.actors.ray_link import connect

        with connect(self.cluster) as ray:
            yield RayExecutor(
                ray,
                cpus=self.cpus_per_run,
                gpus=self.gpus_per_run,
                jobs=jobs,
                trust_modules=trust_modules,
                say=say,
            )
