"""The winner of a search: finalists selected, proven, reduced between the two samples of the proof, and confirmed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.errors import EnvironmentFault, TuneFailed
from pytest_compileiq.model import ControlsFile
from pytest_compileiq.proof.blocks import Unprovable
from pytest_compileiq.proof.claims import NoWinner, Proof, score_of
from pytest_compileiq.proof.confirm import PreferSmaller
from pytest_compileiq.reduction import Attribution, Loss, Reduction
from pytest_compileiq.rules.stopping import invalid_text
from pytest_compileiq.search.finalists import Playoff, choose_finalists
from pytest_compileiq.search.loop import NothingJudged, Search
from pytest_compileiq.search.scoring import Scored, built_key
from pytest_compileiq.spelling import quantity
from pytest_compileiq.tuning.baseline import Incumbent
from pytest_compileiq.tuning.context import Tuning
from pytest_compileiq.tuning.leave_out import Bench
from pytest_compileiq.tuning.reduction import Reduced, drop_idle, reduce_winner
from pytest_compileiq.tuning.stress import LEAST_S, SHARE, Sound, Stressing, Wrong

FINALISTS = 3


@dataclass(frozen=True)
class Winner:
    """A proof, and the reduction of its winner.

    Attributes:
        sound: the finalists that were proven, and those that dropped out before.
        made_of: the key of the finalist that a reduced winner was made of.
        undecided: names as ``Reduced`` has them.
    """

    proof: Proof | NoWinner
    sound: Sound
    reduction: Reduction | None = None
    made_of: str = ""
    undecided: frozenset[str] = frozenset()

    def reduced(self, attribution: Attribution | None) -> Reduction | None:
        """The reduction, where what ``attribution`` resolves is no longer undecided."""
        if self.reduction is None or attribution is None:
            return self.reduction
        return self.reduction.model_copy(update={"undecided": len(self.undecided & attribution.open_knobs)})


def prove_winner(
    tuning: Tuning, search: Search, bench: Bench, has_front: bool, incumbent: Incumbent | None, *, reduces: bool
) -> Winner:
    """Prove and reduce the best of the search that is wrong on no draw, if it has judged enough to say anything."""
    benchmark = tuning.benchmark
    playoff = choose_finalists(search.scored.values(), search.brief.scorer, search.tally, tuning.progress)
    stressing = tuning.stressing(max(LEAST_S, SHARE * search.tally.seconds))
    sound = stressing.sound(
        [scored.controls for scored in playoff.ranked], most=FINALISTS if benchmark.timed_objectives else 1
    )
    if sound.finalists:
        winner = _prove(tuning, bench, stressing, sound, incumbent, reduces=reduces)
    elif sound.wrong:
        winner = Winner(NoWinner(_all_wrong(sound.wrong)), sound)
    else:
        why = _trade_offs(benchmark) if has_front else _nothing_better(playoff, search.tally.evaluations)
        winner = Winner(NoWinner(why), sound)
    proof = winner.proof
    if isinstance(proof, NoWinner):
        if reason := search.why_unjudged(at_the_end=True):
            if search.interrupted:  # before there was anything to settle: the same command goes on
                raise KeyboardInterrupt
            raise NothingJudged(reason)
        if proof.lost:
            raise TuneFailed(
                f"{benchmark.nodeid}: the best candidates could not be judged, so nothing was written: {proof.reason}; "
                "the search is kept: run the same command when the device is at rest"
            )
        return winner
    return replace(winner, proof=proof.with_stress(sound.record_of(benchmark, proof.winner)))


def _prove(
    tuning: Tuning, bench: Bench, stressing: Stressing, sound: Sound, incumbent: Incumbent | None, *, reduces: bool
) -> Winner:
    """Prove the best finalist by two samples, reduced between them.

    Nothing is stored unless the first sample proves it, so that the second one, in which two sizes of it are sampled,
    takes nothing from alpha.
    """
    comparison = tuning.comparison()
    first = comparison.prove(sound.finalists)
    if isinstance(first, NoWinner):
        return Winner(first, sound)
    if not reduces or _was_reduced(incumbent, first.winner):  # losses would add up
        return Winner(comparison.confirm(first), sound)
    benchmark, found = tuning.benchmark, first.winner
    reduced: Reduced | None = None
    prefer: PreferSmaller | None = None
    why_larger = ""
    try:
        gains = score_of(benchmark, first.claims)
        reduced = reduce_winner(bench, Scored(tuple(-gain for gain in gains), found), tuning.width)
        if built_key(benchmark, reduced.smallest) != built_key(benchmark, found):
            if stressing.holds(reduced.smallest, sound):
                prefer = PreferSmaller(benchmark, reduced.smallest, reduced.budgets)
            else:
                why_larger = "were wrong on a draw of acf.rng"
    except (Unprovable, EnvironmentFault) as error:  # what is proven by now is worth more than its size
        reduced = prefer = None
        tuning.progress.say(f"the winner stays as it was found: {error}")
    proof = comparison.confirm(first, prefer)
    if isinstance(proof, NoWinner) or reduced is None:
        return Winner(proof, sound)
    losses = prefer.losses if prefer is not None else ()
    if prefer is not None and proof.winner.key == reduced.smallest.key:
        return _reduced(proof, sound, reduced, reduced.counts[2], losses)
    if prefer is None and not why_larger:
        return _reduced(replace(proof, controls=reduced.smallest), sound, reduced, reduced.counts[2])
    try:  # the larger one is stored, without what is idle: by that it stays proven
        lean = drop_idle(bench, proof.winner, reduced.seconds)
    except EnvironmentFault as error:
        tuning.progress.say(f"the winner stays as it was found: {error}")
        return Winner(proof, sound)
    kept_larger = f"{quantity(reduced.counts[2], 'control')} {prefer.why_not if prefer is not None else why_larger}"
    larger = replace(lean, budgets=reduced.budgets)
    return _reduced(replace(proof, controls=lean.lean), sound, larger, lean.counts[1], losses, kept_larger)


def _reduced(
    proof: Proof,
    sound: Sound,
    reduced: Reduced,
    after: int,
    losses: Sequence[Loss] = (),
    kept_larger: str | None = None,
) -> Winner:
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
    return Winner(proof, sound, record, reduced.full.key, reduced.undecided)


def _was_reduced(incumbent: Incumbent | None, controls: ControlsFile) -> bool:
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
