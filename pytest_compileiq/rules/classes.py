"""Classes of controls: what an artifact's controls may change of a kernel's results and contracts.

An option has a class of its own, which its list gives. Its effective class is the widest of that and of what the
baseline or the source already licenses: a licence makes even a value-safe option change bits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_compileiq.model import CONTROL_CLASSES, ControlClass, Licence

SAFE: tuple[ControlClass, ...] = ("value-safe", "environment")  # what a default space holds


@dataclass(frozen=True)
class Classed:
    """The controls of one artifact by their own class."""

    options: Mapping[ControlClass, tuple[str, ...]] = field(default_factory=dict)  # as typed, narrowest first
    tests_own: tuple[str, ...] = ()  # macros and parameters, which the test declares and no compiler's manual classes

    @classmethod
    def of(cls, controls: Iterable[tuple[str, ControlClass | None]]) -> Classed:
        """``controls`` with their classes; None is the test's own."""
        listed = sorted(controls, key=lambda control: control[0])

        def having(wanted: ControlClass | None) -> tuple[str, ...]:
            return tuple(control for control, own in listed if own == wanted)

        return cls({each: options for each in CONTROL_CLASSES if (options := having(each))}, having(None))

    @property
    def own(self) -> tuple[ControlClass, ...]:
        """The classes that the controls have by themselves, narrowest first."""
        return tuple(self.options)


def in_order(classes: Iterable[ControlClass]) -> tuple[ControlClass, ...]:
    """``classes``, each once, narrowest first."""
    return tuple(sorted(set(classes), key=CONTROL_CLASSES.index))


def effective_classes(own: Iterable[ControlClass], licences: Sequence[Licence]) -> tuple[ControlClass, ...]:
    """The classes ``own`` of controls, each widened to what ``licences`` allow, narrowest first."""
    return in_order(max((each, *(licence.allows for licence in licences)), key=CONTROL_CLASSES.index) for each in own)


def beyond_value_safe(classes: Iterable[ControlClass]) -> tuple[ControlClass, ...]:
    """Those of ``classes`` that a reviewer has to know of, narrowest first."""
    return tuple(each for each in in_order(classes) if each != "value-safe")


def promises_bits(classes_used: Iterable[ControlClass], licences: Collection[Licence]) -> bool:
    """Whether both arms must give the same bits on the same inputs, NaN being equal to NaN.

    They must where every control keeps the values that the language defines, and neither the baseline nor the source
    already lets the compiler change them.
    """
    return not licences and set(SAFE).issuperset(classes_used)


def each_once(licences: Iterable[Licence]) -> tuple[Licence, ...]:
    """``licences`` without duplicates (same name, class and remedy); the first place is kept."""
    first: dict[tuple[str, ControlClass, str], Licence] = {}
    for licence in licences:
        first.setdefault((licence.name, licence.allows, licence.remedy), licence)
    return tuple(first.values())


def widest(licences: Iterable[Licence], most: int) -> tuple[Licence, ...]:
    """At most ``most`` of ``licences``, the widest first."""
    return tuple(sorted(licences, key=lambda licence: CONTROL_CLASSES.index(licence.allows), reverse=True)[:most])
