"""Samples from fresh workers → the gate → claims: a first sample proves, a second one confirms."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from types import MappingProxyType

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.claim import Claim
from pytest_compileiq.model import MOST_DEVICES, ControlsFile
from pytest_compileiq.outcome import Verdict
from pytest_compileiq.proof.blocks import Blocks, Unprovable
from pytest_compileiq.proof.claims import Finalist, Judged, Look, NoWinner, Proof, claims_of, judge_exact, score_of
from pytest_compileiq.proof.confirm import UNPROVEN, beside_first, compare_sizes, confirmed
from pytest_compileiq.rules.evidence import Evidence, gather
from pytest_compileiq.rules.gate import CONFIRM_AFTER_S, LOOKS, Decision, judge_gain, judge_gains, looks_of, why_lost
from pytest_compileiq.rules.noise import advice
from pytest_compileiq.rules.words import words_for
from pytest_compileiq.samples import SampleRow
from pytest_compileiq.spelling import quantity
from pytest_compileiq.timing.conditions import cpu_conditions
from pytest_compileiq.workers.pool import Pool


@dataclass(frozen=True)
class Comparison:
    """Finalists against ``against`` (None: the baseline), sampled in workers of ``pool`` by the coins of ``seed``."""

    pool: Pool
    benchmark: TunedBenchmark
    against: ControlsFile | None
    seed: int
    say: Callable[[str], None]

    def prove_and_confirm(self, finalists: Sequence[ControlsFile | None]) -> Proof | NoWinner:
        """Prove the best of ``finalists`` by both samples, with nothing between them."""
        first = self.prove(finalists)
        return self.confirm(first) if isinstance(first, Proof) else first

    def prove(self, finalists: Sequence[ControlsFile | None]) -> Proof | NoWinner:
        """Prove the best of ``finalists`` on a first sample; ``confirm`` decides whether it stays proven.

        All finalists share processes, Holm's correction is over finalists × timed objectives × workloads, and alpha is
        split over the looks. What is compared exactly needs no samples. A finalist of None is the baseline too: proving
        it against itself holds the gate to its promise.

        Raises:
            Unprovable: the baseline arm failed, others compute on the device, or a claim cannot hold that many devices.
            NoWorker: a worker process did not get ready.
        """
        benchmark, devices = self.benchmark, self.pool.devices
        if not benchmark.timed_objectives:
            return self._prove_exact(finalists[0])
        if devices > MOST_DEVICES:
            raise Unprovable(f"{devices} devices are more than the {MOST_DEVICES} that a claim holds: give it fewer")
        if benchmark.scores_only and (decided := self._prove_steady(finalists)):
            return decided
        blocks = Blocks(self.pool, benchmark, self.against, self.seed)
        contenders = [Finalist(controls) for controls in finalists]
        done = 0
        for look, processes in enumerate(looks_of(devices), start=1):
            self.say(f"proving {quantity(len(contenders), 'finalist')}: look {look}, {processes} processes")
            blocks.take(range(done, processes), contenders)
            done = processes
            rows = [row for finalist in contenders for row in finalist.counted]
            if rows and all(row.dropped for row in rows):  # and so would more be
                break
            if verdict := self._judge(contenders, look):
                return verdict
        judged = _evidence(benchmark, contenders)
        if reason := next((reason for entry in judged if (reason := why_lost(entry.evidence))), None):
            return NoWinner(reason, lost=True)
        objective, thresholds = benchmark.timed_objectives[0], benchmark.spec.thresholds
        better, _ = words_for(objective.metric, objective.direction)
        reason = _why_none(contenders, f"no finalist was proven {better} by the last look")
        level = thresholds.alpha / len(LOOKS)
        shown = [judge_gain(entry.evidence, thresholds, level=level, seed=self.seed) for entry in judged]
        shown.sort(key=lambda gain: -gain.speedup)
        why = [f"the best finalist: {gain.reason}" for gain in shown[:1]]
        if devices > 1:  # it may be the doing of one of them
            reason, why = "; ".join((reason, *(gain.reason for gain in shown))), []
        return NoWinner(reason, advice=(*why, *_disturbances(benchmark, contenders[0])))

    def confirm(
        self, first: Proof, smaller: ControlsFile | None = None, budgets: Mapping[str, float] = MappingProxyType({})
    ) -> Proof | NoWinner:
        """What a second sample leaves of ``first``, or ``smaller`` controls in its place where the gate proves them.

        The sample is of as many other processes, and is taken ``CONFIRM_AFTER_S`` after the first one ended.

        Raises:
            Unprovable: as ``prove``.
            NoWorker: a worker process did not get ready.
        """
        benchmark, sampled = self.benchmark, first.finalist
        if sampled is None:
            exact = self._prove_exact(smaller) if smaller is not None else first
            return exact if isinstance(exact, Proof) else replace(first, why_larger=UNPROVEN)
        if smaller is None and not first.rows:
            return first
        second = replace(self, seed=Random(f"second sample of {self.seed}").getrandbits(32))
        done = looks_of(self.pool.devices)[first.look - 1]
        found = Finalist(sampled.controls, checks=dict(sampled.checks))
        contenders = [found, *([Finalist(smaller)] if smaller is not None else [])]
        is_exact = all(claim.kind == "exact" for claim in first.claims)
        blocks = Blocks(self.pool, benchmark, self.against, second.seed, is_short=is_exact)
        self.say(f"proving {quantity(len(contenders), 'finalist')}: second sample, {done} processes")
        self.pool.close()  # what was measured since the first sample ended was measured in other processes
        after = first.ended + (0 if is_exact else CONFIRM_AFTER_S)
        gap_s = round(blocks.take(range(done, 2 * done), contenders, after=after) - first.ended, 1)
        for few in contenders[1:]:
            proven: Proof | NoWinner | None = None
            # One that was sampled for comparing it exactly proves nothing where it varies.
            if not few.out and (not is_exact or few.is_steady(benchmark)):
                proven = second._judge([few], 1)
            losses, why = compare_sizes(benchmark, found, few, budgets, is_proven=isinstance(proven, Proof))
            first = replace(first, losses=losses, why_larger=why)
            if not why and isinstance(proven, Proof):
                claims, advised = beside_first(proven.claims, first.claims, gap_s), _disturbances(benchmark, few)
                return replace(proven, claims=claims, advice=advised, passed_over=first.passed_over, losses=losses)
        if found.out:
            return NoWinner(found.out)
        claims_left = confirmed(benchmark, first, found, gap_s)
        disturbed = _disturbances(benchmark, found)
        if isinstance(claims_left, NoWinner):
            return replace(claims_left, advice=disturbed)
        left = replace(first, claims=claims_left, advice=disturbed)
        return _with_rows(left, (*sampled.counted, *found.counted))

    def _prove_exact(self, controls: ControlsFile | None) -> Proof | NoWinner:
        exact = judge_exact(self.benchmark, self.against, controls)
        if reason := exact.why_refused(self.benchmark.spec.thresholds):
            return NoWinner(reason)
        return Proof(controls, exact.claims, (), ", ".join(exact.changes))

    def _prove_steady(self, finalists: Sequence[ControlsFile | None]) -> Proof | NoWinner | None:
        """Decide on scores that are one number in every process, by one quad of each; None once one varies."""
        blocks = Blocks(self.pool, self.benchmark, self.against, self.seed, is_short=True)
        contenders = [Finalist(controls) for controls in finalists]
        processes = looks_of(self.pool.devices)[0]
        self.say(f"comparing {quantity(len(contenders), 'finalist')} exactly: {processes} processes")
        for numbers in (range(1), range(1, processes)):  # the first process tells most scores that vary
            blocks.take(numbers, contenders)
            if not all(finalist.is_steady(self.benchmark) for finalist in contenders if not finalist.out):
                return None
        return self._judge(contenders, 1)

    def _judge(self, contenders: Sequence[Finalist], look: int) -> Proof | NoWinner | None:
        """The best that is proven; no winner when nothing can win any more; None while undecided."""
        benchmark, thresholds = self.benchmark, self.benchmark.spec.thresholds
        alive = [finalist for finalist in contenders if not finalist.out]
        if not alive:
            return NoWinner(_why_none(contenders, "every finalist failed"))
        judged = _evidence(benchmark, alive)
        level = thresholds.alpha / len(LOOKS)
        gains = judge_gains([entry.evidence for entry in judged], thresholds, level=level, seed=self.seed)
        exacts = [
            judge_exact(benchmark, self.against, finalist.controls, finalist.steady(benchmark)) for finalist in alive
        ]
        proven: list[tuple[Finalist, tuple[Claim, ...]]] = []
        for finalist, exact in zip(alive, exacts, strict=True):
            own = [(entry, gain) for entry, gain in zip(judged, gains, strict=True) if entry.finalist is finalist]
            claims = claims_of(benchmark, own, exact, Look(look, self.seed, len(contenders)))
            if claims is not None:
                proven.append((finalist, claims))
        if proven:
            best, claims = max(proven, key=lambda entry: score_of(benchmark, entry[1]))
            proof = Proof(
                best.controls, claims, (), "", passed_over=_why_passed_over(best, judged, gains),
                finalist=best, look=look, ended=self.pool.timer.now(),
            )  # fmt: skip
            return _with_rows(proof, best.counted)
        # More samples change no exact metric: they help nobody where these alone refuse every finalist.
        all_worse = all(exact.worst > thresholds.max_regression for exact in exacts)
        if (all_worse or not judged) and (reason := exacts[0].why_refused(thresholds)):
            return NoWinner(_why_none(contenders, reason))
        hopeless = all(gain.skipped or gain.speedup_high < thresholds.min_speedup for gain in gains)
        if hopeless and not any(exact.claims for exact in exacts):
            return NoWinner(_why_none(alive, max(gains, key=lambda gain: gain.speedup_high).reason))
        return None


def _evidence(benchmark: TunedBenchmark, finalists: Sequence[Finalist]) -> list[Judged]:
    return [
        Judged(finalist, objective, workload, gather(finalist.of(objective.metric, workload), objective.direction))
        for finalist in finalists
        if not finalist.out
        for objective in benchmark.timed_objectives
        for workload in benchmark.timed_workloads
        if finalist.steady_values(objective, workload) is None
    ]


def _why_passed_over(best: Finalist, judged: Sequence[Judged], gains: Sequence[Decision]) -> str:
    """Why a surely better finalist than ``best`` was not proven; empty without one."""
    pairs = [
        ((entry.objective.metric, entry.workload.name), entry.finalist, gain)
        for entry, gain in zip(judged, gains, strict=True)
    ]
    own = {on: gain.speedup for on, finalist, gain in pairs if finalist is best}
    better = [
        gain for on, _, gain in pairs if gain.verdict is not Verdict.PROVEN and gain.speedup_low > own.get(on, math.inf)
    ]
    if not better:
        return ""
    return f"a better finalist was not proven: {max(better, key=lambda gain: gain.speedup_low).reason}"


def _with_rows(proof: Proof, rows: Sequence[SampleRow]) -> Proof:
    """``proof`` with its samples and its reason; no samples of what is claimed exactly are stored."""
    measured = {(claim.workload, claim.objective) for claim in proof.claims if claim.kind != "exact"}
    stored = tuple(row for row in rows if (row.workload, row.objective) in measured)
    return replace(proof, rows=stored, reason=f"proven at look {proof.look}" if stored else "compared exactly")


def _disturbances(benchmark: TunedBenchmark, finalist: Finalist) -> tuple[str, ...]:
    objective, workload = benchmark.timed_objectives[0], benchmark.timed_workloads[0]
    if not (rows := finalist.of(objective.metric, workload)):
        return ()
    return noise_of(benchmark, objective.metric, gather(rows, objective.direction))


def _why_none(contenders: Sequence[Finalist], otherwise: str) -> str:
    failed = [finalist.out for finalist in contenders if finalist.out]
    return f"{otherwise}; {failed[0]}" if failed else otherwise


def noise_of(benchmark: TunedBenchmark, metric: str, evidence: Evidence) -> tuple[str, ...]:
    """What disturbed these samples, as far as they and the machine show it now, in sentences."""
    conditions = cpu_conditions() if benchmark.device_kind(metric) == "cpu" else []
    return (*advice(evidence), *conditions)
