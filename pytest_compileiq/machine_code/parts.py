"""Digests of several parts; and names of symbols without the location of their source.

nvcc puts that location into names.

A name that is private to its file (static, in an anonymous namespace, every inline variable of cuda::std) holds the
file's *module id*, ``_2fb6db8a_5_cg_cu_7352d01d``: the CRC of the file's path, the length of its name, its name, and a
tail that distinguishes it from namesakes. The tail is the file's first external name, or its CRC if it is longer than 8
characters, or else ``-frandom-seed``; without either, a CRC and the id of the process that compiled the file. The
layout was read from files that nvcc 13.3 writes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable


def digest_of(parts: Iterable[bytes]) -> bytes:
    """SHA-256 of ``parts``, each preceded by its length, so that different sequences have different digests."""
    state = hashlib.sha256()
    for part in parts:
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state.digest()


_NO_CRC = "_00000000"
_LONGEST_TAIL = len("_7352d01d_") + 20  # what may follow the file's name; a process id has at most 20 digits
_WORDS = ("_INTERNAL_", "_GLOBAL__N__", "__nv_static_", "__fatbinwrap_", "__cudaRegisterLinkedBinary_")
_ID = re.compile(
    r"(?P<count>\d*)"  # the length of the identifier, as a mangled name gives it
    r"(?P<word>_INTERNAL|_GLOBAL__N_|__fatbinwrap|__cudaRegisterLinkedBinary"
    r"|(?<=__nv_static_\d\d)_|(?<=__nv_static_\d\d\d)_)"  # here the length counts the id alone
    r"_[0-9a-f]{8}(?P<file>_(?P<length>[1-9]\d{0,3})_)"
)
_CRC = re.compile(r"_[0-9a-f]{8}(?:_\d+)?")


def without_module_id(name: str) -> str:
    """``name`` independent of its source's location: module ids have zeros for CRCs and no process id.

    Any text may be given; text without a module id is returned unchanged. A mangled name stays well-formed.
    """
    if not any(word in name for word in _WORDS):
        return name
    parts, done = list[str](), 0
    while match := _ID.search(name, done):
        stable, end = _stable(name, match)
        parts += [name[done : match.start()], stable]
        done = end
    return "".join([*parts, name[done:]])


def _stable(name: str, match: re.Match[str]) -> tuple[str, int]:
    """One identifier with a stable module id, and its end in ``name``."""
    file_end = match.end() + int(match["length"])
    begin = match.end("word") if match["word"] == "_" else match.start("word")
    tail = _tail(name, file_end, file_end - begin, match["count"])
    stable_tail = _NO_CRC if _CRC.fullmatch(tail) else tail
    count, length = match["count"], str(file_end - begin + len(tail))
    if count.endswith(length):
        count = count.removesuffix(length) + str(file_end - begin + len(stable_tail))
    file = name[match.start("file") : file_end]
    return f"{count}{match['word']}{_NO_CRC}{file}{stable_tail}", file_end + len(tail)


def _tail(name: str, file_end: int, counted: int, count: str) -> str:
    """The id's tail after the file's name, found by the identifier's length; without a length, a CRC if one follows."""
    # The digits may begin with those of the name before, as in std3__435_GLOBAL__N__, where the length is 35.
    for length in range(_LONGEST_TAIL + 1):
        if count.endswith(str(counted + length)):
            return name[file_end : file_end + length]
    crc = _CRC.match(name, file_end)
    return crc[0] if crc else ""
