"""Watches what is called through ctypes: functions of libraries, prototypes, and functions taken earlier.

ctypes derives the type of every foreign function from its module's ``_CFuncPtr``: the type that a ``CDLL`` makes for
its functions, and those of ``CFUNCTYPE``. A subclass in that place has a ``__call__`` of its own, and all else
(argtypes, restype, errcheck, byref) is ctypes' as before. Types that were made earlier are given the same ``__call__``,
so that functions that the program already holds are watched as well.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

from .tally import Function, Tally

_DOOR = "ctypes"


class _Where(ctypes.Structure):
    """``Dl_info`` of dlfcn.h."""

    _fields_ = [
        ("library", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    ]


class Functions:
    """Which function of which library lies at an address, as the dynamic linker knows it."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], Function | None] = {}
        self._find = ctypes.CDLL(None).dladdr
        self._find.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Where)]

    def at(self, address: int, name: str | None, door: str) -> Function | None:
        """The function; None where no library lies there, as for a callback. ``name`` is for one that has none."""
        try:
            return self._known[address, door]
        except KeyError:  # one object of each, also where two threads come here
            return self._known.setdefault((address, door), self._looked_up(address, name, door))

    def _looked_up(self, address: int, name: str | None, door: str) -> Function | None:
        where = _Where()
        if not (self._find(address, ctypes.byref(where)) and where.library):
            return None
        library = where.library.decode(errors="replace")
        if "/" in library:  # as it was opened, from a directory that the program may leave
            library = os.path.abspath(library)
        exact = where.name if where.address == address else None
        told = exact.decode(errors="replace") if exact else name or f"0x{address - (where.base or 0):x}"
        return Function(library, told, door)


def install(tally: Tally) -> Functions:
    """Watch ctypes from now on; call it before the program's first line. Gives what knows the libraries' functions."""
    plain: Any = vars(ctypes)["_CFuncPtr"]
    earlier = _types_of_earlier_functions(plain)
    functions = Functions()  # through a library of its own, whose type is not watched
    to_address = ctypes.cast

    def function_of(called: Any) -> Function | None:
        try:
            address = to_address(called, ctypes.c_void_p).value
            function = functions.at(address, getattr(called, "__name__", None), _DOOR) if address else None
            called._acf_function = function
        except Exception as error:
            tally.fail(error)
            return None
        return function

    watched_call = tally.watching(plain.__call__, function_of)
    for kind in earlier:
        kind.__call__ = watched_call

    members = {"_flags_": vars(ctypes)["_FUNCFLAG_CDECL"], "__call__": watched_call}
    vars(ctypes)["_CFuncPtr"] = type(plain)("_CFuncPtr", (plain,), members)
    nothing = ctypes.pythonapi.Py_IsInitialized
    tally.calibrated_by(nothing, lambda: plain.__call__(nothing))
    return functions


def _types_of_earlier_functions(plain: Any) -> list[Any]:
    """All but those that ctypes makes its own tools of, which call no library."""
    tools = ("cast", "memmove", "memset", "_cast", "_string_at", "_wstring_at", "_memoryview_at")
    own = {type(getattr(ctypes, tool)) for tool in tools if hasattr(ctypes, tool)}
    return [kind for kind in plain.__subclasses__() if kind not in own]
