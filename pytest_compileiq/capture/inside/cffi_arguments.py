"""What a cffi argument hands to the function: a number, or memory whose extent its object knows.

The memory of ``ffi.new`` and of ``ffi.from_buffer`` is as large as these say. A pointer that ``ffi.cast`` or
``ffi.addressof`` makes of such an object is to the same memory; cffi does not keep that, so it is kept here for as long
as the pointer lives.
"""

from __future__ import annotations

import re
import struct
import sys
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from .values import Memory, Number, Refused, Unsized, contiguous, spelt

if TYPE_CHECKING:
    from collections.abc import Callable

_OWNING = re.compile(r" owning (\d+) bytes>$")
_OF_BYTES = {
    "char",
    "signed char",
    "unsigned char",
    "int8_t",
    "uint8_t",
    "void",
    "_Bool",
}  # to which bytes may be passed
_FLOATS = {"float": "f", "double": "d", "long double": "g"}
_UNSIZED = (
    "a pointer whose extent no object tells: pass what ffi.new(…) or ffi.from_buffer(…) made, or ffi.cast(…) of that, "
    "and no ffi.cast(…) of an address"
)
_EIGHT_BYTES = "l" if struct.calcsize("l") == 8 else "q"


class _Block(NamedTuple):
    """Memory of a known extent, in bytes, and the type of what it holds."""

    start: int
    size: int
    kind: Any


is_recording = False  # set by the recorder; keeping what a pointer is to costs a cast some microseconds
_derived: dict[int, tuple[Any, _Block]] = {}  # the id of a pointer → a weak reference to it, and what it is to


def watch(ffi_class: Any) -> None:
    """Keep what the pointers are to that ``ffi_class`` makes of other objects, if calls are recorded."""
    for name in ("cast", "addressof", "from_buffer") if is_recording else ():
        setattr(ffi_class, name, _keeping_block(getattr(ffi_class, name), name))


def taken(called: Any, arguments: tuple[Any, ...]) -> list[Number | Memory | Unsized | None]:
    """The arguments of a call of a cffi function; None for NULL.

    Raises:
        Refused: one of them cannot be recorded.
    """
    kinds = _backend().typeof(called._acf_raw).args
    if len(kinds) != len(arguments):
        raise Refused(f"it is called with {len(arguments)} arguments, and {len(kinds)} are declared")
    return [_named(place, argument, kinds[place]) for place, argument in enumerate(arguments)]


def returned(called: Any, result: Any) -> Number | None:
    """The number that a call returned; None for nothing, or an address without a type.

    Raises:
        Refused: it is no number.
    """
    kind = _backend().typeof(called._acf_raw).result
    if kind.kind == "void" or kind.cname == "void *":
        return None
    if kind.kind not in ("primitive", "enum"):
        raise Refused("what it returns is no number")
    return _number(result, kind)


def _backend() -> Any:
    return sys.modules["_cffi_backend"]


def _named(place: int, argument: Any, kind: Any) -> Number | Memory | Unsized | None:
    try:
        return _taken(argument, kind)
    except Refused as why:
        raise Refused(f"argument {place + 1} is {why}") from None
    except (TypeError, ValueError, OverflowError):  # as the call itself will say
        raise Refused(f"argument {place + 1} is no {kind.cname}") from None


def _taken(argument: Any, kind: Any) -> Number | Memory | Unsized | None:
    if kind.kind in ("primitive", "enum"):
        return _number(argument, kind)
    if kind.kind == "function" or (kind.kind == "pointer" and kind.item.kind == "function"):
        raise Refused("a callback")
    if kind.kind != "pointer":
        raise Refused(f"a struct by value ({kind.cname})")
    if isinstance(argument, bytes) and kind.item.cname in _OF_BYTES:
        return _of_bytes(argument)
    if not isinstance(argument, _backend()._CDataBase):
        raise Refused(f"of type {type(argument).__name__}, which cffi copies: pass ffi.new(…) or ffi.from_buffer(…)")
    address = _address(argument)
    return _of_pointer(argument, address, kind.item) if address else None


def _of_bytes(data: bytes) -> Memory:
    backend, size = _backend(), len(data) + 1  # and the zero behind them
    chars = backend.new_array_type(backend.new_pointer_type(backend.new_primitive_type("char")), None)
    return contiguous(_address(backend.from_buffer(chars, data)), size, "|u1", size)


def _number(value: Any, kind: Any) -> Number:
    held = _backend().newp(_backend().new_pointer_type(kind), value)
    return Number(_code(kind), bytes(_backend().buffer(held)))


def _code(kind: Any) -> str:
    size = _backend().sizeof(kind)
    if kind.cname in _FLOATS or kind.cname in ("_Bool", "char"):
        return {**_FLOATS, "_Bool": "?", "char": "c"}[kind.cname]
    if kind.kind != "enum" and "complex" in kind.cname:
        raise Refused(f"of type {kind.cname}")
    code = {1: "b", 2: "h", 4: "i", 8: _EIGHT_BYTES}[size]
    return code if int(_backend().cast(kind, -1)) < 0 else code.upper()


def _of_pointer(pointer: Any, address: int, item: Any) -> Memory | Unsized:
    block, own = _block(pointer), _backend().typeof(pointer).item
    for kind in (item, block.kind if block else own):
        if any(part.kind in ("pointer", "function") for part in _parts(kind)):
            raise Refused(f"a {kind.cname}, which holds pointers")
    if block is None:
        return Unsized(address, _UNSIZED, _dtype(item) or _dtype(own))
    dtype = _dtype(item) or _dtype(own) or _dtype(block.kind) or "|u1"
    count = max(0, block.start + block.size - address) // int(dtype[2:])
    return contiguous(address, 0, dtype, count)._replace(start=block.start, size=block.size)


def _block(pointer: Any) -> _Block | None:
    """What memory a pointer is to, as far as an object tells."""
    known = _derived.get(id(pointer))
    if known is not None and known[0]() is pointer:
        return known[1]
    shown, kind = repr(pointer), _backend().typeof(pointer)
    owning = _OWNING.search(shown)
    if owning is not None:
        return _Block(_address(pointer), int(owning[1]), kind.item if kind.kind in ("pointer", "array") else kind)
    if kind.kind == "array" and " buffer len " in shown:
        return _Block(_address(pointer), _backend().sizeof(pointer), kind.item)
    return None


def _keeping_block(method: Any, name: str) -> Callable[..., Any]:
    def making(self: Any, *arguments: Any, **named: Any) -> Any:
        made = method(self, *arguments, **named)
        try:
            _keep_block(made, name, [*arguments, *named.values()])
        except Exception:
            return made  # of an object of the program's: its extent is not known
        return made

    return making


def _keep_block(made: Any, name: str, arguments: list[Any]) -> None:
    kind = _backend().typeof(made)
    if kind.kind != "pointer":  # an array tells its length
        return
    block, source = None, arguments[0 if name == "addressof" else 1]
    if name == "from_buffer":
        block = _Block(_address(made), memoryview(source).nbytes, kind.item)
    elif isinstance(source, _backend()._CDataBase):
        block = _block(source)
    if block is not None:
        at = id(made)
        _derived[at] = weakref.ref(made, lambda _: _derived.pop(at, None)), block


def _address(held: Any) -> int:
    backend = _backend()
    kind = backend.typeof(held)
    if kind.kind in ("struct", "union"):
        held = backend.rawaddressof(backend.new_pointer_type(kind), held, 0)
    return int(backend.cast(backend.new_primitive_type("uintptr_t"), held))


def _dtype(kind: Any) -> str | None:
    """The type of elements, as numpy spells it; None where they have none, as of void."""
    while kind.kind == "array":
        kind = kind.item
    if kind.kind == "void" or (kind.kind in ("struct", "union") and kind.fields is None):
        return None
    size = _backend().sizeof(kind)
    if kind.cname in _FLOATS:
        return spelt("f", size)
    if kind.kind not in ("primitive", "enum") or "complex" in kind.cname:
        return f"|V{size}" if size else None
    return spelt("i" if kind.cname != "char" and int(_backend().cast(kind, -1)) < 0 else "u", size)


def _parts(kind: Any) -> Iterator[Any]:
    yield kind
    if kind.kind == "array":
        yield from _parts(kind.item)
    for _, field in (kind.fields or ()) if kind.kind in ("struct", "union") else ():
        yield from _parts(field.type)
