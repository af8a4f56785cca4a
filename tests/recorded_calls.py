"""A recorded call made again without its program: what memory holds then is what the record says."""

from __future__ import annotations

import ctypes
from pathlib import Path

from pytest_compileiq.capture.bundle import Bundle, Call, CapturedKernel, RecordedNumber

_PAGE = 4096
_BY_CODE = {kind._type_: kind for kind in (ctypes.c_int, ctypes.c_long, ctypes.c_double, ctypes.c_float)}


def made_again(bundle: Bundle, kernel: CapturedKernel, call: Call) -> bool:
    """Whether the function, called on the recorded arguments, leaves and returns what was recorded, bit for bit."""
    function = ctypes.CDLL(str(Path(kernel.library)))[kernel.function]
    buffers, starts = [], []
    for region in call.regions:
        buffer = ctypes.create_string_buffer(region.size + 2 * _PAGE)
        start = ctypes.addressof(buffer) + (region.page_offset - ctypes.addressof(buffer)) % _PAGE
        ctypes.memmove(start, bundle.content(region.before, region.size), region.size)
        buffers.append(buffer)
        starts.append(start)
    arguments = [
        ctypes.c_void_p(starts[given.memory.region] + given.memory.offset) if given.memory else number(given.number)
        for given in call.arguments
    ]
    function.restype = _BY_CODE[call.result.code] if call.result else None
    result = function(*arguments)
    left = [ctypes.string_at(start, region.size) for start, region in zip(starts, call.regions, strict=True)]
    same = call.result is None or bytes(function.restype(result)) == bytes.fromhex(call.result.value)
    return same and left == [bundle.content(region.after, region.size) for region in call.regions]


def number(recorded: RecordedNumber | None) -> object:
    """The argument; NULL for None."""
    return recorded and _BY_CODE[recorded.code].from_buffer_copy(bytes.fromhex(recorded.value))
