"""What memory a cffi pointer is to, as far as an object tells.

The memory of ``ffi.new`` and of ``ffi.from_buffer`` is as large as these say. A pointer that ``ffi.cast`` or
``ffi.addressof`` makes of such an object is to the same memory; cffi does not keep that, so it is kept here for as long
as the pointer lives. Of any other, such as ``array + 1``, those objects tell that are alive and that it points into.
"""

from __future__ import annotations

import re
import sys
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

_OWNING = re.compile(r" owning (\d+) bytes>$")


class Block(NamedTuple):
    """Memory of a known extent, in bytes, and the type of what it holds."""

    start: int
    size: int
    kind: Any


_Blocks = dict[int, tuple[Any, Block]]  # by the id of an object: a weak reference to it, and what it is to

is_recording = False  # set by the recorder; keeping what a pointer is to costs its making some microseconds
_derived: _Blocks = {}
_owned: _Blocks = {}


def watch(ffi_class: Any) -> None:
    """Keep what the pointers are to that ``ffi_class`` makes, if calls are recorded."""
    if is_recording:
        for name, noted in (
            ("new", _note_owner),
            ("from_buffer", _note_buffer),
            ("cast", _note_cast),
            ("addressof", _note_part),
        ):
            setattr(ffi_class, name, _noting(getattr(ffi_class, name), noted))


def backend() -> Any:
    """cffi's own module, which is there where anything of it is."""
    return sys.modules["_cffi_backend"]


def address_of(held: Any) -> int:
    """The address that a pointer, an array or a structure has."""
    kind = backend().typeof(held)
    if kind.kind in ("struct", "union"):
        held = backend().rawaddressof(backend().new_pointer_type(kind), held, 0)
    return int(backend().cast(backend().new_primitive_type("uintptr_t"), held))


def block_of(pointer: Any) -> Block | None:
    """What a pointer is to; None where no object tells."""
    told = _told(pointer)
    if told is not None:
        return told
    address = address_of(pointer)
    living = (block for made, block in list(_owned.values()) if made() is not None)
    return next((block for block in living if block.start <= address < block.start + block.size), None)


def _told(pointer: Any) -> Block | None:
    """What is kept of this object, or stands in its text, which alone has it."""
    for blocks in (_derived, _owned):
        made, block = blocks.get(id(pointer), (None, None))
        if made is not None and made() is pointer:
            return block
    shown, kind = repr(pointer), backend().typeof(pointer)
    owning = _OWNING.search(shown)
    if owning is not None:
        held = kind.item if kind.kind in ("pointer", "array") else kind
        return Block(address_of(pointer), int(owning[1]), held)
    if kind.kind == "array" and " buffer len " in shown:
        return Block(address_of(pointer), backend().sizeof(pointer), kind.item)
    return None


def _noting(method: Any, note: Callable[[Any, list[Any]], None]) -> Callable[..., Any]:
    def making(self: Any, *arguments: Any, **named: Any) -> Any:
        made = method(self, *arguments, **named)
        try:
            note(made, [*arguments, *named.values()])
        except Exception:
            return made  # of an object of the program's: its extent is not known
        return made

    return making


def _note_owner(made: Any, _: list[Any]) -> None:
    _note(_owned, made, _told(made))


def _note_buffer(made: Any, given: list[Any]) -> None:
    kind = backend().typeof(made)
    if kind.kind == "pointer":  # an array tells its length
        _note(_owned, made, Block(address_of(made), memoryview(given[1]).nbytes, kind.item))
    else:
        _note(_owned, made, _told(made))


def _note_cast(made: Any, given: list[Any]) -> None:
    if backend().typeof(made).kind == "pointer" and isinstance(given[1], backend()._CDataBase):
        _note(_derived, made, _told(given[1]))


def _note_part(made: Any, given: list[Any]) -> None:
    _note(_derived, made, _told(given[0]))


def _note(blocks: _Blocks, made: Any, block: Block | None) -> None:
    if block is not None:
        at = id(made)
        blocks[at] = weakref.ref(made, lambda _: blocks.pop(at, None)), block
