"""What the arguments of a foreign call are, whatever it is made through: numbers, and memory of a known extent."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import NamedTuple

ORDER = "<" if sys.byteorder == "little" else ">"


class Refused(Exception):
    """What cannot be recorded, and why, as a part of a sentence: ``argument 2 is a callback``."""


class Number(NamedTuple):
    """A number, by its type's code in ctypes and the bytes of its value."""

    code: str
    value: bytes


class Memory(NamedTuple):
    """What a pointer argument may reach.

    Attributes:
        pointer: the address that is handed over.
        start: the first byte; lower than ``pointer`` where a stride is negative.
        size: in bytes.
        dtype: of its elements, as numpy spells it: ``<f8``, or ``|V24`` for what has no simpler type.
        extents: elements along each axis.
        strides: bytes along each axis.
    """

    pointer: int
    start: int
    size: int
    dtype: str
    extents: tuple[int, ...]
    strides: tuple[int, ...]


class Unsized(NamedTuple):
    """An address of which no object tells how much memory lies there.

    Attributes:
        why: what it is, as a part of a sentence: ``a bare address``.
        dtype: of its elements, as numpy spells it, where its type tells.
    """

    address: int
    why: str
    dtype: str | None = None


@contextlib.contextmanager
def named_argument(place: int, kind: str) -> Iterator[None]:
    """Name an argument, counted from 0 and declared as ``kind``, in why it is refused."""
    try:
        yield
    except Refused as why:
        raise Refused(f"argument {place + 1} is {why}") from None
    except (TypeError, ValueError, OverflowError):  # as the call itself will say
        raise Refused(f"argument {place + 1} is no {kind}") from None


def contiguous(address: int, size: int, dtype: str, *extents: int) -> Memory:
    """``size`` bytes of elements without gaps."""
    strides: list[int] = []
    step = int(dtype.lstrip("<>|fiuV"))
    for extent in reversed(extents):
        strides.insert(0, step)
        step *= extent
    return Memory(address, address, size, dtype, extents, tuple(strides))


def spelt(letter: str, size: int) -> str:
    """A type of elements as numpy spells it: ``<f8``."""
    return f"{'|' if size == 1 else ORDER}{letter}{size}"
