"""Reads cubins from nvcc's fat binaries, alone or inside a host library, program or object.

A fat binary is a row of containers, each a header and its members; a member is a cubin or PTX, plain or compressed. The
layout was read from files that nvcc 13.3 writes. Compressed members are extracted by ``cuobjdump``, if it is installed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from pytest_compileiq.errors import BuildError
from pytest_compileiq.toolchains.commands import ask
from pytest_compileiq.toolchains.nvidia.tools import first_error, installed

CONTAINER_MAGIC = struct.pack("<I", 0xBA55ED50)
_CONTAINER = struct.Struct("<IHHQ")  # magic, version, bytes of this header, bytes of the members
_MEMBER = struct.Struct(
    "<HHIQI"
)  # kind, version, bytes of this header, bytes stored, bytes of these that are compressed
_CUBIN_KIND = 2
_SECTION = ".nv_fatbin"  # __nv_relfatbin holds code that is not linked yet


@dataclass(frozen=True)
class Member:
    """One member of a container; ``data`` is None if it is compressed."""

    is_cubin: bool
    data: bytes | None


def fatbin_of(data: bytes, path: Path) -> bytes | None:
    """The containers in ``data``, the content of ``path``: a whole fat binary, or a host file's section; None without.

    Raises:
        BuildError: it is neither a fat binary nor an ELF file.
    """
    if data.startswith(CONTAINER_MAGIC):
        return data
    try:
        section = ELFFile(BytesIO(data)).get_section_by_name(_SECTION)
        return section.data() if section else None
    except (ELFError, ValueError, struct.error, UnicodeDecodeError, KeyError) as error:
        message = f"{path}: neither a cubin, a fat binary, nor an ELF library, program or object: {error}"
        raise BuildError(message, kind="compile") from error


def members(fatbin: bytes, path: Path) -> Iterator[Member]:
    """The members of every container in ``fatbin``, in order.

    Raises:
        BuildError: it ends in the middle of a container, or something else lies between containers.
    """
    at = 0
    while at < len(fatbin):
        if not any(fatbin[at : at + 8]):  # containers are aligned
            at += 8
            continue
        if not fatbin.startswith(CONTAINER_MAGIC, at):
            raise _damaged(path, at)
        _, _, header, size = _unpack(_CONTAINER, fatbin, at, path)
        end = at + header + size
        if header < _CONTAINER.size or end > len(fatbin):
            raise _damaged(path, at)
        yield from _members_of(fatbin, at + header, end, path)
        at = end


def extract_with_cuobjdump(path: Path, directory: Path) -> list[Path] | None:
    """Every cubin in ``path``, compressed or not, as files in ``directory``; None if ``cuobjdump`` is not installed.

    Raises:
        BuildError: ``cuobjdump`` refuses the file.
    """
    tool = next(installed("cuobjdump"), None)
    if tool is None:
        return None
    finished = ask([tool.program, "-xelf", "all", str(path.absolute())], cwd=directory)
    if finished.returncode != 0:
        raise BuildError(f"{path}: cuobjdump refuses it: {first_error(finished.output)}", kind="compile")
    return sorted(directory.glob("*.cubin"))


def _members_of(fatbin: bytes, at: int, end: int, path: Path) -> Iterator[Member]:
    while at < end:
        kind, _, header, stored, compressed = _unpack(_MEMBER, fatbin, at, path)
        start, at = at + header, at + header + stored
        if header < _MEMBER.size or at > end:
            raise _damaged(path, start)
        yield Member(kind == _CUBIN_KIND, None if compressed else fatbin[start:at])


def _unpack(layout: struct.Struct, data: bytes, at: int, path: Path) -> tuple[int, ...]:
    if at + layout.size > len(data):
        raise _damaged(path, at)
    return layout.unpack_from(data, at)


def _damaged(path: Path, at: int) -> BuildError:
    return BuildError(f"{path}: the fat binary in it is damaged at byte {at}", kind="compile")
