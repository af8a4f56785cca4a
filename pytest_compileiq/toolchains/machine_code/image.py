"""One cubin taken apart: sections, symbols, relocations, and the edges of its call graph."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import Section, Symbol, SymbolTableSection

from pytest_compileiq.toolchains.machine_code.launch_records import INFO, Record, read_records
from pytest_compileiq.toolchains.nvidia.module_id import without_module_id

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

    def content(self, index: int) -> bytes:
        """The bytes of a section; of one that holds none in the file, as many zeros as it takes in memory are meant."""
        section = self.sections[index]
        return b"" if section["sh_type"] == "SHT_NOBITS" else bytes(section.data())

    def records(self) -> Iterator[tuple[str, Record]]:
        """The attributes that kernels are launched by, each with the function whose section it is in, or ""."""
        for index, section in enumerate(self.sections):
            if section.name == INFO or section.name.startswith(f"{INFO}."):
                for record in read_records(section.data()):
                    yield self.owners.get(index, ""), record

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
        section = next((section for section in self.sections if section.name == ".nv.callgraph"), None)
        mark = 0
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
