"""Licences, and when equal bits are promised: controls keep every value, and nothing lets the compiler change one."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pytest_compileiq.model import CONTROL_CLASSES, ControlClass, Licence
from pytest_compileiq.rules.classes import SAFE


def promises_bits(classes_used: Iterable[ControlClass], licences: Collection[Licence]) -> bool:
    """Whether both arms must give the same bits on the same inputs, NaN being equal to NaN.

    They must where every control keeps the values that the language defines, and neither the baseline nor the source
    already lets the compiler change them.
    """
    return not licences and set(SAFE).issuperset(classes_used)


def each_once(licences: Iterable[Licence]) -> tuple[Licence, ...]:
    """``licences``, of those that allow the same and are taken away by the same the first, with its place."""
    first: dict[tuple[str, ControlClass, str], Licence] = {}
    for licence in licences:
        first.setdefault((licence.name, licence.allows, licence.remedy), licence)
    return tuple(first.values())


def widest(licences: Iterable[Licence], most: int) -> tuple[Licence, ...]:
    """At most so many of ``licences``, those that allow most first."""
    return tuple(sorted(licences, key=lambda licence: CONTROL_CLASSES.index(licence.allows), reverse=True)[:most])
