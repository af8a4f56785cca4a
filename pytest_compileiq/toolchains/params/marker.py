"""The marker's arguments where nothing is compiled; ``pytest_compileiq.toolchains.params.builder`` implements them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from pytest_compileiq.errors import MarkerError, StoreError
from pytest_compileiq.toolchains.marker_values import arguments_by_name, freeze

# Every tuned test file imports this module, even in runs that tune nothing, so it must import nothing heavy.
if TYPE_CHECKING:
    from pytest_compileiq.model import Candidate, ControlsFile, KnobValue
    from pytest_compileiq.toolchains.base import Builder, Place


@arguments_by_name
@dataclass(frozen=True)
class Params:
    """Knobs without a compiler, read by the test's body as ``acf.params`` and by a program when it runs.

    A JIT's configuration, a number of threads, a library's options, a model's hyperparameters. The artifact is the
    knobs, as text. The marker's ``space=`` says what they may be: ``{"threads": choice([1, 2, 4])}``.

    Args:
        defaults: the baseline's values, which ``acf.params`` holds wherever no knob takes their place, so that both
            arms are written down. A knob without a default is absent in the baseline.
        versions: the installed packages that decide the result, by the names that ``pip`` knows them by; ``"python"``
            is Python's own line, such as 3.11. Another version of one makes an artifact stale.
        sources: files that decide the result beside what the test itself uses, which is watched anyway; paths relative
            to the test file. Of Python files, comments, docstrings and formatting do not count.
    """

    defaults: Mapping[str, bool | int | float | str] | None = None
    _: KW_ONLY
    versions: str | Sequence[str] = ()
    sources: str | Sequence[str] = ()

    def __post_init__(self) -> None:
        freeze(self, "versions", "sources", optional=("defaults",))

    def resolve(self, place: Place) -> Builder:
        from pytest_compileiq.toolchains.params.builder import resolve  # not needed to collect tests

        return resolve(self, place)


def line_of(name: str, value: KnobValue) -> str:
    """One parameter."""
    if name.startswith("-"):
        raise MarkerError(
            f"knob {name!r}: Params has no compiler that takes options; give the knob a name without '-', which the "
            "test reads as acf.params"
        )
    if not name or "=" in name or not name.isprintable():
        raise MarkerError(f"knob {name!r}: expected a name such as 'threads', without '='")
    return f"{name}={json.dumps(value)}"


def read_line(line: str) -> tuple[str, KnobValue]:
    """The inverse of ``line_of``."""
    name, _, text = line.partition("=")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{line[:80]!r} is no parameter: expected name=value") from error
    if not isinstance(value, bool | int | float | str):
        raise StoreError(f"{line[:80]!r} is no parameter: expected a number, a text, true or false")
    return name, value


def render(candidate: Candidate) -> ControlsFile:
    """The controls file of ``candidate``."""
    from pytest_compileiq.toolchains.options import options_file  # a run that tunes nothing does without

    if candidate.blob is not None:
        raise MarkerError("Params holds named knobs, and no compiler that takes an ACF: give space={…} of named knobs")
    return options_file((line_of(name, value) for name, value in candidate.knobs.items()), candidate.knobs)
