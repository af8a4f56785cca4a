"""The digests that earlier versions made of the entries of a cubin: a record of one still holds."""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping

from pytest_compileiq.toolchains.machine_code.image import (
    ASKED_REGISTERS,
    CONSTANTS,
    INFO,
    PRE_EXIT,
    VERSION,
    Image,
    Record,
    caller_of,
)
from pytest_compileiq.toolchains.machine_code.parts import digest_of, without_module_id

# Codes of the records that a format left out; and whether it left out the numbers of symbols, which count the file's
# other symbols, and the records of functions that other entries call.
_FORMATS = (({ASKED_REGISTERS, VERSION, PRE_EXIT}, True), ({ASKED_REGISTERS}, True), ({ASKED_REGISTERS}, False))


def former_digests(image: Image) -> dict[str, tuple[str, ...]]:
    """Entry → its digests, the latest first. They covered all functions, constants and globals of the file."""
    hashed = {
        index: _section(image, index)
        for index in (*image.owners, *image.data)
        if not image.sections[index].name.startswith(INFO)
    }
    formats = [_digests(image, hashed, *form) for form in _FORMATS]
    return {name: tuple(digests[name] for digests in formats) for name in image.entries}


def _digests(image: Image, hashed: Mapping[int, bytes], left_out: Collection[int], is_alone: bool) -> dict[str, str]:
    own: dict[str, list[bytes]] = {name: [] for name in image.entries}
    shared: list[bytes] = []
    for index, section in hashed.items():
        own.get(image.owners.get(index, ""), shared).append(section)
    for owner, record in image.records():
        if record.code not in left_out:
            function = image.symbol(record.payload) if record.is_of_a_function else ""
            of = caller_of(function) if is_alone else function
            own.get(of or owner, shared).append(_record(record, function, is_alone))
    common = digest_of(sorted(shared))
    return {name: digest_of([common, *sorted(parts)]).hex() for name, parts in own.items()}


def _section(image: Image, index: int) -> bytes:
    section = image.sections[index]
    header = f"{without_module_id(section.name)} {section['sh_addralign']} {section['sh_size']}".encode()
    patches = (
        f"{patch.offset} {patch.kind} {without_module_id(image.symbols[patch.symbol].name)}+{patch.addend}"
        for patch in image.patches.get(index, ())
    )
    return digest_of([header, image.content(index), *(patch.encode() for patch in sorted(patches))])


def _record(record: Record, function: str, is_alone: bool) -> bytes:
    begins_with_number = record.is_of_a_function or (is_alone and record.code == CONSTANTS)
    told = [struct.pack("<BBH", record.form, record.code, record.value), without_module_id(function).encode()]
    return digest_of([*told, record.payload[4 if begins_with_number else 0 :]])
