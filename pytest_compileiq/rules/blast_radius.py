"""The neighbours of what a test stands for: functions that its controls change and nothing exercises. Values alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_compileiq.artifact import Artifact


def changed_neighbours(
    baseline: Mapping[str, str], tuned: Mapping[str, str], stands_for: Collection[str]
) -> tuple[str, ...]:
    """The entries whose machine code the controls change beyond ``stands_for``, sorted.

    An entry with the code of one that is stood for, in both arms, is another name of it: an alias, or a constructor's
    second symbol.

    Args:
        baseline, tuned: entry → digest.
        stands_for: entries that the test stands for; where nothing says which, there are no neighbours.
    """
    stands_for = frozenset(stands_for)
    exercised = {(baseline[entry], tuned.get(entry)) for entry in stands_for if entry in baseline}
    changed = ((entry, (digest, tuned.get(entry))) for entry, digest in baseline.items() if entry not in stands_for)
    beyond = (entry for entry, arms in changed if arms[0] != arms[1] and arms not in exercised)
    return tuple(sorted(beyond)) if stands_for else ()


def recorded_neighbours(artifact: Artifact) -> tuple[str, ...]:
    """The entries that the artifact's controls change beyond the functions that it says it stands for, sorted."""
    apart = artifact.compiler.apart
    pairs = {entry: pair for entry, pair in artifact.code.items() if pair.tuned and entry not in apart}
    baseline = {entry: pair.baseline.sha256 for entry, pair in pairs.items()}
    tuned = {entry: pair.tuned.sha256 for entry, pair in pairs.items() if pair.tuned}
    return changed_neighbours(baseline, tuned, artifact.functions)
