"""Parameters as text: one ``name=value`` a line, sorted; values as in JSON, so that ``true`` and ``"true"`` differ."""

from __future__ import annotations

import json

from pytest_compileiq.errors import MarkerError, StoreError
from pytest_compileiq.model import Candidate, ControlsFile, KnobValue


def line_of(name: str, value: KnobValue) -> str:
    """One parameter.

    Raises:
        MarkerError: the name is a compiler's option, or holds what ends a name.
    """
    if name.startswith("-"):
        raise MarkerError(
            f"knob {name!r}: Params has no compiler that takes options; give the knob a name without '-', which the "
            "test reads as acf.params"
        )
    if not name or "=" in name or not name.isprintable():
        raise MarkerError(f"knob {name!r}: expected a name such as 'threads', without '='")
    return f"{name}={json.dumps(value)}"


def read_line(line: str) -> tuple[str, KnobValue]:
    """The inverse of ``line_of``.

    Raises:
        StoreError: it is no parameter.
    """
    name, _, text = line.partition("=")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{line[:80]!r} is no parameter: expected name=value") from error
    if not isinstance(value, bool | int | float | str):
        raise StoreError(f"{line[:80]!r} is no parameter: expected a number, a text, true or false")
    return name, value


def render(candidate: Candidate) -> ControlsFile:
    """The controls file of ``candidate``.

    Raises:
        MarkerError: a knob is an option of a compiler, or it is an opaque blob.
    """
    if candidate.blob is not None:
        raise MarkerError("Params holds named knobs, and no compiler that takes an ACF: give space={…} of named knobs")
    lines = sorted(line_of(name, value) for name, value in candidate.knobs.items())
    return ControlsFile("options", "".join(f"{line}\n" for line in lines).encode(), dict(candidate.knobs))
