"""What a library's debug information (DWARF) says of a function: which source it is of, and how that was compiled."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any

_GNU = re.compile(r"GNU (?P<language>C|C\+\+)\d* .*?(?: (?P<options>-.*))?")  # vendors add a date and their name
# What Cc gives itself, what chooses no code, and what gcc records although nobody asked for it.
_LEFT_OUT = re.compile(
    r"-g\w*|-f(?:PIC|pic|PIE|pie)|-fno-gnu-unique|-frandom-seed=.*|-f\w+-prefix-map=.*"
    r"|-mtune=generic|-fasynchronous-unwind-tables"
)
_SYSTEM = ("/usr/include", "/usr/lib/")  # what every compiler finds by itself


@dataclass(frozen=True)
class BuiltFrom:
    """A function's source, and the options of gcc that its code depends on, as a command line has them.

    Attributes:
        compiler: ``gcc`` or ``g++``; None where another compiler built it, which does not tell its options.
        directory: where the compiler ran.
        include_directories: where headers of its code are, those of the system left out, and what lies above them. What
            ``-I`` said is not recorded.
    """

    source: Path
    compiler: str | None
    flags: str
    directory: Path
    include_directories: tuple[Path, ...]


def built_from(library: Path, symbol: str) -> BuiltFrom | None:
    """What a function or variable of ``library`` was built from; None where no debug information tells."""
    from elftools.common.exceptions import DWARFError, ELFError  # heavy

    try:
        elf, debug = _opened(library, library.stat().st_mtime_ns)
        address = _address(elf, symbol)
        if address is None or debug is None:
            return None
        unit = _unit_at(debug, address) or _unit_with(debug, symbol)
        return None if unit is None else _told(unit.get_top_DIE(), debug.line_program_for_CU(unit))
    except (OSError, ELFError, DWARFError, ValueError, KeyError, UnicodeDecodeError):
        return None


@lru_cache(maxsize=1)  # of hundreds of questions on one library
def _opened(library: Path, _changed_ns: int) -> tuple[Any, Any]:
    """The file and its debug information, or None."""
    from elftools.elf.elffile import ELFFile

    elf = ELFFile(BytesIO(library.read_bytes()))
    return elf, elf.get_dwarf_info() if elf.has_dwarf_info() else None


def _address(elf: Any, symbol: str) -> int | None:
    for section in (".dynsym", ".symtab"):
        symbols = elf.get_section_by_name(section)
        for found in (symbols.get_symbol_by_name(symbol) if symbols else None) or ():
            if found["st_shndx"] != "SHN_UNDEF":
                return int(found["st_value"])
    return None


def _unit_at(debug: Any, address: int) -> Any:
    ranges = debug.get_aranges()
    offset = ranges.cu_offset_at_addr(address) if ranges else None
    return None if offset is None else debug.get_CU_at(offset)


def _unit_with(debug: Any, variable: str) -> Any:
    """The unit that defines a variable, of which no table of addresses tells."""
    for unit in debug.iter_CUs():
        for entry in unit.get_top_DIE().iter_children():
            if entry.tag == "DW_TAG_variable" and "DW_AT_location" in entry.attributes:
                specified = "DW_AT_specification" in entry.attributes
                named = entry.get_DIE_from_attribute("DW_AT_specification") if specified else entry
                name = named.attributes.get("DW_AT_name")
                if name is not None and name.value == variable.encode():
                    return unit
    return None


def _told(unit: Any, lines: Any) -> BuiltFrom:
    name, directory, producer = (
        unit.attributes[key].value.decode() if key in unit.attributes else ""
        for key in ("DW_AT_name", "DW_AT_comp_dir", "DW_AT_producer")
    )
    source = Path(directory, name)
    gnu = _GNU.fullmatch(producer)
    headers = tuple(_include_directories(lines, Path(directory)))
    if gnu is None:
        return BuiltFrom(source, None, "", Path(directory), headers)
    options = [option for option in (gnu["options"] or "").split() if not _LEFT_OUT.fullmatch(option)]
    compiler = "g++" if gnu["language"] == "C++" else "gcc"
    return BuiltFrom(source, compiler, " ".join(options), Path(directory), headers)


def _include_directories(lines: Any, directory: Path) -> Iterator[Path]:
    """Where the headers of a unit are, and what lies above them, as far as that belongs to the project."""
    named = (directory / os.fsdecode(each) for each in (lines["include_directory"] if lines else ()))
    existing = [path for path in (Path(os.path.normpath(each)) for each in named) if path.is_dir()]
    own = [path for path in existing if not str(path).startswith(_SYSTEM)]
    root = os.path.commonpath([directory, *own]) if own else ""
    above = (parent for path in own for parent in path.parents if parent.is_relative_to(root))
    yield from dict.fromkeys([*own, *above])
