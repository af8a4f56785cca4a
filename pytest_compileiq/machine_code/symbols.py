"""What a linked ELF file defines, what it expects others to define, functions and data alike, and which others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Symbol, SymbolTableSection

from pytest_compileiq.errors import BuildError

_CODE_OR_DATA = {"STT_FUNC", "STT_OBJECT", "STT_NOTYPE", "STT_GNU_IFUNC", "STT_TLS", "STT_COMMON"}
_OF_THE_LINKER = {"_GLOBAL_OFFSET_TABLE_", "_DYNAMIC", "__dso_handle", "__bss_start", "_edata", "_end"}
_SYMBOL_TABLES = (".dynsym", ".symtab")


def defined_symbols(path: Path) -> set[str]:
    """Hidden ones too, as far as the file was not stripped of them.

    Raises:
        BuildError: it is not an ELF file that can be read.
    """
    return {symbol.name for symbol in _symbols(path, *_SYMBOL_TABLES) if symbol["st_shndx"] != "SHN_UNDEF"}


def undefined_symbols(path: Path) -> set[str]:
    """Those that an object needs from elsewhere.

    Raises:
        BuildError: it is not an ELF file that can be read.
    """
    return {
        symbol.name
        for symbol in _symbols(path, ".symtab")
        if symbol["st_shndx"] == "SHN_UNDEF" and symbol["st_info"]["bind"] == "STB_GLOBAL"
    } - _OF_THE_LINKER


def needed_libraries(path: Path) -> list[str]:
    """The names of the libraries that it was linked with: ``libm.so.6``.

    Raises:
        BuildError: it is not an ELF file that can be read.
    """
    try:
        with path.open("rb") as stream:
            dynamic = ELFFile(stream).get_section_by_name(".dynamic")
            if not isinstance(dynamic, DynamicSection):
                return []
            return [tag.needed for tag in dynamic.iter_tags("DT_NEEDED")]  # type: ignore[attr-defined]
    except (OSError, ELFError) as error:
        raise BuildError(f"{path}: not an ELF file that can be read: {error}", kind="compile") from error


def _symbols(path: Path, *tables: str) -> Iterator[Symbol]:
    try:
        with path.open("rb") as stream:
            elf = ELFFile(stream)
            for section in map(elf.get_section_by_name, tables):
                if isinstance(section, SymbolTableSection):
                    yield from (
                        symbol
                        for symbol in section.iter_symbols()
                        if symbol.name and symbol["st_info"]["type"] in _CODE_OR_DATA
                    )
    except (OSError, ELFError) as error:
        raise BuildError(f"{path}: not an ELF file that can be read: {error}", kind="compile") from error


_OWN_FILE = "crtstuff.c"  # the compiler's own, whose variables each library holds
_WRITTEN_BY_THE_LINKER = (".data.rel.ro", ".dynamic", ".got", ".init_array", ".fini_array", ".tm_clone_table")


def mutable_variables(library: Path) -> list[str]:
    """The variables that the code of ``library`` may change, static and of threads too, sorted.

    Raises:
        BuildError: it is not an ELF file, or says nothing of its variables.
    """
    try:
        with library.open("rb") as stream:
            elf = ELFFile(stream)
            table = elf.get_section_by_name(".symtab")
            if not isinstance(table, SymbolTableSection):
                raise BuildError(f"{library} is stripped, so its variables are not known: leave -s out", kind="compile")
            writable = {
                number
                for number, section in enumerate(elf.iter_sections())
                if section["sh_flags"] & SH_FLAGS.SHF_WRITE and not section.name.startswith(_WRITTEN_BY_THE_LINKER)
            }
            names, file = set(), ""
            for symbol in table.iter_symbols():
                kind, is_local = symbol["st_info"]["type"], symbol["st_info"]["bind"] == "STB_LOCAL"
                if kind == "STT_FILE":
                    file = symbol.name
                is_variable = kind in ("STT_OBJECT", "STT_TLS", "STT_COMMON") and symbol["st_size"]
                if is_variable and symbol["st_shndx"] in writable and not (is_local and file == _OWN_FILE):
                    names.add(symbol.name)
            return sorted(names)
    except (OSError, ELFError) as error:
        raise BuildError(f"{library}: not an ELF file that can be read: {error}", kind="compile") from error
