"""One cubin taken apart: sections, symbols, relocations, and the edges of its call graph."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import Section, Symbol, SymbolTableSection

from pytest_compileiq.machine_code.parts import without_module_id

INFO = ".nv.info"  # and .nv.info.FUNCTION
_SIZED_VALUE = 0x04


class Attribute(IntEnum):
    """EIATTR codes of records in ``.nv.info``."""

    CONSTANTS = 0x0A  # the payload begins with the number of the symbol of the function's own constant bank
    EXTERNS = 0x0F  # the numbers of the symbols that the function calls outside the file
    FRAME_SIZE = 0x11
    MIN_STACK_SIZE = 0x12
    ASKED_REGISTERS = 0x1B  # the limit that was asked for; the register count says what each function uses
    MAX_STACK_SIZE = 0x23
    REGISTER_COUNT = 0x2F
    VERSION = 0x37  # of the toolkit
    BARRIERS = 0x4C
    PRE_EXIT = 0x6D  # PREEXIT_USED, which 13.4 adds and says of code what the code says


# Their payload begins with the number of the function that they describe.
_OF_A_FUNCTION = frozenset(
    {Attribute.FRAME_SIZE, Attribute.MIN_STACK_SIZE, Attribute.MAX_STACK_SIZE, Attribute.REGISTER_COUNT}
)


class Record(NamedTuple):
    """One attribute. ``value`` is that of a record without payload."""

    form: int
    code: int
    value: int
    payload: bytes

    @property
    def is_of_a_function(self) -> bool:
        return self.code in _OF_A_FUNCTION and len(self.payload) >= 4

    @property
    def head(self) -> bytes:
        return struct.pack("<BBH", self.form, self.code, self.value)


def caller_of(function: str) -> str:
    """The entry that ``function`` was compiled for: ``scale`` of ``$scale$_Z6helperf``."""
    return function[1:].partition("$")[0] if function.startswith("$") else function


_ENTRY = 0x10  # STO_CUDA_ENTRY, in st_other
_OTHER_OFFSET = 5  # of st_other in an Elf64_Sym
_ABI_OF_WIDE_FLAGS = 8  # since then e_flags holds the architecture above its low byte, before in it
# Sections that belong to one function carry its name.
_OWNED = re.compile(r"\.(?:text|nv\.constant\d+|nv\.info|nv\.shared|nv\.local)\.(?!reserved)(.+)", re.DOTALL)
_DATA = re.compile(r"\.nv\.(?:constant\d+|global(?:\.init)?)")
# Names that the compiler numbers in the order of the file: texts of printf, unnamed constants.
_NUMBERED = re.compile(r"(?:\$str|__unnamed_)[$\d]*")
_ADDRESS_TAKEN, _CALLS_INDIRECTLY = -2, -3  # what the pairs after such a mark in .nv.callgraph are


class Patch(NamedTuple):
    """One relocation: the number of the symbol whose address is filled in at ``offset``."""

    offset: int
    kind: int
    symbol: int
    addend: int


class Image:
    """The tables of one ELF file.

    Attributes:
        sections: as in the file.
        named: name of a section → its index.
        owners: index of a section → the function that it belongs to.
        data: index → name of the sections that functions share: globals, constants.
        patches: index of a section → its relocations.
    """

    def __init__(self, elf: ELFFile) -> None:
        self.sections: list[Section] = list(elf.iter_sections())
        table = next((section for section in self.sections if isinstance(section, SymbolTableSection)), None)
        self.symbols = list(table.iter_symbols()) if table else []
        self.entries = sorted(_entry_names(table)) if table else []
        matches = ((index, _OWNED.fullmatch(section.name)) for index, section in enumerate(self.sections))
        self.owners = {index: match[1] for index, match in matches if match}
        self.named = {section.name: index for index, section in enumerate(self.sections)}
        self.data = {index: name for name, index in self.named.items() if _DATA.fullmatch(name)}
        self.patches: dict[int, list[Patch]] = {}
        for section in self.sections:
            if isinstance(section, RelocationSection):
                self.patches.setdefault(section["sh_info"], []).extend(_patches(section))
        self.is_relocatable = elf.header["e_type"] == "ET_REL"
        flags = elf.header["e_flags"]
        is_wide = elf.header["e_ident"]["EI_ABIVERSION"] >= _ABI_OF_WIDE_FLAGS
        self.architecture: int = (flags >> 8 if is_wide else flags) & 0xFF

    def section(self, name: str) -> Section | None:
        index = self.named.get(name)
        return None if index is None else self.sections[index]

    def header(self, index: int) -> bytes:
        """Name, alignment and size of a section."""
        section = self.sections[index]
        return f"{without_module_id(section.name)} {section['sh_addralign']} {section['sh_size']}".encode()

    def content(self, index: int) -> bytes:
        """The bytes of a section; of one that holds none in the file, as many zeros as it takes in memory are meant."""
        section = self.sections[index]
        return b"" if section["sh_type"] == "SHT_NOBITS" else bytes(section.data())

    def records(self) -> Iterator[tuple[str, Record]]:
        """The attributes that kernels are launched by, each with the function whose section it is in, or ""."""
        for index, section in enumerate(self.sections):
            if section.name != INFO and not section.name.startswith(f"{INFO}."):
                continue
            data, at = section.data(), 0
            while at + 4 <= len(data):
                form, code, value = struct.unpack_from("<BBH", data, at)
                at += 4
                payload = b""
                if form == _SIZED_VALUE:
                    payload, at, value = data[at : at + value], at + value, 0
                yield self.owners.get(index, ""), Record(form, code, value, payload)

    def symbol(self, payload: bytes) -> str:
        """The name of the symbol whose number ``payload`` begins with; empty for one that there is not."""
        (number,) = struct.unpack_from("<I", payload)
        return self.symbols[number].name if number < len(self.symbols) else ""

    def stable_name(self, symbol: Symbol) -> str:
        """The name of a symbol, or of the section that it stands for; empty for one that the compiler numbered."""
        name = symbol.name
        if symbol["st_info"]["type"] == "STT_SECTION" and not name:
            name = self.sections[symbol["st_shndx"]].name
        return "" if _NUMBERED.fullmatch(name) else without_module_id(name)

    @cached_property
    def calls(self) -> dict[str, set[str]]:
        """Function → those that it may call, by ``.nv.callgraph``; an indirect call, any whose address is taken."""
        edges: dict[str, set[str]] = {}
        taken, indirect = set(), set()
        section, mark = self.section(".nv.callgraph"), 0
        for caller, callee in struct.iter_unpack("<Ii", section.data()) if section else ():
            if caller == 0:
                mark = callee
            elif mark == _ADDRESS_TAKEN:
                taken.add(self.symbols[caller].name)
            elif mark == _CALLS_INDIRECTLY:
                indirect.add(self.symbols[caller].name)
            else:
                edges.setdefault(self.symbols[caller].name, set()).add(self.symbols[callee].name)
        for caller in indirect:
            edges.setdefault(caller, set()).update(taken)
        return edges


def _patches(section: RelocationSection) -> Iterator[Patch]:
    for entry in section.iter_relocations():
        addend = entry["r_addend"] if entry.is_RELA() else 0
        yield Patch(entry["r_offset"], entry["r_info_type"], entry["r_info_sym"], addend)


def _entry_names(table: SymbolTableSection) -> Iterator[str]:
    """Functions that can be launched. ``st_other`` is read raw, since pyelftools drops the bit that marks them."""
    raw, size = table.data(), table["sh_entsize"]
    for number, symbol in enumerate(table.iter_symbols()):
        defined = symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_shndx"] != "SHN_UNDEF"
        if defined and raw[number * size + _OTHER_OFFSET] & _ENTRY:
            yield symbol.name
