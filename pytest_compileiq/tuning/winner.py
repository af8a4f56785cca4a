"""The winner of a search: finalists selected, proven, reduced between the two samples of the proof, and confirmed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from pytest_compileiq.artifact import SearchRecord
from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.config import Settings
from pytest_compileiq.errors import EnvironmentFault, TuneFailed
from pytest_compileiq.model import ControlsFile
from pytest_compileiq.proof.blocks import Unprovable
from pytest_compileiq.proof.claims import score_of
from pytest_compileiq.proof.confirm import PreferSmaller
from pytest_compileiq.proof.prove import NoWinner, Proof
from pytest_compileiq.reduction import Loss, Reduction
from pytest_compileiq.rules.stopping import invalid_text
from pytest_compileiq.search.finalists import Playoff, choose_finalists
from pytest_compileiq.search.loop import NothingJudged, Search
from pytest_compileiq.search.scoring import Scored, built_key
from pytest_compileiq.spelling import quantity
from pytest_compileiq.tuning.baseline import Incumbent
from pytest_compileiq.tuning.decision import Tuning
from pytest_compileiq.tuning.leave_out import Bench
from pytest_compileiq.tuning.reduction import Reduced, Width, drop_idle, reduce_winner
from pytest_compileiq.tuning.stress import LEAST_S, SHARE, Sound, Wrong, keep_wrong, repeat_advice, with_stress


@dataclass(frozen=True)
class Outcome:
    """What was proven, and what it was reduced from.

    Attributes:
        made_of: the key of the finalist that a winner was made of.
        undecided: names as ``Reduced`` has them.
    """

    proof: Proof | NoWinner
    reduction: Reduction | None = None
    made_of: str = ""
    undecided: frozenset[str] = frozenset()


def prove_smallest(
    tuning: Tuning,
    bench: Bench,
    finalists: Sequence[ControlsFile],
    *,
    reduced_before: Callable[[ControlsFile], bool] = lambda controls: False,
    width: Width = lambda knobs: 0,
    passes: Callable[[ControlsFile], bool] = lambda controls: True,
) -> Outcome:
    """Prove the best of ``finalists``, reduced between the two samples of its proof.

    Nothing is stored unless the first sample proves it, so that the second one, in which two sizes of it are sampled,
    takes nothing from alpha.

    Args:
        finalists: the best first.
        reduced_before: whether controls were reduced to the end when they were committed: losses would add up.
        width: how far knobs reach, as a rank: of two that do the same, the narrower one stays.
        passes: whether the reduced controls stand what full ones had to stand before they are proven.

    Raises:
        Unprovable: the baseline failed, or others disturb every measurement.
        NoWorker: a worker process did not get ready.
    """
    reducing = _Reducing(bench, reduced_before, width, passes)
    proof = tuning.prove(finalists, reducing)
    return Outcome(proof) if isinstance(proof, NoWinner) else reducing.outcome(proof)


@dataclass
class _Reducing:
    """Reduces what the first sample of a proof has proven.

    Attributes:
        reduced: None as long as nothing is.
        choose: between the sizes, where they are other machine code.
        why_larger: why nothing smaller was sampled; empty where it was, or where it is the same machine code.
    """

    bench: Bench
    reduced_before: Callable[[ControlsFile], bool]
    width: Width
    passes: Callable[[ControlsFile], bool]
    reduced: Reduced | None = None
    choose: PreferSmaller | None = None
    why_larger: str = ""

    def __call__(self, first: Proof) -> PreferSmaller | None:
        found = first.winner
        if self.reduced_before(found):
            return None
        try:
            gains = score_of(self.bench.benchmark, first.claims)
            self.reduced = reduce_winner(self.bench, Scored(tuple(-gain for gain in gains), found), self.width)
            smallest = self.reduced.smallest
            if built_key(self.bench.benchmark, smallest) == built_key(self.bench.benchmark, found):
                return None
            if not self.passes(smallest):
                self.why_larger = "were wrong on a draw of acf.rng"
                return None
        except (Unprovable, EnvironmentFault) as error:  # what is proven by now is worth more than its size
            self._give_up(error)
            return None
        self.choose = PreferSmaller(self.bench.benchmark, smallest, self.reduced.budgets)
        return self.choose

    def outcome(self, proof: Proof) -> Outcome:
        """What becomes of both samples' ``proof``."""
        reduced, choose = self.reduced, self.choose
        if reduced is None:
            return Outcome(proof)
        if choose is not None and proof.winner.key == reduced.smallest.key:
            return _stored(proof, reduced, reduced.counts[2], choose.losses)
        if choose is None and not self.why_larger:
            return _stored(replace(proof, controls=reduced.smallest), reduced, reduced.counts[2])
        try:
            if choose is None:
                return _larger(self.bench, proof, reduced, self.why_larger)
            return _larger(self.bench, proof, reduced, choose.why_not, choose.losses)
        except EnvironmentFault as error:
            self._give_up(error)
            return Outcome(proof)

    def _give_up(self, error: Exception) -> None:
        self.reduced = None
        self.bench.progress.say(f"the winner stays as it was found: {error}")


def _larger(bench: Bench, proof: Proof, reduced: Reduced, why: str, losses: Sequence[Loss] = ()) -> Outcome:
    """What was found, without what is idle: by that it stays proven."""
    lean = drop_idle(bench, proof.winner, reduced.seconds)
    fewer = reduced.counts[2]
    kept_larger = f"{quantity(fewer, 'control')} {why}"
    larger = replace(lean, budgets=reduced.budgets)
    return _stored(replace(proof, controls=lean.lean), larger, lean.counts[1], losses, kept_larger)


def _stored(
    proof: Proof, reduced: Reduced, after: int, losses: Sequence[Loss] = (), kept_larger: str | None = None
) -> Outcome:
    before, lean, _ = reduced.counts
    record = Reduction(
        before=before,
        after=after,
        by_code=before - lean,
        by_objective=lean - after,
        undecided=len(reduced.undecided),
        seconds=round(reduced.seconds, 1),
        search_seconds=round(reduced.search_s, 1),
        budgets={metric: round(budget, 6) for metric, budget in reduced.budgets.items()},
        losses=tuple(losses),
        kept_larger=kept_larger,
    )
    return Outcome(proof, record, reduced.full.key, reduced.undecided)


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
