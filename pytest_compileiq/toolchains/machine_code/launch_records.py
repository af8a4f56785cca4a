"""Reads ``.nv.info``, the attributes that the driver launches a kernel by."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

INFO = ".nv.info"  # and .nv.info.FUNCTION
_SIZED_VALUE = 0x04
# EIATTR codes whose payload begins with the number of the function they describe.
FRAME_SIZE, REGISTER_COUNT = 0x11, 0x2F
_OF_A_FUNCTION = frozenset({FRAME_SIZE, 0x12, 0x23, REGISTER_COUNT})  # and the minimal and maximal size of the stack
CONSTANTS = 0x0A  # the payload begins with the number of the symbol of the function's own constant bank
EXTERNS = 0x0F  # the numbers of the symbols that the function calls outside the file
BARRIERS = 0x4C
VERSION, PRE_EXIT = 0x37, 0x6D  # of the toolkit; PREEXIT_USED, which 13.4 adds and says of code what the code says
ASKED_REGISTERS = 0x1B  # the limit that was asked for; the register count says what each function uses


class Record(NamedTuple):
    """One attribute. ``value`` is that of a record without payload."""

    form: int
    code: int
    value: int
    payload: bytes

    @property
    def is_of_a_function(self) -> bool:
        """Whether the payload begins with the number of the function that it describes."""
        return self.code in _OF_A_FUNCTION and len(self.payload) >= 4


def read_records(data: bytes) -> Iterator[Record]:
    """The records of one section."""
    at = 0
    while at + 4 <= len(data):
        form, code, value = struct.unpack_from("<BBH", data, at)
        at += 4
        payload = b""
        if form == _SIZED_VALUE:
            payload, at, value = data[at : at + value], at + value, 0
        yield Record(form, code, value, payload)


def caller_of(function: str) -> str:
    """The entry that ``function`` was compiled for: ``scale`` of ``$scale$_Z6helperf``."""
    return function[1:].partition("$")[0] if function.startswith("$") else function
