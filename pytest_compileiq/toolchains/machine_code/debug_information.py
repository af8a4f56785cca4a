"""What a library's debug information (DWARF) says of a function: which source it is of, and how that was compiled."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_GNU = re.compile(r"GNU (?P<language>C|C\+\+)\d* \S+ ?(?P<options>.*)")
# What Cc gives itself, what chooses no code, and what gcc records although nobody asked for it.
_LEFT_OUT = re.compile(
    r"-g\w*|-f(?:PIC|pic|PIE|pie)|-fno-gnu-unique|-frandom-seed=.*|-f\w+-prefix-map=.*"
    r"|-mtune=generic|-fasynchronous-unwind-tables"
)


@dataclass(frozen=True)
class BuiltFrom:
    """A function's source, and the options of gcc that its code depends on, as a command line has them.

    Attributes:
        compiler: ``gcc`` or ``g++``; None where another compiler built it, which does not tell its options.
    """

    source: Path
    compiler: str | None
    flags: str


def built_from(library: Path, function: str) -> BuiltFrom | None:
    """What a function of ``library`` was built from; None where no debug information tells."""
    from elftools.common.exceptions import DWARFError, ELFError
    from elftools.elf.elffile import ELFFile  # heavy

    try:
        with library.open("rb") as stream:
            elf = ELFFile(stream)
            address = _address(elf, function)
            unit = None if address is None or not elf.has_dwarf_info() else _unit_at(elf.get_dwarf_info(), address)
            return None if unit is None else _told(unit.get_top_DIE())
    except (OSError, ELFError, DWARFError, ValueError, KeyError, UnicodeDecodeError):
        return None


def _address(elf: Any, function: str) -> int | None:
    for section in (".dynsym", ".symtab"):
        symbols = elf.get_section_by_name(section)
        for symbol in (symbols.get_symbol_by_name(function) if symbols else None) or ():
            if symbol["st_shndx"] != "SHN_UNDEF":
                return int(symbol["st_value"])
    return None


def _unit_at(debug: Any, address: int) -> Any:
    ranges = debug.get_aranges()
    offset = ranges.cu_offset_at_addr(address) if ranges else None
    return None if offset is None else debug.get_CU_at(offset)


def _told(unit: Any) -> BuiltFrom:
    name, directory, producer = (
        unit.attributes[key].value.decode() if key in unit.attributes else ""
        for key in ("DW_AT_name", "DW_AT_comp_dir", "DW_AT_producer")
    )
    source = Path(directory, name)
    gnu = _GNU.match(producer)
    if gnu is None:
        return BuiltFrom(source, None, "")
    options = [option for option in gnu["options"].split() if not _LEFT_OUT.fullmatch(option)]
    return BuiltFrom(source, "g++" if gnu["language"] == "C++" else "gcc", " ".join(options))
