"""Finalists → the proven winner with as few controls as do the same, and what is recorded of that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.kept_controls import Loss, Reduction
from pytest_compileiq.model import ControlsFile
from pytest_compileiq.proof.claims import score_of
from pytest_compileiq.proof.prove import NoWinner, Proof, Unprovable
from pytest_compileiq.proof.smaller import PreferSmaller
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
    """Prove the best of ``finalists``, reduce what was proven, and prove that beside what it was made of.

    Nothing is stored unless the first proof finds it, so that the second one, which only chooses between two sizes of
    it, takes nothing from alpha.

    Args:
        finalists: the best first.
        reduced_before: whether controls were reduced to the end when they were committed: losses would add up.
        width: how far knobs reach, as a rank: of two that do the same, the narrower one stays.
        passes: whether the reduced controls stand what full ones had to stand before they are proven.

    Raises:
        Unprovable: the baseline failed, or others disturb every measurement.
        NoWorker: a worker process did not get ready.
    """
    proof = tuning.prove(finalists)
    if isinstance(proof, NoWinner) or reduced_before(proof.winner):
        return Outcome(proof)
    try:
        return _smallest(tuning, bench, proof, width, passes)
    except (Unprovable, EnvironmentFault) as error:  # what is proven by now is worth more than its size
        bench.progress.say(f"the winner stays as it was found: {error}")
        return Outcome(proof)


def _smallest(
    tuning: Tuning, bench: Bench, proof: Proof, width: Width, passes: Callable[[ControlsFile], bool]
) -> Outcome:
    found = proof.winner
    gains = score_of(bench.benchmark, proof.claims)
    reduced = reduce_winner(bench, Scored(tuple(-gain for gain in gains), found), width)
    if built_key(bench.benchmark, reduced.smallest) == built_key(bench.benchmark, found):
        return _stored(replace(proof, controls=reduced.smallest), reduced, reduced.counts[2])
    if not passes(reduced.smallest):
        return _larger(bench, proof, reduced, "were wrong on a draw of acf.rng")
    choose = PreferSmaller(bench.benchmark, found, reduced.smallest, reduced.budgets)
    if bench.benchmark.timed_objectives:
        bench.pool.close()  # these processes have chosen the smaller set: it has to hold in others
        pair = tuning.prove([found, reduced.smallest], choose)
    else:
        pair = tuning.prove([reduced.smallest])
    if isinstance(pair, NoWinner) or pair.winner.key != reduced.smallest.key:
        return _larger(bench, proof, reduced, choose.why_not, choose.losses)
    return _stored(pair, reduced, reduced.counts[2], choose.losses)


def _larger(bench: Bench, proof: Proof, reduced: Reduced, why: str, losses: Sequence[Loss] = ()) -> Outcome:
    """What was proven first, without what is idle: by that it stays proven."""
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
