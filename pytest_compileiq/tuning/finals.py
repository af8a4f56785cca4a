"""The best of a search: held to other draws, proven, and reduced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pytest_compileiq.artifact import SearchRecord
from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.config import Settings
from pytest_compileiq.errors import TuneFailed
from pytest_compileiq.model import ControlsFile
from pytest_compileiq.proof.prove import NoWinner
from pytest_compileiq.rules.stopping import invalid_text
from pytest_compileiq.search.finalists import Playoff, choose_finalists
from pytest_compileiq.search.loop import NothingJudged, Search
from pytest_compileiq.search.scoring import Scored
from pytest_compileiq.spelling import quantity
from pytest_compileiq.tuning.incumbent import Incumbent
from pytest_compileiq.tuning.leave_out import Bench
from pytest_compileiq.tuning.settle import Tuning
from pytest_compileiq.tuning.smallest import Outcome, prove_smallest
from pytest_compileiq.tuning.stress import LEAST_S, SHARE, Sound, Wrong, keep_wrong, repeat_advice, with_stress

FINALISTS = 3


def bench_of(tuning: Tuning, settings: Settings, search: Search) -> Bench:
    """What leaves parts out of the search's controls, and judges what is left."""
    seen = [(knobs, sum(scored.scores)) for key, scored in search.scored.items() for knobs in search.twins.get(key, ())]
    return Bench(
        tuning.benchmark, tuning.pool, tuning.progress, tuning.seed, settings.jobs, search.why_never, search.twins,
        seen, search.brief.scorer.varies, search.tally.seconds,
    )  # fmt: skip


def prove_best(
    tuning: Tuning,
    settings: Settings,
    search: Search,
    bench: Bench,
    front: Sequence[Scored],
    incumbent: Incumbent | None,
) -> tuple[Outcome, Sound]:
    """Prove and reduce the best of the search that is wrong on no draw, if it has judged enough to say anything.

    Raises:
        NothingJudged: no verdict can be given on what was evaluated.
        TuneFailed: evidence was lost.
        KeyboardInterrupt: the search was interrupted before there was anything to settle; the same command goes on.
    """
    benchmark = tuning.benchmark
    playoff = choose_finalists(search.scored.values(), search.brief.scorer, search.tally, tuning.progress)
    stressing = tuning.stressing(max(LEAST_S, SHARE * search.tally.seconds))
    sound = stressing.sound(
        [scored.controls for scored in playoff.ranked], most=FINALISTS if benchmark.timed_objectives else 1
    )
    finalists = [scored.controls for scored in playoff.ranked if scored.controls in sound.finalists]
    if sound.wrong and not finalists:
        outcome = Outcome(NoWinner(_all_wrong(sound.wrong)))
    elif not finalists:
        outcome = Outcome(
            NoWinner(_trade_offs(benchmark) if front else _nothing_better(playoff, search.tally.evaluations))
        )
    elif settings.reduce and not search.interrupted:
        outcome = prove_smallest(
            tuning, bench, finalists, width=tuning.width, passes=lambda controls: stressing.holds(controls, sound),
            reduced_before=lambda controls: _was_reduced(incumbent, controls),
        )  # fmt: skip
    else:
        outcome = Outcome(tuning.prove(finalists))
    if isinstance(proof := outcome.proof, NoWinner):
        if reason := search.why_unjudged(at_the_end=True):
            if search.interrupted:
                raise KeyboardInterrupt
            raise NothingJudged(reason)
        if proof.lost:
            raise TuneFailed(
                f"{benchmark.nodeid}: the best candidates could not be judged, so nothing was written: {proof.reason}; "
                "the search is kept: run the same command when the device is at rest"
            )
        return outcome, sound
    return replace(outcome, proof=with_stress(proof, sound.record_of(benchmark, proof.winner))), sound


def dropped_out(
    benchmark: TunedBenchmark, sound: Sound, record: SearchRecord, incumbent: Incumbent | None
) -> Iterator[str]:
    """Which finalists are wrong on a draw, and what repeats it."""
    for wrong in sound.wrong:
        is_committed = incumbent is not None and incumbent.controls is not None and wrong.controls == incumbent.controls
        which = "the committed controls" if is_committed else f"the controls {wrong.controls.sha256[:8]}"
        where = keep_wrong(benchmark, wrong, record)
        yield f"{which} dropped out, {wrong}{repeat_advice(benchmark.nodeid, wrong.seed, where)}"


def _was_reduced(incumbent: Incumbent | None, controls: ControlsFile) -> bool:
    """Whether these are the committed controls, of which nothing more can be left out."""
    if incumbent is None or incumbent.controls is None or incumbent.artifact.reduction is None:
        return False
    return incumbent.controls.key == controls.key and not incumbent.artifact.reduction.is_open


def _nothing_better(playoff: Playoff, evaluations: int) -> str:
    reason = f"no valid candidate of {quantity(evaluations, 'evaluation')} was better than the baseline"
    if not playoff.failures:
        return reason
    first_reason: dict[str, str] = {failure.kind: failure.reason for failure in reversed(playoff.failures)}
    failed = invalid_text(Counter(failure.kind for failure in playoff.failures), first_reason)
    return f"{reason}; of the best, measured again, {failed}"


def _all_wrong(wrong: Sequence[Wrong]) -> str:
    best = f"the {len(wrong)} best candidates are" if len(wrong) > 1 else "the best candidate is"
    if (seed := wrong[0].seed) is None:
        return f"{best} refused, {wrong[0]}"
    return f"{best} wrong where the baseline is not, on draw {seed} of acf.rng"


def _trade_offs(benchmark: TunedBenchmark) -> str:
    return (
        "each gain on one objective loses on another more than "
        f"max_regression={benchmark.spec.thresholds.max_regression:g} allows: acf show {benchmark.name} lists the front"
    )
