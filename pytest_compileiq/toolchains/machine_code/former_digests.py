"""The digests that earlier versions made of the entries of a cubin: a record of one still holds."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pytest_compileiq.toolchains.machine_code.image import Image
from pytest_compileiq.toolchains.machine_code.launch_records import (
    ASKED_REGISTERS,
    CONSTANTS,
    INFO,
    OF_A_FUNCTION,
    PRE_EXIT,
    VERSION,
    caller_of,
    read_records,
)
from pytest_compileiq.toolchains.machine_code.parts import digest_of
from pytest_compileiq.toolchains.nvidia.module_id import without_module_id


@dataclass(frozen=True)
class _Format:
    """What of ``.nv.info`` entered a digest.

    Attributes:
        is_alone: no symbol's number, which counts the file's other symbols, and of called functions those of the entry.
        left_out: codes of records.
    """

    is_alone: bool
    left_out: frozenset[int] = frozenset({ASKED_REGISTERS})


_FORMATS = (_Format(True, frozenset({ASKED_REGISTERS, VERSION, PRE_EXIT})), _Format(True), _Format(False))


def former_digests(image: Image) -> dict[str, tuple[str, ...]]:
    """Entry → its digests, the latest first. They covered all functions, constants and globals of the file."""
    hashed = {
        index: _section(image, index)
        for index in (*image.owners, *image.data)
        if not image.sections[index].name.startswith(INFO)
    }
    formats = [_digests(image, hashed, form) for form in _FORMATS]
    return {name: tuple(digests[name] for digests in formats) for name in image.entries}


def _digests(image: Image, hashed: Mapping[int, bytes], form: _Format) -> dict[str, str]:
    own: dict[str, list[bytes]] = {name: [] for name in image.entries}
    shared: list[bytes] = []
    for index, section in enumerate(image.sections):
        owner = image.owners.get(index, "")
        if section.name == INFO or section.name.startswith(f"{INFO}."):
            for function, record in _attributes(image, section.data(), form):
                of = caller_of(function) if form.is_alone else function
                own.get(of or owner, shared).append(record)
        elif index in hashed:
            own.get(owner, shared).append(hashed[index])
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


def _attributes(image: Image, data: bytes, form: _Format) -> Iterator[tuple[str, bytes]]:
    for record in read_records(data):
        if record.code in form.left_out:
            continue
        function, payload = "", record.payload
        if record.code in OF_A_FUNCTION and len(payload) >= 4:
            function, payload = image.symbol(payload), payload[4:]
        elif form.is_alone and record.code == CONSTANTS:
            payload = payload[4:]
        told = [struct.pack("<BBH", record.form, record.code, record.value), without_module_id(function).encode()]
        yield function, digest_of([*told, payload])
