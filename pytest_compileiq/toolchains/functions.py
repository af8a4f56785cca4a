"""The functions that a test stands for, and what controls may do to the others of the build.

Controls reach every function of a compiler's command, and a test calls a few of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.machine_code.names import matching, meant
from pytest_compileiq.spelling import did_you_mean
from pytest_compileiq.toolchains.base import Builder

Neighbours = Literal["void", "allow"]
Names = str | Sequence[str]
_INLINED = (
    ", and the other inlines it wherever it is called: instantiate what the test stands for explicitly, "
    "and name it in functions="
)


class FunctionSelection(Struct, frozen=True):
    """``functions=`` and ``neighbours=`` of a toolchain.

    Attributes:
        patterns: functions that the test stands for, beside those that it takes from ``load()``; see ``matching``.
        neighbours: a candidate that changes the machine code of others is ``void``, or counts (``allow``).
        apart: entries of a build that are nobody's neighbours: all host code of a CUDA library.
        one_sided: why an arm may lack functions of the other, and the remedy: the end of a sentence.
    """

    patterns: tuple[str, ...] = ()
    neighbours: Neighbours = "void"
    apart: frozenset[str] = frozenset()
    one_sided: str = _INLINED

    @classmethod
    def of(
        cls,
        toolchain: str,
        functions: Names,
        neighbours: Neighbours,
        *,
        apart: frozenset[str] = frozenset(),
        one_sided: str = _INLINED,
    ) -> FunctionSelection:
        """A toolchain's arguments, checked; MarkerError where one is not of its type."""
        given = (functions,) if isinstance(functions, str) else functions
        is_list = isinstance(given, list | tuple)
        if not is_list or not all(isinstance(name, str) and name.strip() for name in given):
            raise MarkerError(
                f"{toolchain}(functions={functions!r}): expected a function's name or pattern, or a list of them, "
                "as in functions=['compress', 'ns::scale<*>']"
            )
        if neighbours not in ("void", "allow"):
            near = did_you_mean(neighbours, ("void", "allow")) if isinstance(neighbours, str) else ""
            raise MarkerError(f"{toolchain}(neighbours={neighbours!r}): expected 'void' or 'allow'{near}")
        return cls(tuple(sorted(set(given))), neighbours, apart, one_sided)

    @property
    def are_given(self) -> bool:
        return bool(self.patterns) or self.neighbours != "void"

    @property
    def texts(self) -> tuple[str, ...]:
        """Their meaning for a benchmark's digest, as texts; () where neither is used."""
        return (f"neighbours {self.neighbours}", *self.patterns) if self.are_given else ()

    def among(self, entries: Iterable[str]) -> frozenset[str]:
        functions = set(entries) - self.apart
        return frozenset(entry for pattern in self.patterns for entry in matching(pattern, functions))

    def why_not(self, entries: Iterable[str]) -> str | None:
        """Why a pattern names no function of ``entries``, in a sentence; None where all name one."""
        functions = set(entries) - self.apart
        unknown = next((pattern for pattern in self.patterns if not matching(pattern, functions)), None)
        if unknown is None:
            return None
        return (
            f"functions={unknown!r}: this build has no such entry function{meant(unknown, functions)}; "
            "one that is static, hidden or inlined everywhere has no code of its own"
        )


def functions_of(builder: Builder) -> FunctionSelection:
    """The selection of the test's toolchain; an empty one where it takes no such arguments."""
    return builder.functions or FunctionSelection()
