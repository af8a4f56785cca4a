"""Finalists → the winner with as few controls as do the same, proven beside them, and what is recorded of that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pytest_compileiq.kept_controls import Loss, Reduction
from pytest_compileiq.model import ControlsFile
from pytest_compileiq.proof.prove import NoWinner, Proof
from pytest_compileiq.proof.smaller import PreferSmaller
from pytest_compileiq.search.scoring import Scored
from pytest_compileiq.tuning.leave_out import Bench
from pytest_compileiq.tuning.reduce import Reduced, Width, drop_idle, reduce_winner
from pytest_compileiq.tuning.settle import Tuning


@dataclass(frozen=True)
class Outcome:
    """What was proven, and what it was reduced from.

    Attributes:
        made_of: the key of the finalist that a winner was made of.
    """

    proof: Proof | NoWinner
    reduction: Reduction | None = None
    made_of: str = ""


def prove_smallest(
    tuning: Tuning,
    bench: Bench,
    finalists: Sequence[Scored],
    *,
    width: Width = lambda knobs: 0,
    passes: Callable[[ControlsFile], bool] = lambda controls: True,
) -> Outcome:
    """Reduce the best finalist and prove it in full and reduced, with the others.

    Args:
        finalists: the best first.
        width: how far knobs reach, as a rank: of two that do the same, the narrower one stays.
        passes: whether the reduced controls stand what full ones had to stand before they are proven.

    Raises:
        Unprovable: the baseline failed, or others disturb every measurement.
        NoWorker: a worker process did not get ready.
    """
    reduced = reduce_winner(bench, finalists[0], width)
    if reduced.smallest.key != reduced.lean.key and not passes(reduced.smallest):
        reduced = replace(reduced, smallest=reduced.lean)
    others = [finalist.controls for finalist in finalists[1:]]
    if not bench.benchmark.timed_objectives:
        return _recorded(bench, tuning.prove([reduced.smallest]), reduced)
    is_smaller = reduced.smallest.key != reduced.lean.key
    smallest = reduced.smallest if is_smaller else reduced.lean
    choose = PreferSmaller(bench.benchmark, reduced.lean, smallest, reduced.budgets)
    proof = tuning.prove([reduced.lean, *others, *([smallest] if is_smaller else [])], choose)
    return _recorded(bench, proof, reduced, choose.losses, choose.why_not if is_smaller else "")


def _recorded(
    bench: Bench, proof: Proof | NoWinner, reduced: Reduced, losses: Sequence[Loss] = (), why_not: str = ""
) -> Outcome:
    """The proof with what its winner was made of; a larger one loses what is idle, by which it stays proven."""
    if isinstance(proof, NoWinner):
        return Outcome(proof)
    if proof.winner.key == reduced.smallest.key:
        return Outcome(proof, _record(reduced, reduced.counts[2], losses), reduced.full.key)
    lean = drop_idle(bench, proof.winner, reduced.seconds)
    proof = replace(proof, controls=lean.lean)
    if lean.full.key != reduced.lean.key:
        record = _record(lean, lean.counts[1], why_not="another finalist was proven, and better")
        return Outcome(proof, record, lean.full.key)
    larger = replace(lean, counts=(reduced.counts[0], lean.counts[1], reduced.counts[2]), budgets=reduced.budgets)
    return Outcome(proof, _record(larger, lean.counts[1], losses, why_not), reduced.full.key)


def _record(reduced: Reduced, after: int, losses: Sequence[Loss] = (), why_not: str = "") -> Reduction:
    before, lean, smallest = reduced.counts
    larger = f"with {smallest} controls {why_not}" if why_not and after > smallest else why_not
    return Reduction(
        before=before,
        after=after,
        by_code=before - lean,
        by_objective=lean - after,
        undecided=reduced.undecided if after == smallest else 0,
        seconds=round(reduced.seconds, 1),
        search_seconds=round(reduced.search_s, 1),
        budgets={metric: round(budget, 6) for metric, budget in reduced.budgets.items()},
        losses=tuple(losses),
        kept_larger=larger or None,
    )
