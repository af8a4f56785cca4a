"""The shape of a call: for each argument what its time may depend on, told from its object; its data stays unread.

``DESCRIBE[type(argument)](argument)`` is an integer for an integer that may be a size, an array's type and extents for
an array, else the type's name. It is hashable, and costs a tenth of a microsecond: it stands in the way of every call.

A function may be called on many shapes. By one rule, wherever they are counted, ranked, recorded or compared, they are
made few: an argument that takes many values (a seed, a step) tells no sizes apart, and is told by its kind alone.
"""

from __future__ import annotations

import ctypes
import operator
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Part = int | str | tuple[Any, ...]
    Shape = tuple[Part, ...]
    Told = tuple[int | str, ...]

MOST_SHAPES = 8  # of a function, wherever its arguments allow it
_INTEGER = "int"
_EXTENTS = re.compile(r"\[.*\]$")
_LARGEST_SIZE = 1 << 32  # a larger integer is an address, a hash or a seed, and no size


def told_of_shape(shape: Shape) -> list[int | str]:
    """The shape in JSON's types: ``[1000, "float64[1000,3]"]``."""
    return [f"{part[0]}[{_extents(part[1])}]" if isinstance(part, tuple) else part for part in shape]


def _extents(extents: Any) -> str:
    return ",".join(map(str, extents)) if isinstance(extents, tuple) else str(extents)


def of_many_values(shapes: Iterable[Told]) -> frozenset[int]:
    """The places of the arguments that are told by their kind, so that at most ``MOST_SHAPES`` are left.

    As long as there are too many, it is the argument that takes most values. Where these are of as many kinds, there is
    nothing to be told apart less, and the shapes stay many.
    """
    left, places = set(shapes), frozenset[int]()
    while len(left) > MOST_SHAPES:
        variety: defaultdict[int, set[int | str]] = defaultdict(set)
        for shape in left:
            for place, part in enumerate(shape):
                variety[place].add(part)
        place = max(variety, key=lambda place: len(variety[place]), default=-1)
        if place < 0 or len({_kind_of(part) for part in variety[place]}) == len(variety[place]):
            break
        places |= {place}
        left = {by_kind(shape, places) for shape in left}
    return places


def by_kind(shape: Told, places: frozenset[int]) -> Told:
    """The shape with the arguments at ``places`` told by their kind: ``int``, ``float64[…]``."""
    return tuple([_kind_of(part) if at in places else part for at, part in enumerate(shape)]) if places else shape


def _kind_of(part: int | str) -> str:
    return _INTEGER if isinstance(part, int) else _EXTENTS.sub("[…]", part)


def is_of(shape: Told, told: Told) -> bool:
    """Whether ``told``, which ``by_kind`` gave, takes ``shape`` in."""
    return len(shape) == len(told) and all(told[at] in (part, _kind_of(part)) for at, part in enumerate(shape))


class Describing(dict[type, Any]):
    """Type → what describes an object of it, which ``describer`` gives when the first object of a type comes."""

    def __init__(self, describer: Callable[[type], Callable[[Any], Part]]) -> None:
        super().__init__()
        self._describer = describer

    def __missing__(self, kind: type) -> Callable[[Any], Part]:
        describe = self[kind] = self._describer(kind)
        return describe


def _describer(kind: type) -> Callable[[Any], Part]:
    if issubclass(kind, bool):
        return int  # JSON would tell it apart
    if issubclass(kind, int):
        return lambda value: value if -_LARGEST_SIZE < value < _LARGEST_SIZE else _INTEGER
    if issubclass(kind, (bytes, bytearray, str)):
        return lambda text: (kind.__name__, len(text))
    if issubclass(kind, ctypes.Array):
        array = (getattr(kind._type_, "__name__", "?"), kind._length_)
        return lambda _: array
    if issubclass(kind, ctypes._SimpleCData) and getattr(kind, "_type_", "") in "zZPO":
        return lambda pointer: _of_pointer(pointer, "pointer")
    if issubclass(kind, ctypes._SimpleCData):
        return lambda value: DESCRIBE[type(value.value)](value.value)
    if issubclass(kind, ctypes._Pointer):
        return lambda pointer: _of_pointer(pointer, kind.__name__)
    if kind is _BY_REFERENCE:
        return lambda reference: f"&{type(reference._obj).__name__}"
    if is_numpy(kind, "ndarray"):
        return _dtype_and_extents
    if is_numpy(kind, "_ctypes"):  # what array.ctypes is
        return lambda given: _dtype_and_extents(given._arr)
    backend = sys.modules.get("_cffi_backend")
    if backend is not None and issubclass(kind, backend._CDataBase):
        return _of_cdata
    if hasattr(kind, "_acf_raw"):
        return lambda function: _of_cdata(function._acf_raw)
    name = kind.__name__
    return lambda _: name


def _of_pointer(pointer: Any, name: str) -> Part:
    """``array.ctypes.data_as(…)`` keeps its array; what another pointer points to is not looked at."""
    array = getattr(pointer, "_arr", None)
    return name if array is None else _dtype_and_extents(array)


def _of_cdata(given: Any) -> Part:
    kind = sys.modules["_cffi_backend"].typeof(given)
    return (kind.item.cname, len(given)) if kind.kind == "array" else str(kind.cname)


def is_numpy(kind: type, name: str) -> bool:
    """Whether a type is numpy's of this name, or derived from it."""
    return any(each.__name__ == name and each.__module__.partition(".")[0] == "numpy" for each in kind.__mro__)


_dtype_and_extents: Callable[[Any], Part] = operator.attrgetter("dtype", "shape")
_BY_REFERENCE = type(ctypes.byref(ctypes.c_int()))
DESCRIBE = Describing(_describer)
DESCRIBE[type(None)] = lambda _: "NULL"
