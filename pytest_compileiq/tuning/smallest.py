"""Finalists → the proven winner with as few controls as do the same, and what is recorded of that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.model import ControlsFile
from pytest_compileiq.proof.blocks import Unprovable
from pytest_compileiq.proof.claims import score_of
from pytest_compileiq.proof.prove import NoWinner, Proof
from pytest_compileiq.proof.smaller import PreferSmaller
from pytest_compileiq.reduction import Loss, Reduction
from pytest_compileiq.search.duplicates import built_key
from pytest_compileiq.search.scoring import Scored
from pytest_compileiq.spelling import quantity
from pytest_compileiq.tuning.leave_out import Bench
from pytest_compileiq.tuning.reduce import Reduced, Width, drop_idle, reduce_winner
from pytest_compileiq.tuning.settle import Tuning


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
