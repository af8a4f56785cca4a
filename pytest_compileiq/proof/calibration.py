"""How often this machine's gate calls equal arms PROVEN: the baseline against itself, through the whole gate.

The counts are in ``.compileiq/`` by device: they belong to one machine and its neighbours, and are never committed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.errors import StoreError, fault_of
from pytest_compileiq.outcome import ItemReport, Verdict
from pytest_compileiq.proof.blocks import Unprovable
from pytest_compileiq.proof.claims import Proof
from pytest_compileiq.proof.prove import Comparison
from pytest_compileiq.report.claims import report_on
from pytest_compileiq.rules.stats import binomial_interval
from pytest_compileiq.store.local import DIRECTORY, local_directory
from pytest_compileiq.system.files import Unfit, read_regular, replace
from pytest_compileiq.workers.pool import EvaluationFailed, Pool

_FILE = "calibration.json"
_LARGEST = 16 << 20


@dataclass(frozen=True)
class Calibration:
    """Trials of equal arms on one device, and how many of them were called a gain."""

    trials: int
    proven: int
    alpha: float

    def __str__(self) -> str:
        low, high = binomial_interval(self.proven, self.trials)
        return (
            f"{self.proven} of {self.trials} equal pairs were called faster "
            f"({self.proven / self.trials:.1%}, exact 95 % interval {low:.1%} to {high:.1%}); alpha is {self.alpha:.1%}"
        )

    @property
    def too_often(self) -> bool:
        return binomial_interval(self.proven, self.trials)[0] > self.alpha


def calibrate(
    benchmark: TunedBenchmark, pool: Pool, trials: int, *, seed: int, say: Callable[[str], None]
) -> ItemReport:
    """Run the gate ``trials`` times on the baseline against itself, each in fresh processes, and add up the counts.

    Raises:
        StoreError: the counts cannot be written.
    """

    def report(verdict: Verdict, message: str) -> ItemReport:
        return report_on(benchmark.nodeid, benchmark.name, benchmark.builder.target, verdict, message, None)

    if not benchmark.timed_objectives:
        return report(Verdict.UNCHECKED, "nothing to calibrate: its objectives are exact")
    if benchmark.native is not None and benchmark.needs_device:
        return report(Verdict.NO_DEVICE, benchmark.native)
    device = benchmark.device(benchmark.timed_objectives[0].metric).name
    before = _read(benchmark.rootdir).get(device)
    first = before.trials if before else 0  # other coins than those of earlier runs
    proven = 0
    for trial in range(trials):
        say(f"calibrating {benchmark.name}: {trial + 1} of {trials}, {proven} called faster so far")
        try:
            proof = Comparison(pool, benchmark, None, seed + first + trial, lambda _: None).prove_and_confirm([None])
        except (Unprovable, EvaluationFailed) as failure:
            return report(Verdict.INCONCLUSIVE, f"the baseline could not be measured: {failure}")
        proven += isinstance(proof, Proof)
        pool.close()  # the next trial's processes are fresh ones, as a proof's are
    total = _add(benchmark.rootdir, device, Calibration(trials, proven, benchmark.spec.thresholds.alpha))
    return report(Verdict.CALIBRATED, f"{total}, on {device}")


def warning(rootdir: Path, device: str) -> str | None:
    """What to say of a gate on ``device`` that called too many equal arms faster, or None."""
    calibration = _read(rootdir).get(device)
    if calibration is None or not calibration.too_often:
        return None
    return (
        f"do not trust this machine's gate: {calibration}; calibrate again on a quiet one: pytest --acf-calibrate=100"
    )


def _add(rootdir: Path, device: str, more: Calibration) -> Calibration:
    calibrations = _read(rootdir)
    before = calibrations.get(device)
    if before is not None and before.alpha == more.alpha:
        more = Calibration(before.trials + more.trials, before.proven + more.proven, more.alpha)
    calibrations[device] = more
    content = {name: vars(calibration) for name, calibration in sorted(calibrations.items())}
    path = local_directory(rootdir) / _FILE
    try:
        replace(path, f"{json.dumps(content, indent=1)}\n".encode())
    except OSError as error:
        raise StoreError(f"the calibration cannot be kept: {fault_of(error)}") from error
    return more


def _read(rootdir: Path) -> dict[str, Calibration]:
    """What was counted before; a file that cannot be read counts for nothing."""
    try:
        content = json.loads(read_regular(rootdir / DIRECTORY / _FILE, _LARGEST))
        return {name: Calibration(**counts) for name, counts in content.items()}
    except (Unfit, ValueError, TypeError, AttributeError, RecursionError):
        return {}
