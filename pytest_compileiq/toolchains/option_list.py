"""Which options a committed controls file may hold: those that the tool knows, by name and by the form of their value.

A committed options file is untrusted, and more than its spelling tells what an option does: many weaken a hardening,
change a calling convention or write a file. What the tool does not know, only the maintainers can let in, by
``acf_options`` in the project's settings; and what runs programs, or reads and writes files, nobody can.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pytest_compileiq.model import Knobs, KnobValue
from pytest_compileiq.named_options import NamedOptions
from pytest_compileiq.space import Parameter

NUMBER = r"\d{1,5}"


@dataclass(frozen=True)
class Option:
    """One option that the tool knows.

    Attributes:
        name: as typed, up to its value: ``-falign-loops=``, ``-funroll-loops``.
        form: a pattern of every value that may be committed; ``""`` where the option takes none.
        drawn: what the default space draws from.
    """

    name: str
    form: str
    drawn: Parameter

    def gives(self, option: str) -> bool:
        """Whether ``option`` is this one with a value of its form."""
        return option.startswith(self.name) and re.fullmatch(self.form, option[len(self.name) :]) is not None


@dataclass(frozen=True)
class OptionList:
    """The options of one compiler.

    Attributes:
        compiler: its name, for messages.
        known: what a controls file may hold; append-only, so that committed controls stay inside.
        nameable: a pattern of whole options: what ``acf_options`` may let in besides.
    """

    compiler: str
    known: tuple[Option, ...]
    nameable: re.Pattern[str]

    def knows(self, option: str) -> bool:
        """Whether ``option`` may stand in a controls file without anybody's word."""
        return any(known.gives(option) for known in self.known)

    def may_hold(self, option: str) -> bool:
        """Whether ``option`` may stand in a controls file at all, if need be by the maintainers' word."""
        return self.knows(option) or self.nameable.fullmatch(option) is not None

    def why_not(self, name: str, value: KnobValue, named: NamedOptions) -> str | None:
        """Why the knob may not be committed, with the line of settings that lets it in; None when it may."""
        option = f"{name}{value}"
        if self.knows(option) or (named.hold(option) and self.may_hold(option)):
            return None
        if not self.may_hold(option):
            return f"{option[:200]!r} is no option of {self.compiler} that may ever stand in a controls file"
        return (
            f"{option!r} is none of the options of {self.compiler} that this tool knows, so that only the maintainers "
            f"can let it in, by this line in {named.where}: {named.line_for(option)}"
        )

    def why_any_not(self, knobs: Knobs, named: NamedOptions) -> str | None:
        """The first reason of ``why_not`` of the ``knobs`` that are options."""
        reasons = (self.why_not(name, value, named) for name, value in knobs.items() if name.startswith("-"))
        return next(filter(None, reasons), None)
