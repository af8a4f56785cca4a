"""What an exact gain costs the entry functions one by one. Values alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_compileiq.model import of_entries
from pytest_compileiq.rules.claims import direction_of, standing

if TYPE_CHECKING:
    from pytest_compileiq.artifact import Artifact


@dataclass(frozen=True)
class WorseEntry:
    """One entry function whose own value of a metric is worse with the controls than without."""

    metric: str
    entry: str
    baseline: int
    tuned: int


def worse_entries(artifact: Artifact) -> tuple[WorseEntry, ...]:
    """The entry functions that lost on a metric whose claim did not: a largest value or a sum does not show them.

    A claim of some entry functions, ``registers of kernel*``, is held to all of them, since controls reach all.
    """
    claimed = dict.fromkeys(
        (of_entries(claim.objective)[0], direction_of(claim))
        for claim in artifact.claims
        if claim.of_the_build and standing(claim) != "worse"
    )
    entries = sorted((entry, pair) for entry, pair in artifact.code.items() if entry not in artifact.compiler.apart)
    lost: dict[tuple[str, str], WorseEntry] = {}
    for metric, direction in claimed:
        for entry, pair in entries:
            before, after = (code.metrics.get(metric) if code else None for code in (pair.baseline, pair.tuned))
            if before is None or after is None:
                continue
            if after > before if direction == "minimize" else after < before:
                lost[metric, entry] = WorseEntry(metric, entry, before, after)
    return tuple(lost.values())
