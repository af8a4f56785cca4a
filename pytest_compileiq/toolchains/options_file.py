"""Checks committed controls: an options file must be, byte for byte, what its recorded knobs render to."""

from __future__ import annotations

from collections.abc import Callable

from pytest_compileiq.errors import MarkerError, StoreError
from pytest_compileiq.model import Candidate, ControlsFile, Knobs

Render = Callable[[Candidate], ControlsFile]


def parse_rendered(data: bytes, knobs: Knobs, render: Render) -> ControlsFile:
    """Check that ``data`` is what ``render`` makes of ``knobs``.

    Raises:
        StoreError: they differ, or an option may not stand in a controls file.
    """
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
    """Check committed controls where ``taker``, a compiler, takes named knobs alone.

    Raises:
        StoreError: they are an ACF, or not what ``knobs`` render to.
    """
    if kind != "options":
        raise StoreError(f"{taker} takes named knobs, and this is a {kind}; run pytest --tune again")
    return parse_rendered(data, knobs, render)


def parse_controls(kind: str, data: bytes, knobs: Knobs, render: Render) -> ControlsFile:
    """Check committed controls. The store has checked an ACF's digest, so only the knobs beside it are left.

    Raises:
        StoreError: an options file is not what its knobs render to, or a knob may not stand where it does.
    """
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
