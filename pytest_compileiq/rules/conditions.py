"""What the conditions under which a GPU's samples were taken mean for a claim."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from pytest_compileiq.artifact import StoredConditions
from pytest_compileiq.model import Conditions

SHORT_CALL_S = 10e-6
_WORTH_TELLING = 1.1


def stored_conditions(taken: Sequence[Conditions], call_s: float) -> StoredConditions:
    """Those of all blocks together, for a claim whose shorter arm takes ``call_s`` seconds."""
    first = taken[0]
    ratios = [conditions.eager_ratio for conditions in taken if conditions.eager_ratio is not None]
    return StoredConditions(
        launch=first.launch,
        l2=first.l2,
        all_streams=any(conditions.all_streams for conditions in taken),
        empty_s=statistics.median(conditions.empty_s for conditions in taken),
        eager_ratio=statistics.median(ratios) if ratios else None,
        diluted=call_s < SHORT_CALL_S,
    )


def told(conditions: StoredConditions, call_s: float) -> list[str]:
    """What a reader of a claim has to know of its conditions, in sentences."""
    sentences = []
    if conditions.eager_ratio is not None and conditions.eager_ratio >= _WORTH_TELLING:
        sentences.append(
            f"measured in a CUDA graph: launched one by one, the calls take {conditions.eager_ratio:.1f} times as long"
        )
    if conditions.diluted:
        sentences.append(
            f"diluted: of the call's {call_s * 1e6:.1f} µs an empty kernel would take {conditions.empty_s * 1e6:.1f}, "
            "so that the kernel itself gains more than is claimed"
        )
    return sentences
