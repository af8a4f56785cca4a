"""Samples from fresh workers → the gate → claims. Tuning and replay share it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.claim import Claim
from pytest_compileiq.model import MOST_DEVICES, ControlsFile
from pytest_compileiq.outcome import Verdict
from pytest_compileiq.proof.blocks import Blocks, Unprovable
from pytest_compileiq.proof.claims import Finalist, Judged, Look, claims_of, judge_exact, judge_scores, score_of
from pytest_compileiq.proof.confirm import PreferSmaller, Proven, Unconfirmed, beside_first, confirmed
from pytest_compileiq.rules.evidence import Evidence, gather
from pytest_compileiq.rules.gate import (
    CONFIRM_AFTER_S,
    LOOKS,
    Decision,
    judge_gain,
    judge_gains,
    looks_of,
    why_lost,
)
from pytest_compileiq.rules.noise import advice
from pytest_compileiq.rules.words import words_for
from pytest_compileiq.samples import SampleRow
from pytest_compileiq.spelling import quantity
from pytest_compileiq.timing.conditions import cpu_conditions
from pytest_compileiq.workers.pool import Pool

Say = Callable[[str], None]


@dataclass(frozen=True)
class Proof:
    """Controls that the gate has proven.

    Attributes:
        controls: what was proven; None where a calibration let the baseline stand against itself.
        claims: their claims, ``samples`` still to be named by the store.
        rows: their raw samples.
        reason: why they won, in words that are as true on another day: it is stored.
        advice: what disturbed the samples, and what to do about it; never stored.
        passed_over: why a better finalist was not proven; empty without one, and never stored.
    """

    controls: ControlsFile | None
    claims: tuple[Claim, ...]
    rows: tuple[SampleRow, ...]
    reason: str
    advice: tuple[str, ...] = ()
    passed_over: str = ""

    @property
    def winner(self) -> ControlsFile:
        """The controls of a proof that is no calibration's."""
        if self.controls is None:
            raise ValueError("the baseline, proven against itself, is no winner")
        return self.controls


@dataclass(frozen=True)
class NoWinner:
    """Nothing was proven.

    Attributes:
        reason: why, in words that are as true on another day: it is stored.
        advice: what the best finalist lacked, what disturbed the samples, and what to do about it; never stored.
        lost: too much evidence was dropped to judge a finalist, so that nothing may be written.
    """

    reason: str
    advice: tuple[str, ...] = ()
    lost: bool = False

    @property
    def told(self) -> str:
        """The reason with the advice, for a message of this run."""
        return "; ".join((self.reason, *self.advice))


Meanwhile = Callable[[Proof], PreferSmaller | None]


@dataclass(frozen=True)
class _Comparison:
    """A comparison of finalists with ``against``, or the baseline, in workers of ``pool``."""

    pool: Pool
    benchmark: TunedBenchmark
    against: ControlsFile | None
    seed: int
    say: Say

    def blocks(self, *, is_short: bool = False) -> Blocks:
        return Blocks(self.pool, self.benchmark, self.against, self.seed, is_short=is_short)


def prove(
    pool: Pool,
    benchmark: TunedBenchmark,
    finalists: Sequence[ControlsFile | None],
    *,
    against: ControlsFile | None,
    seed: int,
    say: Say,
    meanwhile: Meanwhile = lambda first: None,
) -> Proof | NoWinner:
    """Prove the best of ``finalists`` better than ``against`` (None: the baseline) on two fresh samples.

    A finalist of None is the baseline too: proving it against itself holds the gate to its promise.

    The gate judges the first sample: all finalists share processes, Holm's correction is over finalists × timed
    objectives × workloads, and alpha is split over the looks. What it proves has to show its gain in a second sample of
    as many other processes. What is compared exactly needs no samples.

    Args:
        meanwhile: told what the first sample proved, while the time to the second passes; what it returns as smaller
            is sampled, too, and takes the place of what was proven where the gate proves it.

    Raises:
        Unprovable: the baseline arm failed, or others compute on the device.
        NoWorker: a worker process did not get ready.
    """
    if not benchmark.timed_objectives:
        exact = _prove_exact(benchmark, finalists[0], against)
        beside = meanwhile(exact) if isinstance(exact, Proof) else None
        smaller = _prove_exact(benchmark, beside.smaller, against) if beside is not None else exact
        return smaller if isinstance(smaller, Proof) else exact
    comparison = _Comparison(pool, benchmark, against, seed, say)
    first = _first_sample(comparison, finalists)
    if isinstance(first, NoWinner):
        return first
    ended = pool.timer.now()
    proof = _proof(first)
    beside = meanwhile(proof)
    if not proof.rows and beside is None:
        return proof
    other = Random(f"second sample of {seed}").getrandbits(32)
    return _second_sample(replace(comparison, seed=other), first, beside, ended=ended)


def _first_sample(comparison: _Comparison, finalists: Sequence[ControlsFile | None]) -> Proven | NoWinner:
    """The finalist that the gate proves, by its looks."""
    pool, benchmark = comparison.pool, comparison.benchmark
    if benchmark.scores_only and (decided := _prove_steady(comparison, finalists)):
        return decided
    blocks = comparison.blocks()
    contenders = [Finalist(controls) for controls in finalists]
    looks = _looks(pool)
    done = 0
    for look, processes in enumerate(looks, start=1):
        comparison.say(f"proving {quantity(len(contenders), 'finalist')}: look {look}, {processes} processes")
        blocks.take(range(done, processes), contenders)
        done = processes
        if _all_was_dropped(contenders):  # and so would more be
            break
        if verdict := _judge(comparison, contenders, look):
            return verdict
    if reason := _lost_evidence(benchmark, contenders):
        return NoWinner(reason, lost=True)
    first = benchmark.timed_objectives[0]
    better, _ = words_for(first.metric, first.direction)
    reason = _why_none(contenders, f"no finalist was proven {better} by the last look")
    best_first = sorted(_what_was_shown(comparison, contenders), key=lambda gain: -gain.speedup)
    why = [f"the best finalist: {gain.reason}" for gain in best_first[:1]]
    if pool.devices > 1:  # it may be the doing of one of them
        reason, why = "; ".join((reason, *(gain.reason for gain in best_first))), []
    return NoWinner(reason, advice=(*why, *_disturbances(benchmark, contenders[0])))


def _second_sample(
    comparison: _Comparison, first: Proven, beside: PreferSmaller | None, *, ended: float
) -> Proof | NoWinner:
    """What the second sample leaves of what the first proved, or the smaller one in its place."""
    pool, benchmark = comparison.pool, comparison.benchmark
    done = _looks(pool)[first.look - 1]
    found = Finalist(first.finalist.controls, checks=dict(first.finalist.checks))
    contenders = [found, *([Finalist(beside.smaller)] if beside is not None else [])]
    is_exact = all(claim.kind == "exact" for claim in first.claims)
    blocks = comparison.blocks(is_short=is_exact)
    comparison.say(f"proving {quantity(len(contenders), 'finalist')}: second sample, {done} processes")
    pool.close()  # what was measured since the first sample ended was measured in other processes
    begun = blocks.take(range(done, 2 * done), contenders, after=ended + (0 if is_exact else CONFIRM_AFTER_S))
    gap_s = round(begun - ended, 1)
    if beside is not None:
        smaller = contenders[1]
        proven = None if smaller.out else _proven_smaller(comparison, smaller, first, gap_s)
        if beside.is_chosen(found, smaller, is_proven=proven is not None) and proven is not None:
            return replace(_proof(proven), advice=_disturbances(benchmark, smaller))
    if found.out:
        return NoWinner(found.out)
    claims = confirmed(benchmark, first, found, gap_s)
    disturbed = _disturbances(benchmark, found)
    if isinstance(claims, Unconfirmed):
        return NoWinner(claims.reason, advice=disturbed, lost=claims.lost)
    return replace(_proof(replace(first, claims=claims), found.counted), advice=disturbed)


def _proven_smaller(comparison: _Comparison, smaller: Finalist, first: Proven, gap_s: float) -> Proven | None:
    """What the gate proves of reduced controls by the second sample alone, which has one look."""
    if all(claim.kind == "exact" for claim in first.claims) and not smaller.is_steady(comparison.benchmark):
        return None  # it was sampled for comparing it exactly
    proven = _judge(comparison, [smaller], 1)
    if not isinstance(proven, Proven):
        return None
    return replace(proven, claims=beside_first(proven.claims, first.claims, gap_s), passed_over=first.passed_over)


def _looks(pool: Pool) -> tuple[int, ...]:
    """How many processes each look takes.

    Raises:
        Unprovable: there are more devices than a claim holds.
    """
    if pool.devices > MOST_DEVICES:
        raise Unprovable(f"{pool.devices} devices are more than the {MOST_DEVICES} that a claim holds: give it fewer")
    return looks_of(pool.devices)


def _what_was_shown(comparison: _Comparison, contenders: Sequence[Finalist]) -> list[Decision]:
    """What each finalist that was judged showed, each objective and workload of it, and why that proves nothing."""
    thresholds = comparison.benchmark.spec.thresholds
    return [
        judge_gain(entry.evidence, thresholds, level=thresholds.alpha / len(LOOKS), seed=comparison.seed)
        for entry in _evidence(comparison.benchmark, [finalist for finalist in contenders if not finalist.out])
    ]


def _prove_steady(comparison: _Comparison, finalists: Sequence[ControlsFile | None]) -> Proven | NoWinner | None:
    """Decide on scores that are one number in every process of a look, by one quad of each; None once one varies."""
    blocks = comparison.blocks(is_short=True)
    contenders = [Finalist(controls) for controls in finalists]
    processes = _looks(comparison.pool)[0]
    comparison.say(f"comparing {quantity(len(contenders), 'finalist')} exactly: {processes} processes")
    for numbers in (range(1), range(1, processes)):  # the first process tells most scores that vary
        blocks.take(numbers, contenders)
        if not all(finalist.is_steady(comparison.benchmark) for finalist in contenders if not finalist.out):
            return None
    return _judge(comparison, contenders, 1)


def _all_was_dropped(contenders: Sequence[Finalist]) -> bool:
    rows = [row for finalist in contenders for row in finalist.counted]
    return bool(rows) and all(row.dropped for row in rows)


def _lost_evidence(benchmark: TunedBenchmark, contenders: Sequence[Finalist]) -> str | None:
    """Why one of the finalists was not judged at all, or None when each of them was."""
    judged = _evidence(benchmark, [finalist for finalist in contenders if not finalist.out])
    return next((reason for entry in judged if (reason := why_lost(entry.evidence))), None)


def _evidence(benchmark: TunedBenchmark, finalists: Sequence[Finalist]) -> list[Judged]:
    """What needs statistics: every timed objective on every workload, but for scores that never varied."""
    return [
        Judged(finalist, objective, workload, gather(finalist.of(objective.metric, workload), objective.direction))
        for finalist in finalists
        for objective in benchmark.timed_objectives
        for workload in benchmark.timed_workloads
        if finalist.steady_values(objective, workload) is None
    ]


def _judge(comparison: _Comparison, contenders: Sequence[Finalist], look: int) -> Proven | NoWinner | None:
    """The best that is proven; no winner when nothing can win any more; None while undecided."""
    benchmark, seed = comparison.benchmark, comparison.seed
    thresholds = benchmark.spec.thresholds
    level = thresholds.alpha / len(LOOKS)
    alive = [finalist for finalist in contenders if not finalist.out]
    if not alive:
        return NoWinner(_why_none(contenders, "every finalist failed"))
    judged = _evidence(benchmark, alive)
    gains = judge_gains([entry.evidence for entry in judged], thresholds, level=level, seed=seed)
    exacts = [
        judge_exact(benchmark, comparison.against, finalist.controls).and_also(
            judge_scores(benchmark, finalist.steady(benchmark))
        )
        for finalist in alive
    ]
    proven = []
    for finalist, exact in zip(alive, exacts, strict=True):
        own = [(entry, gain) for entry, gain in zip(judged, gains, strict=True) if entry.finalist is finalist]
        claims = claims_of(benchmark, own, exact, Look(look, seed, len(contenders)))
        if claims is not None:
            proven.append(Proven(finalist, claims, score_of(benchmark, claims), look))
    if proven:
        best = max(proven, key=lambda entry: entry.score)
        return replace(best, passed_over=_why_passed_over(best, judged, gains))
    # More samples change no exact metric: they help nobody where these alone refuse every finalist.
    all_worse = all(exact.worst() > thresholds.max_regression for exact in exacts)
    if (all_worse or not judged) and (reason := exacts[0].why_refused(thresholds)):
        return NoWinner(_why_none(contenders, reason))
    hopeless = all(gain.skipped or gain.speedup_high < thresholds.min_speedup for gain in gains)
    if hopeless and not any(exact.claims for exact in exacts):
        return NoWinner(_why_none(alive, max(gains, key=lambda gain: gain.speedup_high).reason))
    return None


def _why_passed_over(best: Proven, judged: Sequence[Judged], gains: Sequence[Decision]) -> str:
    """Why a surely better finalist than ``best`` was not proven; empty without one."""
    pairs = [
        ((entry.objective.metric, entry.workload.name), entry.finalist, gain)
        for entry, gain in zip(judged, gains, strict=True)
    ]
    own = {on: gain.speedup for on, finalist, gain in pairs if finalist is best.finalist}
    better = [
        gain for on, _, gain in pairs if gain.verdict is not Verdict.PROVEN and gain.speedup_low > own.get(on, math.inf)
    ]
    if not better:
        return ""
    return f"a better finalist was not proven: {max(better, key=lambda gain: gain.speedup_low).reason}"


def _proof(winner: Proven, second: Sequence[SampleRow] = ()) -> Proof:
    """What is stored of a winner: no samples of what is claimed exactly."""
    measured = {(claim.workload, claim.objective) for claim in winner.claims if claim.kind != "exact"}
    rows = tuple(row for row in (*winner.finalist.counted, *second) if (row.workload, row.objective) in measured)
    reason = f"proven at look {winner.look}" if rows else "compared exactly"
    return Proof(winner.finalist.controls, winner.claims, rows, reason, passed_over=winner.passed_over)


def _prove_exact(
    benchmark: TunedBenchmark, controls: ControlsFile | None, against: ControlsFile | None
) -> Proof | NoWinner:
    exact = judge_exact(benchmark, against, controls)
    if reason := exact.why_refused(benchmark.spec.thresholds):
        return NoWinner(reason)
    return Proof(controls, exact.claims, (), ", ".join(exact.changes))


def _disturbances(benchmark: TunedBenchmark, finalist: Finalist) -> tuple[str, ...]:
    """What disturbed a finalist's samples, as far as they and the machine show it now."""
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
