"""Digests the entry functions of cubins, independently of the paths and command lines that a cubin records.

A cubin embeds the assembler's command line (``.note.nv.tkinfo``), so files may differ while their code does not. A
digest covers code, constants, shared and global memory, and the attributes that the driver launches by (``.nv.info``:
registers, frame sizes, parameters). Names are compared without the source's location, which nvcc puts into them.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import Section, SymbolTableSection

from pytest_compileiq.errors import BuildError
from pytest_compileiq.model import CodeDigest
from pytest_compileiq.toolchains.machine_code.parts import digest_of
from pytest_compileiq.toolchains.nvidia.module_id import without_module_id

_MOST_BYTES = 1 << 28
_ENTRY = 0x10  # STO_CUDA_ENTRY, in st_other
_OTHER_OFFSET = 5  # of st_other in an Elf64_Sym
_INSTRUCTION_BYTES = 16  # since sm_70
_NOP = 0x918  # the low 12 bits of the padding after a kernel's last instruction
# Sections that belong to one function carry its name.
_OWNED = re.compile(r"\.(?:text|nv\.constant\d+|nv\.info|nv\.shared|nv\.local)\.(?!reserved)(.+)", re.DOTALL)
_HASHED = re.compile(rf"{_OWNED.pattern}|\.nv\.(?:constant\d+|global(?:\.init)?)", re.DOTALL)  # or all share them
# EIATTR codes of .nv.info whose payload begins with the index of the function they describe.
_OF_A_FUNCTION = frozenset({0x11, 0x12, 0x23, 0x2F})  # frame size, minimal and maximal stack size, register count
_CONSTANTS = 0x0A  # the payload begins with the number of the symbol of the function's own constant bank
_SIZED_VALUE = 0x04
_OF_THE_TOOLKIT = frozenset({0x37, 0x6D})  # its version, and a record that 13.4 adds on sm_90a beside equal code
_ASKED_REGISTERS = 0x1B  # the limit that was asked for; the register count says what each function uses


@dataclass(frozen=True)
class Cubin:
    """The content of a cubin.

    Attributes:
        entries: entry function → digest, with ``code_bytes`` and ``instructions`` (padding left out). Keys are names
            without module ids; the second of two entries with the same such name is ``NAME#2``.
        symbols: the same keys → the name in this file, by which the entry is launched.
        assembler: the version line in the note that ptxas leaves; empty without a note.
        command: ptxas's command line in the same note; empty without a note.
    """

    entries: Mapping[str, CodeDigest]
    symbols: Mapping[str, str]
    assembler: str
    command: str


def read_cubin(path: Path) -> Cubin:
    """Read the cubin at ``path``.

    Raises:
        BuildError: it is not a cubin.
    """
    try:
        with path.open("rb") as stream:
            if path.stat().st_size > _MOST_BYTES:
                raise BuildError(f"{path}: more than {_MOST_BYTES} bytes", kind="compile")
            return _Reader(ELFFile(stream)).cubin()
    except BuildError:
        raise
    except Exception as error:  # on hostile bytes pyelftools may raise anything
        why = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise BuildError(f"{path}: not a cubin whose machine code can be read: {why}", kind="compile") from error


@dataclass(frozen=True)
class _Schema:
    """What of ``.nv.info`` enters a digest.

    Attributes:
        is_alone: no symbol's number, which counts the file's other symbols, and of called functions those of the entry.
        left_out: codes of records.
    """

    is_alone: bool
    left_out: frozenset[int] = frozenset()


_NOW = _Schema(is_alone=True, left_out=_OF_THE_TOOLKIT)
_ALONE, _FILE_WIDE = _Schema(is_alone=True), _Schema(is_alone=False)  # of artifacts from before


class _Reader:
    """Takes one ELF file apart."""

    def __init__(self, elf: ELFFile) -> None:
        self._sections: list[Section] = list(elf.iter_sections())
        table = next((section for section in self._sections if isinstance(section, SymbolTableSection)), None)
        self._symbols = list(table.iter_symbols()) if table else []
        self._entries = sorted(_entry_names(table)) if table else []
        self._relocations: dict[int, list[str]] = {}
        for section in self._sections:
            if isinstance(section, RelocationSection):
                self._relocations.setdefault(section["sh_info"], []).extend(self._patches(section))

    def cubin(self) -> Cubin:
        hashed = {
            index: self._digest(index, section)
            for index, section in enumerate(self._sections)
            if _HASHED.fullmatch(section.name) and not _is_info(section)
        }
        digests, *former = (self._digests(hashed, schema) for schema in (_NOW, _ALONE, _FILE_WIDE))
        entries = {
            name: CodeDigest(sha256, self._sizes(name), former=tuple(schema[name] for schema in former))
            for name, sha256 in digests.items()
        }
        symbols = _keys(entries)
        return Cubin(
            {key: entries[name] for key, name in symbols.items()},
            symbols,
            *self._note(),
        )

    def _digests(self, hashed: Mapping[int, bytes], schema: _Schema) -> dict[str, str]:
        """Entry → its digest, from those of the sections and the attributes in ``.nv.info``."""
        own: dict[str, list[bytes]] = {name: [] for name in self._entries}
        shared: list[bytes] = []
        for index, section in enumerate(self._sections):
            owner = _OWNED.fullmatch(section.name)
            if _is_info(section):
                for function, record in self._attributes(section.data(), schema):
                    of = _caller(function) if schema.is_alone else function
                    own.get(of or (owner[1] if owner else ""), shared).append(record)
            elif index in hashed:
                (own.get(owner[1], shared) if owner else shared).append(hashed[index])
        common = digest_of(sorted(shared))
        return {name: digest_of([common, *sorted(parts)]).hex() for name, parts in own.items()}

    def _patches(self, section: RelocationSection) -> Iterator[str]:
        for entry in section.iter_relocations():
            symbol = self._symbols[entry["r_info_sym"]]
            addend = entry["r_addend"] if entry.is_RELA() else 0
            yield f"{entry['r_offset']} {entry['r_info_type']} {without_module_id(symbol.name)}+{addend}"

    def _digest(self, index: int, section: Section) -> bytes:
        content = b"" if section["sh_type"] == "SHT_NOBITS" else section.data()
        header = f"{without_module_id(section.name)} {section['sh_addralign']} {section['sh_size']}".encode()
        patches = (patch.encode() for patch in sorted(self._relocations.get(index, ())))
        return digest_of([header, content, *patches])

    def _attributes(self, data: bytes, schema: _Schema) -> Iterator[tuple[str, bytes]]:
        """(function, record) of one ``.nv.info``; the function is empty if the record names none."""
        at = 0
        while at + 4 <= len(data):
            form, code, value = struct.unpack_from("<BBH", data, at)
            at += 4
            payload = b""
            if form == _SIZED_VALUE:
                payload, at = data[at : at + value], at + value
            if code == _ASKED_REGISTERS or code in schema.left_out:
                continue
            function = ""
            if code in _OF_A_FUNCTION and len(payload) >= 4:
                (number,) = struct.unpack_from("<I", payload)
                function, payload = self._symbols[number].name if number < len(self._symbols) else "", payload[4:]
            elif schema.is_alone and code == _CONSTANTS:
                payload = payload[4:]
            value = 0 if form == _SIZED_VALUE else value
            yield (
                function,
                digest_of([struct.pack("<BBH", form, code, value), without_module_id(function).encode(), payload]),
            )

    def _sizes(self, entry: str) -> dict[str, int]:
        code = next((section.data() for section in self._sections if section.name == f".text.{entry}"), b"")
        opcodes = (
            int.from_bytes(code[at : at + 2], "little") & 0xFFF for at in range(0, len(code), _INSTRUCTION_BYTES)
        )
        return {"code_bytes": len(code), "instructions": sum(opcode != _NOP for opcode in opcodes)}

    def _note(self) -> tuple[str, str]:
        section = next((section for section in self._sections if section.name == ".note.nv.tkinfo"), None)
        if section is None:
            return "", ""
        words = [word.decode("utf-8", "replace").strip() for word in section.data()[24:].split(b"\0")]
        version = next((word for word in words if word.startswith("Cuda compilation tools")), "")
        command = next((word for word in reversed(words) if word.startswith("-")), "")
        return version, command


def _is_info(section: Section) -> bool:
    return section.name == ".nv.info" or section.name.startswith(".nv.info.")


def _entry_names(table: SymbolTableSection) -> Iterator[str]:
    """Functions that can be launched. ``st_other`` is read raw, since pyelftools drops the bit that marks them."""
    raw, size = table.data(), table["sh_entsize"]
    for number, symbol in enumerate(table.iter_symbols()):
        defined = symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_shndx"] != "SHN_UNDEF"
        if defined and raw[number * size + _OTHER_OFFSET] & _ENTRY:
            yield symbol.name


def _caller(function: str) -> str:
    """The entry that ``function`` was compiled for: ``scale`` of ``$scale$_Z6helperf``."""
    return function[1:].partition("$")[0] if function.startswith("$") else function


def _keys(entries: Mapping[str, CodeDigest]) -> dict[str, str]:
    """Key → entry function. Entries of the same name are numbered in the order of their digests, not of the file."""
    keys: dict[str, str] = {}
    by_code = sorted(entries, key=lambda name: (without_module_id(name), entries[name].sha256))
    for key, namesakes in groupby(by_code, key=without_module_id):
        for number, name in enumerate(namesakes, start=1):
            keys[key if number == 1 else f"{key}#{number}"] = name
    return keys
