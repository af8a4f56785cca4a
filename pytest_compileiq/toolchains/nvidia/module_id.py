"""What nvcc puts of a source's place into the names of symbols, and the same names without it.

A name that is private to its file (static, in an anonymous namespace, every inline variable of cuda::std) holds the
file's *module id*, ``_2fb6db8a_5_cg_cu_7352d01d``: the CRC of the file's path, the length of its name, its name, and
what tells it from a namesake. That is the file's first external name, or the CRC of it where it is longer than 8
characters, or else ``-frandom-seed``; without either, a CRC and the number of the process that compiled it. The layout
was read from what nvcc 13.3 writes.
"""

from __future__ import annotations

import re

_NO_CRC = "_00000000"
_LONGEST_TAIL = len("_7352d01d_") + 20  # what may follow the file's name; no process has more than 20 digits
_WORDS = ("_INTERNAL_", "_GLOBAL__N__", "__nv_static_", "__fatbinwrap_", "__cudaRegisterLinkedBinary_")
_ID = re.compile(
    r"(?P<count>\d*)"  # the length of the identifier, as a mangled name gives it
    r"(?P<word>_INTERNAL|_GLOBAL__N_|__fatbinwrap|__cudaRegisterLinkedBinary"
    r"|(?<=__nv_static_\d\d)_|(?<=__nv_static_\d\d\d)_)"  # there the length is of the id alone
    r"_[0-9a-f]{8}(?P<file>_(?P<length>[1-9]\d{0,3})_)"
)
_CRC = re.compile(r"_[0-9a-f]{8}(?:_\d+)?")


def without_module_id(name: str) -> str:
    """``name`` as it is wherever its source lies: the CRCs of module ids are zeros, and processes are left out.

    Any text may be given; one that holds no module id is returned as it is. A mangled name stays one.
    """
    if not any(word in name for word in _WORDS):
        return name
    parts: list[str] = []
    done = 0
    while found := _ID.search(name, done):
        stable, end = _stable(name, found)
        parts += [name[done : found.start()], stable]
        done = end
    return "".join([*parts, name[done:]])


def _stable(name: str, found: re.Match[str]) -> tuple[str, int]:
    """What stands for one identifier with an id, and where it ends in ``name``."""
    file_end = found.end() + int(found["length"])
    begin = found.end("word") if found["word"] == "_" else found.start("word")
    tail = _tail(name, file_end, file_end - begin, found["count"])
    stable_tail = _NO_CRC if _CRC.fullmatch(tail) else tail
    count, told = found["count"], str(file_end - begin + len(tail))
    if count.endswith(told):
        count = count.removesuffix(told) + str(file_end - begin + len(stable_tail))
    file = name[found.start("file") : file_end]
    return f"{count}{found['word']}{_NO_CRC}{file}{stable_tail}", file_end + len(tail)


def _tail(name: str, file_end: int, counted: int, count: str) -> str:
    """What of the id follows the file's name, as the identifier's length tells; without one, as far as a CRC goes.

    Digits of the name before may stand in front of the length, as in ``std3__435_GLOBAL__N__``, where it is 35.
    """
    for length in range(_LONGEST_TAIL + 1):
        if count.endswith(str(counted + length)):
            return name[file_end : file_end + length]
    crc = _CRC.match(name, file_end)
    return crc[0] if crc else ""
