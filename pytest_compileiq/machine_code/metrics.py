"""Exact metrics of several entry functions: how they become one number, the same for every toolchain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pytest_compileiq.errors import BuildError
from pytest_compileiq.machine_code.names import listed, matching, meant
from pytest_compileiq.model import of_entries
from pytest_compileiq.spelling import did_you_mean

LARGEST = frozenset({"registers", "barriers"})  # of all entries one launch takes one, so that a sum means nothing
_MOST_NAMED = 8  # entry functions in one sentence
Metrics = Mapping[str, int]


def totals(entries: Iterable[Metrics]) -> dict[str, int]:
    """Metrics of several entry functions together: the largest of their registers and barriers, the sum of all else."""
    result: dict[str, int] = {}
    for metrics in entries:
        for name, value in metrics.items():
            so_far = result.get(name, 0)
            result[name] = max(so_far, value) if name in LARGEST else so_far + value
    return result


def value_of(metric: str, whole: Metrics, entries: Mapping[str, Metrics]) -> int:
    """The value of an exact objective, such as ``registers`` of the ``whole`` build or ``registers of kernel*``.

    Raises:
        BuildError: the build has no such metric, or no such entry function.
    """
    measured, pattern = of_entries(metric)
    if pattern is None:
        if measured not in whole:
            near = did_you_mean(measured, whole)
            raise BuildError(f"this build has no {measured!r}{near}: it has {', '.join(sorted(whole))}", kind="compile")
        return whole[measured]
    named = matching(pattern, entries)
    if not named:
        raise BuildError(
            f"objective {metric!r}: this build has no such entry function{meant(pattern, entries)}: "
            f"it has {listed(sorted(entries), _MOST_NAMED)}",
            kind="compile",
        )
    told = totals(entries[entry] for entry in named)
    if measured not in told:
        each = f"has {', '.join(sorted(told))}" if told else "has no metric"
        raise BuildError(
            f"objective {metric!r}: nothing here tells the {measured} of one entry function, which {each}",
            kind="compile",
        )
    return told[measured]
