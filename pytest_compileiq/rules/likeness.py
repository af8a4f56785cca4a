"""What an artifact teaches the search of another kernel, and which teach it best. Values in, values out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import KnobValue, Lesson
from pytest_compileiq.rules.claims import standing
from pytest_compileiq.space import OFF, Space

if TYPE_CHECKING:
    from pytest_compileiq.artifact import Artifact

Knobs = Mapping[str, KnobValue]
MOST_TRIED = 3  # points that a search tries as they were taught: what misleads costs these, and a draw or two


def knobs_that_bring(artifact: Artifact, metric: str) -> Knobs:
    """The knobs of a tuned artifact that surely bring something on ``metric``; all of them where nobody measured that.

    Empty where it claims no gain on ``metric``, or holds an ACF, which only its own compiler reads.
    """
    controls = artifact.controls
    if artifact.outcome != "tuned" or controls is None or controls.kind != "options" or not _gains(artifact, metric):
        return {}
    resolved = {
        name
        for entry in (artifact.attribution.without if artifact.attribution else ())
        if entry.is_resolved and entry.step > 0 and entry.objective == metric
        for name in entry.knobs
    }
    return {name: value for name, value in controls.knobs.items() if not resolved or name in resolved}


def _gains(artifact: Artifact, metric: str) -> bool:
    own = [claim for claim in artifact.claims if claim.objective == metric]
    return any(standing(claim) == "gained" if claim.kind == "exact" else claim.kind == "gain" for claim in own)


def weighed(taught: Mapping[tuple[str, str], Knobs], name: str) -> dict[tuple[str, str], float]:
    """How much each artifact's knobs are believed before they have been tried, above 0 and at most 1.

    The same kernel for another compiler or architecture is believed the most; of the others those whose knobs many of
    the others found as well: that says as much as features of their baselines' machine code do (decision 21).

    Args:
        taught: knobs by name and target of the artifact; none is empty.
        name: of the artifact that is searched for.
    """
    holders = Counter(pair for knobs in taught.values() for pair in knobs.items())
    return {
        key: 1.0 if key[0] == name else sum(holders[pair] for pair in knobs.items()) / len(knobs) / (len(taught) + 1)
        for key, knobs in taught.items()
    }


def tried_first(lessons: Sequence[Lesson]) -> list[Knobs]:
    """What a search tries as it is: all lessons in one, and the few most believed ones; some may be equal."""
    if not lessons:
        return []
    together = {name: value for lesson in reversed(lessons) for name, value in lesson.knobs.items()}
    return [together, *(lesson.knobs for lesson in lessons[: MOST_TRIED - 1])]


def adopted(knobs: Knobs, space: Space) -> Knobs | None:
    """The baseline's point of ``space`` with as many of ``knobs`` as the space has; None where that says nothing new.

    What a search of another compiler, architecture or source found need not exist here.
    """
    genes = {gene.name: number for number, gene in enumerate(space.genes) if gene.kind != "switch"}
    point = [OFF if gene.knockout_prob > 0 else 0 for gene in space.genes]
    for name, value in knobs.items():
        number = genes.get(name)
        index = None if number is None else _index(space.genes[number].values, value)
        if number is None or index is None:
            continue
        point[number] = index
        while (parent := space.genes[number].parent) is not None:
            point[parent], number = 0, parent
    taken = space.knobs(point)
    try:
        refused = space.why_not(taken) is not None
    except MarkerError:
        refused = True
    return None if refused or not any(name in knobs for name in taken) else taken


def _index(values: Sequence[KnobValue], value: KnobValue) -> int | None:
    """Where ``values``, which may be a long range, hold ``value`` of the same type."""
    if isinstance(values, range):
        return values.index(value) if type(value) is int and value in values else None
    return next((at for at, known in enumerate(values) if type(known) is type(value) and known == value), None)
