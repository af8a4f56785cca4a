"""What a replay measured, for the report: the numbers of each claim, and what they are of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pytest_compileiq.artifact import Claim
from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.model import BuildResult, digest_of_code
from pytest_compileiq.outcome import Built, Measured
from pytest_compileiq.rules.claims import direction_of
from pytest_compileiq.timing.registry import find_device_or_none

if TYPE_CHECKING:
    from pytest_compileiq.rules.gate import Decision


def built_of(benchmark: TunedBenchmark, baseline: BuildResult, tuned: BuildResult) -> Built:
    """The compiler, and the machine code of both arms."""
    compiler = benchmark.builder.compiler
    codes = ({entry: code.sha256 for entry, code in arm.code.items()} for arm in (baseline, tuned))
    return Built(f"{compiler.name} {compiler.version}", *map(digest_of_code, codes))


def measured_of(benchmark: TunedBenchmark, claim: Claim, decision: Decision) -> Iterator[Measured]:
    """The numbers of one claim that was measured now; none where they are no ratio, or too few samples were left."""
    if decision.means is None:
        return
    device = find_device_or_none(benchmark.device_kind(claim.objective))
    yield Measured(
        claim.device, claim.workload, claim.objective, direction_of(claim), decision.verdict, *decision.means,
        decision.speedup, decision.speedup_low, decision.speedup_high, device.driver if device else None,
    )  # fmt: skip
