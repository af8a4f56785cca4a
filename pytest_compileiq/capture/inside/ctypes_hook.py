"""Watches what is called through ctypes: functions of libraries, prototypes, and functions taken earlier.

ctypes derives the type of every foreign function from its module's ``_CFuncPtr``: the type that a ``CDLL`` makes for
its functions, and those of ``CFUNCTYPE``. A subclass in that place has a ``__call__`` of its own, and all else
(argtypes, restype, errcheck, byref) is ctypes' as before. Types that were made earlier are given the same ``__call__``,
so that functions that the program already holds are watched as well.
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
from typing import TYPE_CHECKING, Any

from .shapes import is_numpy
from .values import ForeignFunction, Memory, Number, Refused, Unsized, contiguous, each_taken, spelt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .counters import Counters
    from .values import Taken

_DOOR = "ctypes"


class _Where(ctypes.Structure):
    """``Dl_info`` of dlfcn.h."""

    _fields_ = [
        ("library", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    ]


class LibraryFunctions:
    """Which function of which library lies at an address, as the dynamic linker knows it."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], ForeignFunction | None] = {}
        self._find = ctypes.CDLL(None).dladdr
        self._find.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Where)]

    def at(self, address: int, name: str | None, door: str) -> ForeignFunction | None:
        """The function; None where no library lies there, as for a callback. ``name`` is for one that has none."""
        try:
            return self._known[address, door]
        except KeyError:  # one object of each, also where two threads come here
            return self._known.setdefault((address, door), self._looked_up(address, name, door))

    def _looked_up(self, address: int, name: str | None, door: str) -> ForeignFunction | None:
        where = _Where()
        if not (self._find(address, ctypes.byref(where)) and where.library):
            return None
        library = where.library.decode(errors="replace")
        if "/" in library:  # as it was opened, from a directory that the program may leave
            library = os.path.abspath(library)
        exact = where.name if where.address == address else None
        told = exact.decode(errors="replace") if exact else name or f"0x{address - (where.base or 0):x}"
        return ForeignFunction(library, told, door)


def install(tally: Counters) -> LibraryFunctions:
    """Watch ctypes from now on; call it before the program's first line. Gives what knows the libraries' functions."""
    plain: Any = vars(ctypes)["_CFuncPtr"]
    # All types of functions but those of ctypes' own tools, which call no library.
    tools = ("cast", "memmove", "memset", "_cast", "_string_at", "_wstring_at", "_memoryview_at")
    own = {type(getattr(ctypes, tool)) for tool in tools if hasattr(ctypes, tool)}
    earlier = [kind for kind in plain.__subclasses__() if kind not in own]
    functions = LibraryFunctions()  # through a library of its own, whose type is not watched
    to_address = ctypes.cast

    def function_of(called: Any) -> ForeignFunction | None:
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
    tally.calibration = nothing, lambda: plain.__call__(nothing)
    return functions


_POINTERS = "PzZOX"  # the codes of void *, char *, wchar_t *, PyObject * and BSTR
_READ_BY_CTYPES = "zZOX"  # of these, what a call returns is an object with the data
_FLOATS, _SIGNED, _UNSIGNED = "fd", "bhilq", "BHILQ?c"
_ADDRESS = re.compile(r"\((0x[0-9a-f]+)\)")


def taken(called: Any, arguments: tuple[Any, ...]) -> list[Taken]:
    """What the arguments of a call hand over: numbers, and memory of the extents that their objects know."""
    kinds = (None,) * len(arguments) if called.argtypes is None else called.argtypes
    return each_taken(arguments, kinds, _taken, "__name__")


def returned(called: Any, result: Any) -> Number | None:
    """The number that a call returned; None for nothing, an address, or where the program said nothing of it."""
    kind = called.restype
    # ``restype`` is ctypes' own c_int by default: of a void function that is what a register happens to hold. A
    # prototype states its result with its arguments; a function refers to what its ``restype`` was set to.
    is_prototype = getattr(type(called), "_argtypes_", None) is not None
    if kind is None or (kind is ctypes.c_int and not is_prototype and kind not in gc.get_referents(called)):
        return None
    if called.errcheck is not None:
        raise Refused("its errcheck may return something else than the function")
    if not _is_simple(kind) or kind._type_ in _READ_BY_CTYPES:
        raise Refused("its result is no number")
    if kind._type_ == "P":  # another one in each process, and often declared of a function that returns nothing
        return None
    return Number(kind._type_, bytes(kind(getattr(result, "value", result))))


def _taken(argument: Any, declared: Any) -> Taken:
    array = argument if is_numpy(type(argument), "ndarray") else getattr(argument, "_arr", None)
    if array is not None:
        return _of_array(array)
    if argument is None:
        return None
    if isinstance(argument, bytes):
        return _of_bytes(argument)
    if isinstance(argument, (int, float)):
        return _number(argument, declared)
    if isinstance(argument, ctypes._SimpleCData):
        return _of_simple(argument)
    if isinstance(argument, ctypes.Array):
        return _of_object(argument)
    if isinstance(argument, ctypes._Pointer):
        return _of_pointer(argument)
    if isinstance(argument, _BY_REFERENCE):
        memory = _of_object(argument._obj)
        shown = _ADDRESS.search(repr(argument))  # byref's offset shows nowhere else
        if shown is None or int(shown[1], 16) != memory.pointer:
            raise Refused("a reference with an offset")
        return memory
    if callable(argument):
        raise Refused("a callback")
    if isinstance(argument, (ctypes.Structure, ctypes.Union)):
        raise Refused(f"a struct by value ({type(argument).__name__})")
    raise Refused(f"of type {type(argument).__name__}")


def _of_simple(given: Any) -> Taken:
    if given._type_ not in _POINTERS:
        return _number(given.value, type(given))
    # Its ``value`` would read a string from anywhere until a zero.
    address = ctypes.c_void_p.from_buffer(given).value
    if address is None:
        return None
    made_of = given._objects
    if given._type_ == "z" and isinstance(made_of, bytes) and _address(made_of) == address:
        return _of_bytes(made_of)
    if given._type_ == "z":
        return Unsized(address, "a c_char_p that was not made of bytes: pass the bytes or the array itself")
    return _bare(address, given._type_)


def _of_bytes(data: bytes) -> Memory:
    size = len(data) + 1  # and the zero behind them
    return contiguous(_address(data), size, "|u1", size)


def _bare(address: int, code: str) -> Unsized:
    if code == "O":
        raise Refused("a Python object")
    return Unsized(address, "a bare address")


def _number(value: Any, kind: Any) -> Number | Unsized:
    if kind is not None and not _is_simple(kind):
        raise Refused("a bare address" if isinstance(value, int) else f"of type {type(value).__name__}")
    simple: Any = kind or ctypes.c_int  # what ctypes makes of an integer without argtypes
    if simple._type_ in _POINTERS:
        return _bare(value, simple._type_)
    return Number(simple._type_, bytes(simple(value)))


def _is_simple(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, ctypes._SimpleCData)


def _of_array(array: Any) -> Memory:
    if array.dtype.hasobject:
        raise Refused("an array of Python objects")
    pointer = array.__array_interface__["data"][0]
    size, low = (array.itemsize, 0) if array.size else (0, 0)
    for axis, stride in enumerate(array.strides if array.size else ()):
        size += abs(stride) * (array.shape[axis] - 1)
        low += min(stride, 0) * (array.shape[axis] - 1)
    dtype = array.dtype.str if array.dtype.kind in "biufc" else f"|V{array.itemsize}"
    return Memory(pointer, pointer + low, size, dtype, array.shape, array.strides)


def _of_pointer(pointer: Any) -> Memory | Unsized | None:
    if not pointer:
        return None
    address = ctypes.addressof(pointer.contents)
    made_of: Any  # kept by ctypes.pointer and ctypes.cast
    for made_of in (pointer._objects or {}).values():
        if isinstance(made_of, _DATA) and ctypes.addressof(made_of) == address:
            return _of_object(made_of)
    why = "a pointer whose extent no object tells: pass the array, or array.ctypes.data_as(…)"
    return Unsized(address, why, _elements(type(pointer)._type_)[0])


def _of_object(held: Any) -> Memory:
    """The memory of all that ``held`` is a part of, since the function may go on to its neighbours."""
    whole = _owner(held)
    for kind in _parts(type(whole)):
        if issubclass(kind, (ctypes._Pointer, _FUNCTION)) or (_is_simple(kind) and kind._type_ in _POINTERS):
            raise Refused(f"a {type(whole).__name__}, which holds pointers")
    dtype, extents = _elements(type(held))
    if dtype != _elements(type(whole))[0]:
        dtype, extents = f"|V{ctypes.sizeof(held)}", (1,)
    part = contiguous(ctypes.addressof(held), ctypes.sizeof(held), dtype, *extents)
    return part._replace(start=ctypes.addressof(whole), size=ctypes.sizeof(whole))


def _owner(part: Any) -> Any:
    """The array or structure that ``part`` was taken out of; itself if it was not."""
    whole = part
    while whole._b_base_ is not None:
        base = whole._b_base_
        whole = _pointed_to(base, part) if isinstance(base, ctypes._Pointer) else base
    return whole


def _pointed_to(pointer: Any, part: Any) -> Any:
    """The object around ``part`` that ``pointer`` was made of."""
    for made_of in (pointer._objects or {}).values():
        if isinstance(made_of, _DATA):
            first = ctypes.addressof(part) - ctypes.addressof(made_of)
            if 0 <= first <= ctypes.sizeof(made_of) - ctypes.sizeof(part):
                return made_of
    raise Refused("a pointer into memory of unknown extent: pass the array itself")


def _elements(kind: Any) -> tuple[str, tuple[int, ...]]:
    """The type of an object's elements, as numpy spells it, and how many there are along each axis."""
    extents = []
    while issubclass(kind, ctypes.Array):
        extents.append(kind._length_)
        kind = kind._type_
    size = ctypes.sizeof(kind)
    dtype = f"|V{size}"
    if _is_simple(kind) and kind._type_ in _FLOATS + _SIGNED + _UNSIGNED:
        letter = "f" if kind._type_ in _FLOATS else "i" if kind._type_ in _SIGNED else "u"
        dtype = spelt(letter, size)
    return dtype, tuple(extents or (1,))


def _parts(kind: Any) -> Iterator[Any]:
    yield kind
    if issubclass(kind, ctypes.Array):
        yield from _parts(kind._type_)
    for each in kind.__mro__:
        for field in vars(each).get("_fields_", ()):
            yield from _parts(field[1])


def _address(data: Any) -> int:
    return ctypes.cast(data, ctypes.c_void_p).value or 0


_BY_REFERENCE: Any = type(ctypes.byref(ctypes.c_int()))
_ANCESTORS: tuple[Any, ...] = type(ctypes.pythonapi.Py_IsInitialized).__mro__
_FUNCTION, _DATA = _ANCESTORS[-3:-1]  # CFuncPtr and _CData of _ctypes
