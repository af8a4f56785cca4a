"""What races say, as pure functions: values in, figures out."""

from collections.abc import Iterable, Mapping, Sequence

Point = Sequence[float]


def front(scores: Mapping[str, Point]) -> frozenset[str]:
    """The keys whose scores nothing dominates, lower being better; of one objective the first that is least."""
    if not scores:
        return frozenset()
    if len(next(iter(scores.values()))) == 1:
        return frozenset([min(scores, key=lambda key: scores[key][0])])
    return frozenset(
        key for key, point in scores.items() if not any(_dominates(other, point) for other in scores.values())
    )


def hypervolume(points: Iterable[Point], reference: tuple[float, float]) -> float:
    """The area that ``points`` dominate within ``reference``, both numbers being minimised.

    Zitzler and Thiele, "Multiobjective evolutionary algorithms" (IEEE TEC 3, 1999), section V.
    """
    area, ceiling = 0.0, reference[1]
    for first, second in sorted((point[0], point[1]) for point in points):
        if first < reference[0] and second < ceiling:
            area += (reference[0] - first) * (ceiling - second)
            ceiling = second
    return area


def _dominates(one: Point, other: Point) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True)) and tuple(one) != tuple(other)
