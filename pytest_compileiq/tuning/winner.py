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
from pytest_compileiq.reduction import Attribution, Reduction
from pytest_compileiq.rules.stopping import invalid_text
from pytest_compileiq.search.finalists import Playoff, choose_finalists
from pytest_compileiq.search.loop import NothingJudged
from pytest_compileiq.search.scoring import Scored, built_key
from pytest_compileiq.spelling import quantity
from pytest_compileiq.tuning.context import Found, Tuning
from pytest_compileiq.tuning.reduction import Reduced, drop_idle, reduce_winner
from pytest_compileiq.tuning.stress import LEAST_S, SHARE, Stressing, Wrong

FINALISTS = 3


@dataclass(frozen=True)
class Winner:
    """A proof, and the reduction of its winner."""

    proof: Proof | NoWinner
    reduction: Reduction | None = None
    made_of: str = ""  # the key of the finalist that a reduced winner was made of
    undecided: frozenset[str] = frozenset()  # names as ``Reduced`` has them
    wrong: Sequence[Wrong] = ()  # the finalists that dropped out before

    def reduced(self, attribution: Attribution | None) -> Reduction | None:
        """The reduction, where what ``attribution`` resolves is no longer undecided."""
        if self.reduction is None or attribution is None:
            return self.reduction
        return self.reduction.model_copy(update={"undecided": len(self.undecided & attribution.open_knobs)})


def prove_winner(tuning: Tuning, found: Found) -> Winner:
    """Prove and reduce the best of the search that is wrong on no draw, if it has judged enough to say anything."""
    benchmark, search = tuning.benchmark, found.search
    playoff = choose_finalists(search.scored.values(), search.brief.scorer, search.tally, tuning.progress)
    stressing = Stressing(tuning, max(LEAST_S, SHARE * search.tally.seconds))
    most = FINALISTS if benchmark.timed_objectives else 1
    finalists = stressing.finalists([scored.controls for scored in playoff.ranked], most=most)
    if finalists:
        winner = _prove(tuning, found, stressing, finalists)
    elif stressing.wrong:
        winner = Winner(NoWinner(_all_wrong(stressing.wrong)))
    else:
        why = _trade_offs(benchmark) if found.front else _nothing_better(playoff, search.tally.evaluations)
        winner = Winner(NoWinner(why))
    winner, proof = replace(winner, wrong=stressing.wrong), winner.proof
    if isinstance(proof, Proof):
        return replace(winner, proof=proof.with_stress(stressing.record_of(proof.winner)))
    if reason := search.why_unjudged(at_the_end=True):
        if search.interrupted:  # before there was anything to settle: the same command goes on
            raise KeyboardInterrupt
        raise NothingJudged(reason)
    if proof.lost:
        raise TuneFailed(
            f"the best candidates could not be judged, so nothing was written: {proof.reason}; "
            "the search is kept: run the same command when the device is at rest"
        )
    return winner


def _prove(tuning: Tuning, found: Found, stressing: Stressing, finalists: Sequence[ControlsFile]) -> Winner:
    """Prove the best finalist by two samples, reduced between them.

    Nothing is stored unless the first sample proves it, so that the second one, in which two sizes of it are sampled,
    takes nothing from alpha.
    """
    benchmark, search, comparison = tuning.benchmark, found.search, tuning.comparison()
    first = comparison.prove(finalists)
    if isinstance(first, NoWinner):
        return Winner(first)
    if not found.reduces or _was_reduced(tuning, first):  # losses would add up
        return Winner(comparison.confirm(first))
    reduced: Reduced | None = None
    smaller: ControlsFile | None = None
    kept_larger = ""
    try:
        gains = score_of(benchmark, first.claims)
        reduced = reduce_winner(tuning, search, Scored(tuple(-gain for gain in gains), first.winner))
        if built_key(benchmark, reduced.smallest) != built_key(benchmark, first.winner):
            if stressing.holds(reduced.smallest):
                smaller = reduced.smallest
            else:
                kept_larger = "were wrong on a draw of acf.rng"
    except (Unprovable, EnvironmentFault) as error:  # what is proven by now is worth more than its size
        reduced = smaller = None
        tuning.progress.say(f"the winner stays as it was found: {error}")
    proof = comparison.confirm(first, smaller, reduced.budgets if reduced else {})
    if isinstance(proof, NoWinner) or reduced is None:
        return Winner(proof)
    stored, kept_larger = reduced.smallest, proof.why_larger or kept_larger
    if kept_larger:  # the larger one is stored, without what is idle: by that it stays proven
        kept_larger = f"{quantity(reduced.counts[2], 'control')} {kept_larger}"
        try:
            reduced = drop_idle(tuning, search, proof.winner, reduced)
        except EnvironmentFault as error:
            tuning.progress.say(f"the winner stays as it was found: {error}")
            return Winner(proof)
        stored = reduced.lean
    record = reduced.record(proof.losses, kept_larger or None)
    return Winner(replace(proof, controls=stored), record, reduced.full.key, reduced.undecided)


def _was_reduced(tuning: Tuning, proof: Proof) -> bool:
    incumbent = tuning.incumbent
    if incumbent is None or incumbent.controls is None or incumbent.artifact.reduction is None:
        return False
    return incumbent.controls.key == proof.winner.key and not incumbent.artifact.reduction.is_open


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
