"""What a cffi argument hands to the function: a number, or memory whose extent its object knows."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from .cffi_memory import address_of, backend, block_of
from .values import Memory, Number, Refused, Unsized, contiguous, named_argument, spelt

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


def taken(called: Any, arguments: tuple[Any, ...]) -> list[Number | Memory | Unsized | None]:
    """The arguments of a call of a cffi function; None for NULL.

    Raises:
        Refused: one of them cannot be recorded.
    """
    kinds = backend().typeof(called._acf_raw).args
    if len(kinds) != len(arguments):
        raise Refused(f"it is called with {len(arguments)} arguments, and {len(kinds)} are declared")
    return [_named(place, argument, kinds[place]) for place, argument in enumerate(arguments)]


def returned(called: Any, result: Any) -> Number | None:
    """The number that a call returned; None for nothing, or an address without a type.

    Raises:
        Refused: it is no number.
    """
    kind = backend().typeof(called._acf_raw).result
    if kind.kind == "void" or kind.cname == "void *":
        return None
    if kind.kind not in ("primitive", "enum"):
        raise Refused("its result is no number")
    return _number(result, kind)


def _named(place: int, argument: Any, kind: Any) -> Number | Memory | Unsized | None:
    with named_argument(place, kind.cname):
        return _taken(argument, kind)


def _taken(argument: Any, kind: Any) -> Number | Memory | Unsized | None:
    if kind.kind in ("primitive", "enum"):
        return _number(argument, kind)
    if kind.kind == "function" or (kind.kind == "pointer" and kind.item.kind == "function"):
        raise Refused("a callback")
    if kind.kind != "pointer":
        raise Refused(f"a struct by value ({kind.cname})")
    if isinstance(argument, bytes) and kind.item.cname in _OF_BYTES:
        return _of_bytes(argument)
    if not isinstance(argument, backend()._CDataBase):
        raise Refused(f"of type {type(argument).__name__}, which cffi copies: pass ffi.new(…) or ffi.from_buffer(…)")
    if backend().typeof(argument).kind == "function":
        raise Refused("a callback")
    address = address_of(argument)
    return _of_pointer(argument, address, kind.item) if address else None


def _of_bytes(data: bytes) -> Memory:
    chars = backend().new_array_type(backend().new_pointer_type(backend().new_primitive_type("char")), None)
    size = len(data) + 1  # and the zero behind them
    return contiguous(address_of(backend().from_buffer(chars, data)), size, "|u1", size)


def _number(value: Any, kind: Any) -> Number:
    held = backend().newp(backend().new_pointer_type(kind), value)
    return Number(_code(kind), bytes(backend().buffer(held)))


def _code(kind: Any) -> str:
    size = backend().sizeof(kind)
    if kind.cname in _FLOATS or kind.cname in ("_Bool", "char"):
        return {**_FLOATS, "_Bool": "?", "char": "c"}[kind.cname]
    if kind.kind != "enum" and "complex" in kind.cname:
        raise Refused(f"of type {kind.cname}")
    code = {1: "b", 2: "h", 4: "i", 8: _EIGHT_BYTES}[size]
    return code if int(backend().cast(kind, -1)) < 0 else code.upper()


def _of_pointer(pointer: Any, address: int, item: Any) -> Memory | Unsized:
    block, own = block_of(pointer), backend().typeof(pointer).item
    for kind in (item, block.kind if block else own):
        if any(part.kind in ("pointer", "function") for part in _parts(kind)):
            raise Refused(f"a {kind.cname}, which holds pointers")
    if block is None:
        return Unsized(address, _UNSIZED, _dtype(item) or _dtype(own))
    dtype = _dtype(item) or _dtype(own) or _dtype(block.kind) or "|u1"
    count = max(0, block.start + block.size - address) // int(dtype[2:])
    return contiguous(address, 0, dtype, count)._replace(start=block.start, size=block.size)


def _dtype(kind: Any) -> str | None:
    """The type of elements, as numpy spells it; None where they have none, as of void."""
    while kind.kind == "array":
        kind = kind.item
    if kind.kind == "void" or (kind.kind in ("struct", "union") and kind.fields is None):
        return None
    size = backend().sizeof(kind)
    if kind.cname in _FLOATS:
        return spelt("f", size)
    if kind.kind not in ("primitive", "enum") or "complex" in kind.cname:
        return f"|V{size}" if size else None
    return spelt("i" if kind.cname != "char" and int(backend().cast(kind, -1)) < 0 else "u", size)


def _parts(kind: Any) -> Iterator[Any]:
    yield kind
    if kind.kind == "array":
        yield from _parts(kind.item)
    for _, field in (kind.fields or ()) if kind.kind in ("struct", "union") else ():
        yield from _parts(field.type)
