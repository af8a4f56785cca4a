"""Samples from fresh workers → the gate → claims. Tuning and replay share it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

import msgspec

from pytest_compileiq.artifact import Claim, StoredConditions
from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.errors import TuneFailed
from pytest_compileiq.model import MOST_DEVICES, Arm, ControlsFile, SampleRow
from pytest_compileiq.proof.claims import Finalist, Judged, Look, claims_of, score_of
from pytest_compileiq.proof.deal import Deal
from pytest_compileiq.proof.exact import judge_exact, judge_scores
from pytest_compileiq.proof.smaller import Choose, Proven, best
from pytest_compileiq.rules.evidence import Evidence, gather
from pytest_compileiq.rules.gate import (
    LOOKS,
    QUADS,
    SAMPLES,
    Decision,
    judge_gain,
    judge_gains,
    looks_of,
    why_lost,
)
from pytest_compileiq.rules.noise import advice
from pytest_compileiq.rules.words import words_for
from pytest_compileiq.spelling import quantity
from pytest_compileiq.timing.checked import CHECKED_CALLS
from pytest_compileiq.timing.conditions import cpu_conditions
from pytest_compileiq.timing.sampler import BlockPlan, plan_block
from pytest_compileiq.workers.pool import EvaluationFailed, Pool, asked_again

Say = Callable[[str], None]


@dataclass(frozen=True)
class Proof:
    """Controls that the gate has proven.

    Attributes:
        controls: what was proven; None where a calibration let the baseline stand against itself.
        claims: their claims, ``samples`` still to be named by the store.
        rows: their raw samples.
        reason: why they won, in words that are as true on another day: it is stored.
    """

    controls: ControlsFile | None
    claims: tuple[Claim, ...]
    rows: tuple[SampleRow, ...]
    reason: str

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


class Unprovable(TuneFailed):
    """The baseline itself failed while it was measured, or others disturb every measurement."""


def plan_of(
    benchmark: TunedBenchmark, random: Random, deal: Deal, claimed: StoredConditions | None = None
) -> BlockPlan:
    """The gate's plan for one block, in the process of ``deal``; on a GPU as ``claimed``, where it is."""
    # A compilation is long and steady: a median of several is not worth several times the wait.
    samples = 1 if {objective.metric for objective in benchmark.timed_objectives} == {"compile_time"} else SAMPLES
    # In every second process: what is wrong in every n-th call shows in the first, what is by chance in some.
    calls = CHECKED_CALLS if deal.half("checks") else 0
    on_host = benchmark.builder.clock == "cpu"
    plan = plan_block(random, quads=QUADS, samples=samples, checked_calls=calls, starts=on_host)
    plan = msgspec.structs.replace(plan, outer="tuned" if deal.half("outer") else "baseline")
    if claimed is not None:
        plan = msgspec.structs.replace(plan, launch=claimed.launch, lock_clocks=claimed.locked_mhz)
    return plan


def prove(
    pool: Pool,
    benchmark: TunedBenchmark,
    finalists: Sequence[ControlsFile | None],
    *,
    against: ControlsFile | None,
    seed: int,
    say: Say,
    choose: Choose = best,
) -> Proof | NoWinner:
    """Prove the best of ``finalists`` better than ``against`` (None: the baseline) on fresh samples.

    A finalist of None is the baseline too: proving it against itself holds the gate to its promise.

    All finalists share processes. Holm's correction is over finalists × timed objectives × workloads, and alpha is
    split over the looks.

    Args:
        choose: decides between several that are proven; by default the best by its claims.

    Raises:
        Unprovable: the baseline arm failed, or others compute on the device.
        NoWorker: a worker process did not get ready.
    """
    if not benchmark.timed_objectives:
        return _prove_exact(benchmark, finalists[0], against)
    random = Random(seed)

    def plan(number: int, of: str) -> BlockPlan:
        return plan_of(benchmark, random, Deal(seed, number, pool.devices, of))

    if benchmark.scores_only and (
        decided := _prove_steady(pool, benchmark, finalists, against, seed=seed, say=say, choose=choose)
    ):
        return decided
    contenders = [Finalist(controls) for controls in finalists]
    looks = _looks(pool)
    done = 0
    for look, processes in enumerate(looks, start=1):
        say(f"proving {quantity(len(contenders), 'finalist')}: look {look}, {processes} processes")
        pool.prepare(range(done, processes), benchmark)
        for number in range(done, processes):
            for finalist in random.sample(contenders, len(contenders)):
                _sample_finalist(pool, number, benchmark, finalist, against, plan)
        done = processes
        for finalist in contenders:
            finalist.leave_out_lost()
        if _all_was_dropped(contenders):  # and so would more be
            break
        is_last = look == len(looks)
        verdict = _judge(benchmark, contenders, against, look=look, seed=seed, choose=choose, is_last=is_last)
        if verdict is not None:
            return verdict
    if reason := _lost_evidence(benchmark, contenders):
        return NoWinner(reason, lost=True)
    first = benchmark.timed_objectives[0]
    better, _ = words_for(first.metric, first.direction)
    reason = _why_none(contenders, f"no finalist was proven {better} by the last look")
    best_first = sorted(_what_was_shown(benchmark, contenders, seed), key=lambda gain: -gain.speedup)
    why = [f"the best finalist: {gain.reason}" for gain in best_first[:1]]
    if pool.devices > 1:  # it may be the doing of one of them
        reason, why = "; ".join((reason, *(gain.reason for gain in best_first))), []
    return NoWinner(reason, advice=(*why, *_disturbances(benchmark, contenders[0])))


def _looks(pool: Pool) -> tuple[int, ...]:
    """How many processes each look takes.

    Raises:
        Unprovable: there are more devices than a claim holds.
    """
    if pool.devices > MOST_DEVICES:
        raise Unprovable(f"{pool.devices} devices are more than the {MOST_DEVICES} that a claim holds: give it fewer")
    return looks_of(pool.devices)


def _what_was_shown(benchmark: TunedBenchmark, contenders: Sequence[Finalist], seed: int) -> list[Decision]:
    """What each finalist that was judged showed, each objective and workload of it, and why that proves nothing."""
    thresholds = benchmark.spec.thresholds
    return [
        judge_gain(entry.evidence, thresholds, level=thresholds.alpha / len(LOOKS), seed=seed)
        for entry in _evidence(benchmark, [finalist for finalist in contenders if not finalist.out])
    ]


def _prove_steady(
    pool: Pool,
    benchmark: TunedBenchmark,
    finalists: Sequence[ControlsFile | None],
    against: ControlsFile | None,
    *,
    seed: int,
    say: Say,
    choose: Choose,
) -> Proof | NoWinner | None:
    """Decide on scores that are one number in every process of a look, by one quad of each; None once one varies."""
    random = Random(seed)
    contenders = [Finalist(controls) for controls in finalists]
    processes = _looks(pool)[0]
    say(f"comparing {quantity(len(contenders), 'finalist')} exactly: {processes} processes")

    def short(_number: int, _of: str) -> BlockPlan:
        return plan_block(random, quads=1, samples=1, discard=False)

    for numbers in (range(1), range(1, processes)):  # the first process tells most scores that vary
        pool.prepare(numbers, benchmark)
        for number in numbers:
            for finalist in contenders:
                _sample_finalist(pool, number, benchmark, finalist, against, short)
            if not all(finalist.is_steady(benchmark) for finalist in contenders if not finalist.out):
                return None
    return _judge(benchmark, contenders, against, look=1, seed=seed, choose=choose, is_last=True)


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


def _sample_finalist(
    pool: Pool,
    number: int,
    benchmark: TunedBenchmark,
    finalist: Finalist,
    against: ControlsFile | None,
    plan: Callable[[int, str], BlockPlan],
) -> None:
    for workload in benchmark.timed_workloads:
        if finalist.out:
            return
        try:
            arms: Mapping[Arm, ControlsFile | None] = {"baseline": against, "tuned": finalist.controls}
            of = f"{finalist.controls.key if finalist.controls else ''} {workload.name}"
            planned = partial(pool.block, number, benchmark, arms, workload, plan(number, of))
            finalist.take(workload, asked_again(planned))
        except EvaluationFailed as failure:
            if failure.arm == "baseline":
                raise Unprovable(
                    f"the baseline failed while it was measured ({failure.kind}): {failure.reason}"
                ) from failure
            if failure.kind == "disturbed":
                raise Unprovable(f"nothing can be proven while {failure.reason}") from failure
            finalist.out = f"failed in the proof ({failure.kind}): {failure.reason}"


def _judge(
    benchmark: TunedBenchmark,
    contenders: Sequence[Finalist],
    against: ControlsFile | None,
    *,
    look: int,
    seed: int,
    choose: Choose,
    is_last: bool,
) -> Proof | NoWinner | None:
    """A winner; no winner when nothing can win any more; None while undecided."""
    thresholds = benchmark.spec.thresholds
    level = thresholds.alpha / len(LOOKS)
    alive = [finalist for finalist in contenders if not finalist.out]
    if not alive:
        return NoWinner(_why_none(contenders, "every finalist failed"))
    judged = _evidence(benchmark, alive)
    gains = judge_gains([entry.evidence for entry in judged], thresholds, level=level, seed=seed)
    exacts = [
        judge_exact(benchmark, against, finalist.controls).and_also(judge_scores(benchmark, finalist.steady(benchmark)))
        for finalist in alive
    ]
    proven = []
    for finalist, exact in zip(alive, exacts, strict=True):
        own = [(entry, gain) for entry, gain in zip(judged, gains, strict=True) if entry.finalist is finalist]
        claims = claims_of(benchmark, own, exact, Look(look, seed, len(contenders)))
        if claims is not None:
            proven.append(Proven(finalist, claims, tuple(finalist.counted), score_of(benchmark, claims), look))
    if chosen := choose(proven, alive, is_last):
        return _proof(chosen)
    if proven:
        return None
    # More samples change no exact metric: they help nobody where these alone refuse every finalist.
    all_worse = all(exact.worst() > thresholds.max_regression for exact in exacts)
    if (all_worse or not judged) and (reason := exacts[0].why_refused(thresholds)):
        return NoWinner(_why_none(contenders, reason))
    hopeless = all(gain.skipped or gain.speedup_high < thresholds.min_speedup for gain in gains)
    if hopeless and not any(exact.claims for exact in exacts):
        return NoWinner(_why_none(alive, max(gains, key=lambda gain: gain.speedup_high).reason))
    return None


def _proof(winner: Proven) -> Proof:
    """What is stored of a winner: no samples of what is claimed exactly."""
    measured = {(claim.workload, claim.objective) for claim in winner.claims if claim.kind != "exact"}
    rows = tuple(row for row in winner.rows if (row.workload, row.objective) in measured)
    reason = f"proven at look {winner.look}" if rows else "compared exactly"
    return Proof(winner.finalist.controls, winner.claims, rows, reason)


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
