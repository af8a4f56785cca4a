"""Options of compilers, and files that list them: which there are, what may be committed, and how it is written.

A committed options file is untrusted, and an option's spelling does not tell what it does: many options weaken a
hardening, change a calling convention or write a file. Only the maintainers can allow an option that the tool does not
know, by ``acf_options`` in the project's settings. Nobody can allow one that runs programs, or reads or writes files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import chain

from msgspec import Struct

from pytest_compileiq.config import NamedOptions
from pytest_compileiq.errors import MarkerError, StoreError
from pytest_compileiq.model import Candidate, ControlClass, ControlsFile, Knobs
from pytest_compileiq.space import Parameter
from pytest_compileiq.spelling import did_you_mean

NUMBER = r"[0-9]{1,5}"
_MOST_SHOWN = 5  # options in one sentence


class Option(Struct, frozen=True):
    """One option that the tool knows.

    Attributes:
        name: as typed, up to its value: ``-falign-loops=``, ``-funroll-loops``.
        form: a pattern of every value that may be committed; ``""`` if the option takes no value.
        drawn: the values that a space draws from.
        control_class: its effect on a kernel's results and contracts, with any of its values.
        source: the manual's section and entry.
    """

    name: str
    form: str
    drawn: Parameter
    control_class: ControlClass
    source: str

    def gives(self, option: str) -> bool:
        return option.startswith(self.name) and re.fullmatch(self.form, option[len(self.name) :]) is not None


class Unlisted(Struct, frozen=True):
    """Whole options, by a pattern, that only the maintainers can let in, and whose class is known nevertheless."""

    form: str
    control_class: ControlClass
    source: str


class OptionList(Struct, frozen=True):
    """The options of one compiler.

    Attributes:
        known: options that a controls file may hold; append-only, so that committed controls stay valid.
        nameable: a pattern of whole options that ``acf_options`` may allow in addition.
        unlisted: the classes of some of these; without a manual's word an option is ``opaque``.
    """

    compiler: str
    known: tuple[Option, ...]
    nameable: re.Pattern[str]
    unlisted: tuple[Unlisted, ...] = ()

    def class_of(self, option: str) -> ControlClass:
        """The class of a whole option, whatever the baseline is; ``opaque`` where none is known."""
        listed = (known.control_class for known in self.known if known.gives(option))
        named = (each.control_class for each in self.unlisted if re.fullmatch(each.form, option))
        return next(chain(listed, named), "opaque")

    def knows(self, option: str) -> bool:
        """Whether ``option`` may stand in a controls file without the maintainers' permission."""
        return any(known.gives(option) for known in self.known)

    def may_hold(self, option: str) -> bool:
        """Whether ``option`` may stand in a controls file at all, with the maintainers' permission if necessary."""
        return self.knows(option) or self.nameable.fullmatch(option) is not None

    def why_not(self, options: Iterable[str], named: NamedOptions) -> str | None:
        """Why ``options`` may not all be committed, with the settings line that would allow them; None if they may."""
        foreign = self.foreign(options, named)
        if not foreign:
            return None
        if never := next((option for option in foreign if not self.may_hold(option)), None):
            return (
                f"{never[:200]!r} is no option of {self.compiler} that may ever stand in a controls file"
                f"{self._nearest(never)}"
            )
        shown = ", ".join(map(repr, foreign[:_MOST_SHOWN])) + (" …" if len(foreign) > _MOST_SHOWN else "")
        is_one = len(foreign) == 1
        return (
            f"{shown} {'is' if is_one else 'are'} none of the options of {self.compiler} that this tool knows"
            f"{self._nearest(foreign[0])}, so that only the maintainers can let {'it' if is_one else 'them'} in, by "
            f"this line in {named.where}: {named.line_for(*foreign)}"
        )

    def foreign(self, options: Iterable[str], named: NamedOptions) -> list[str]:
        """Those of ``options`` that are neither known nor named by the maintainers."""
        return [
            option for option in options if not (self.knows(option) or (named.hold(option) and self.may_hold(option)))
        ]

    def _nearest(self, option: str) -> str:
        """What was probably meant; empty for a known option, whose value is what is wrong."""
        names = [known.name for known in self.known]
        is_known = any(option.startswith(name) for name in names)
        return "" if is_known else did_you_mean(option, names)


def options_of(knobs: Knobs) -> list[str]:
    """The knobs that begin with ``-`` as options, name and value joined, sorted."""
    return sorted(f"{name}{value}" for name, value in knobs.items() if name.startswith("-"))


def options_file(lines: Iterable[str], knobs: Knobs) -> ControlsFile:
    """The options file of ``lines``, sorted, which were rendered from ``knobs``."""
    return ControlsFile("options", "".join(f"{line}\n" for line in sorted(lines)).encode(), dict(knobs))


Render = Callable[[Candidate], ControlsFile]


def parse_rendered(data: bytes, knobs: Knobs, render: Render) -> ControlsFile:
    """Check that ``data`` is what ``render`` makes of ``knobs``; StoreError where it is not, or cannot be."""
    try:
        rendered = render(Candidate(knobs))
    except MarkerError as error:
        raise StoreError(f"recorded knobs cannot stand in a controls file: {error}; run pytest --tune again") from error
    if data != rendered.data:
        raise StoreError(
            f"the options file differs from its recorded knobs, {_first_difference(data, rendered.data)}: "
            "restore it from version control, or run pytest --tune again"
        )
    return rendered


def parse_named(kind: str, data: bytes, knobs: Knobs, render: Render, taker: str) -> ControlsFile:
    """Check committed controls where ``taker``, a compiler, takes named knobs alone; StoreError."""
    if kind != "options":
        raise StoreError(f"{taker} takes named knobs, and this is a {kind}; run pytest --tune again")
    return parse_rendered(data, knobs, render)


def parse_controls(kind: str, data: bytes, knobs: Knobs, render: Render) -> ControlsFile:
    """Check committed controls, of an ACF only the knobs, as the store checks its digest; StoreError."""
    if kind == "options":
        return parse_rendered(data, knobs, render)
    try:
        return render(Candidate(knobs, data))
    except MarkerError as error:
        raise StoreError(f"recorded knobs cannot stand beside an ACF: {error}; run pytest --tune again") from error


def _first_difference(actual: bytes, expected: bytes) -> str:
    have, want = actual.splitlines(keepends=True), expected.splitlines(keepends=True)
    for number, (line, wanted) in enumerate(zip(have, want, strict=False), start=1):
        if line != wanted:
            return f"line {number} is {line[:80]!r} and should be {wanted[:80]!r}"
    return f"it has {len(have)} lines and should have {len(want)}"
