"""From the draws of one finalist to what its claims record of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from pytest_compileiq.model import LARGEST_NUMBER
from pytest_compileiq.rules.draws import Difference, Drawn, is_less_accurate, median_ratio
from pytest_compileiq.stressed import Accuracy, Stress

Place = tuple[str, int, Difference]  # workload, seed


def record_of(seed: int, draws: Sequence[Mapping[str, Drawn] | None], *, repeats: bool = False) -> Stress:
    """What claims record of draws with the seeds ``seed``, ``seed + 1``, …: what each workload gave; None: unusable.

    Raises:
        StoreError: something in it is beyond what an artifact may hold.
    """
    usable = [
        (workload, number, drawn)
        for number, of_all in enumerate(draws, start=seed)
        for workload, drawn in (of_all or {}).items()
    ]
    errors: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for workload, _, drawn in usable:
        for output, pair in drawn.errors.items():
            errors.setdefault((workload, output), []).append(pair)
    return Stress.of({
        "draws": len(draws),
        "usable": sum(of_all is not None for of_all in draws),
        "seed": seed,
        "repeats": repeats,
        "outputs": len({(workload, output) for workload, _, drawn in usable for output in drawn.outputs}),
        "largest": _farthest((place, at, found) for place, at, drawn in usable for found in drawn.differences),
        "spread": _farthest((place, at, found) for place, at, drawn in usable for found in drawn.spread),
        "accuracy": tuple(itertools.starmap(_accuracy, sorted(errors.items()))),
    })  # fmt: skip


def by_accuracy(stress: Stress) -> tuple[list[Accuracy], list[Accuracy]]:
    """The outputs in which the tuned arm is surely farther off the reference than the baseline, and the others."""
    less, others = list[Accuracy](), list[Accuracy]()
    for output in stress.accuracy:
        is_less = is_less_accurate(output.worse, output.better, len(stress.accuracy))
        (less if is_less else others).append(output)
    return less, others


def _farthest(places: Iterable[Place]) -> dict[str, object] | None:
    """The place with the largest relative difference; of equal ones the most ulps decide, then the first counts."""
    workload, seed, largest = max(places, key=lambda place: (place[2].relative, place[2].ulps), default=(None, 0, None))
    if largest is None:
        return None
    relative = min(largest.relative, LARGEST_NUMBER)
    return {**msgspec.structs.asdict(largest), "relative": relative, "workload": workload, "draw": seed}


def _accuracy(place: tuple[str, str], errors: Sequence[tuple[float, float]]) -> dict[str, object]:
    workload, output = place
    return {
        "workload": workload,
        "output": output,
        "worse": sum(tuned > baseline for baseline, tuned in errors),
        "better": sum(tuned < baseline for baseline, tuned in errors),
        "ratio": median_ratio(errors),
    }
