"""Where a function object keeps what it calls, so that it can be directed elsewhere and back."""

from __future__ import annotations

import ctypes
import sys
from typing import Any


class _OfCtypes:
    """ctypes reads the address of a function from memory of the object's own, at each call."""

    def __init__(self, called: Any) -> None:
        self._place = ctypes.c_void_p.from_address(ctypes.addressof(called))
        self._program = self._place.value

    def write(self, address: int | None) -> None:
        self._place.value = self._program if address is None else address


class _OfCffi:
    """A stand-in keeps the function of cffi that it calls, which is of the same type in another library."""

    def __init__(self, called: Any) -> None:
        backend = sys.modules["_cffi_backend"]
        self._called = called
        self._functions: dict[int | None, Any] = {None: called._acf_raw}
        self._cast = backend.cast
        self._kind = backend.typeof(called._acf_raw)

    def write(self, address: int | None) -> None:
        if address not in self._functions:
            self._functions[address] = self._cast(self._kind, address)
        self._called._acf_raw = self._functions[address]


_OF_DOOR: dict[str, Any] = {"ctypes": _OfCtypes, "cffi": _OfCffi}


class Cell:
    """What a function object calls.

    Attributes:
        turns: how often it was directed.
    """

    def __init__(self, called: Any, door: str) -> None:
        self._place = _OF_DOOR[door](called)
        self.turns = 0

    def direct(self, address: int | None) -> None:
        """Have the object call ``address``; None for the function of the program's own library."""
        self._place.write(address)
        self.turns += 1


def cell_of(called: Any, door: str) -> Cell:
    """The cell of a function object, of which each has one."""
    try:
        return called._acf_cell  # type: ignore[no-any-return]
    except AttributeError:
        cell = called._acf_cell = Cell(called, door)
        return cell
