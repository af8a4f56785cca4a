"""The classes of controls in words, and the licences that widen them. Texts of artifacts are untrusted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pytest_compileiq.artifact import Artifact
from pytest_compileiq.model import ControlClass, Licence
from pytest_compileiq.rules.classes import Classed, effective_classes
from pytest_compileiq.toolchains.option_classes import classes_in, licences_in

MOST_OPTIONS = 6  # of one class in a line


def class_facts(artifact: Artifact, most: int | None = None) -> Iterator[tuple[str, str]]:
    """What a reviewer signs: the classes of the controls, what licences make of them, and the licences.

    Args:
        most: options named of each class; None names all.
    """
    classed, licences = classes_in(artifact), licences_in(artifact)
    if text := in_effect_text(classed, licences, most):
        yield "classes", text
    yield from (("licence", licence_text(licence)) for licence in licences)


def in_effect_text(classed: Classed, licences: Sequence[Licence], most: int | None = MOST_OPTIONS) -> str:
    """As ``classes_text``, with what ``licences`` make of the classes where that is more."""
    in_effect = effective_classes(classed.own, licences)
    widened = f"; in effect {', '.join(in_effect)}" if in_effect != classed.own else ""
    return classes_text(classed, most) + widened


def classes_text(classed: Classed, most: int | None = MOST_OPTIONS) -> str:
    """``value-safe, environment (-fno-math-errno), relaxed-maths (-fassociative-math, …)``; empty without controls."""
    by_class = (_with_options(own, options, most) for own, options in classed.options.items())
    own = f"the test's own ({_few(classed.tests_own, most)})" if classed.tests_own else ""
    return ", ".join(filter(None, (*by_class, own)))


def licence_text(licence: Licence) -> str:
    """A licence, where it comes from, and what takes it away."""
    allows = "" if licence.name == licence.allows else f" ({licence.allows})"
    return f"{licence.name}{allows} by {licence.where}; {licence.remedy} takes it away"


def gained_text(gained: Iterable[ControlClass], classed: Classed, licences: Sequence[Licence]) -> str:
    """The classes ``gained``, each with the controls or the licences that bring it."""
    return ", ".join(_with_options(each, _brought_by(each, classed, licences), MOST_OPTIONS) for each in gained)


def _brought_by(wanted: ControlClass, classed: Classed, licences: Sequence[Licence]) -> tuple[str, ...]:
    licensed = (f"licence: {licence.name}" for licence in licences if licence.allows == wanted)
    return (*classed.options.get(wanted, ()), *licensed)


def _with_options(own: ControlClass, options: Sequence[str], most: int | None) -> str:
    return own if own == "value-safe" else f"{own} ({_few(options, most)})"


def _few(options: Sequence[str], most: int | None) -> str:
    more = f" and {len(options) - most} more" if most is not None and len(options) > most else ""
    return ", ".join(options[:most]) + more
