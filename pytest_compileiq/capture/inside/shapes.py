"""The shape of a call: for each argument what its time may depend on, told from its object; its data stays unread.

``DESCRIBE[type(argument)](argument)`` is an integer for an integer that may be a size, an array's type and extents for
an array, else the type's name. It is hashable, and costs a tenth of a microsecond: it stands in the way of every call.
"""

from __future__ import annotations

import ctypes
import operator
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Part = int | str | tuple[Any, ...]
    Shape = tuple[Part, ...]

_LARGEST_SIZE = 1 << 32  # a larger integer is an address, a hash or a seed, and no size


def told_of_shape(shape: Shape) -> list[int | str]:
    """The shape in JSON's types: ``[1000, "float64[1000,3]"]``."""
    return [f"{part[0]}[{_extents(part[1])}]" if isinstance(part, tuple) else part for part in shape]


def _extents(extents: Any) -> str:
    return ",".join(map(str, extents)) if isinstance(extents, tuple) else str(extents)


class _Describing(dict[type, Any]):
    """Type → what describes an object of it; found out for a type when its first object comes."""

    def __missing__(self, kind: type) -> Callable[[Any], Part]:
        describe = self[kind] = _describer(kind)
        return describe


def _describer(kind: type) -> Callable[[Any], Part]:
    if issubclass(kind, bool):
        return int  # JSON would tell it apart
    if issubclass(kind, int):
        return _of_integer
    if issubclass(kind, (bytes, bytearray, str)):
        return lambda text: (kind.__name__, len(text))
    if issubclass(kind, ctypes.Array):
        array = (getattr(kind._type_, "__name__", "?"), kind._length_)
        return lambda _: array
    if issubclass(kind, ctypes._SimpleCData):
        return lambda value: DESCRIBE[type(value.value)](value.value) if value._type_ not in "zZPO" else "pointer"
    if issubclass(kind, ctypes._Pointer):
        return _of_pointer
    if kind is _BY_REFERENCE:
        return lambda reference: f"&{type(reference._obj).__name__}"
    if _is_numpy(kind, "ndarray"):
        return _dtype_and_extents
    if _is_numpy(kind, "_ctypes"):  # what array.ctypes is
        return lambda given: _dtype_and_extents(given._arr)
    backend = sys.modules.get("_cffi_backend")
    if backend is not None and issubclass(kind, backend._CDataBase):
        return _of_cdata
    if hasattr(kind, "_acf_raw"):
        return lambda function: _of_cdata(function._acf_raw)
    name = kind.__name__
    return lambda _: name


def _of_integer(value: int) -> Part:
    return value if -_LARGEST_SIZE < value < _LARGEST_SIZE else "int"


def _of_pointer(pointer: Any) -> Part:
    """``array.ctypes.data_as(…)`` keeps its array; what another pointer points to is not looked at."""
    array = getattr(pointer, "_arr", None)
    return type(pointer).__name__ if array is None else _dtype_and_extents(array)


def _of_cdata(given: Any) -> Part:
    kind = sys.modules["_cffi_backend"].typeof(given)
    return (kind.item.cname, len(given)) if kind.kind == "array" else str(kind.cname)


def _is_numpy(kind: type, name: str) -> bool:
    return any(each.__name__ == name and each.__module__.partition(".")[0] == "numpy" for each in kind.__mro__)


_dtype_and_extents: Callable[[Any], Part] = operator.attrgetter("dtype", "shape")
_BY_REFERENCE = type(ctypes.byref(ctypes.c_int()))
DESCRIBE: _Describing = _Describing()
DESCRIBE[type(None)] = lambda _: "NULL"
