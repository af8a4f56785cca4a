"""Symbols of linked ELF files, functions and data alike: defined here, or expected of other libraries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Symbol, SymbolTableSection

from pytest_compileiq.errors import BuildError

FUNCTION_TYPES = frozenset({"STT_FUNC", "STT_LOOS"})  # STT_LOOS is GNU's indirect function
_CODE_OR_DATA = {"STT_FUNC", "STT_OBJECT", "STT_NOTYPE", "STT_GNU_IFUNC", "STT_TLS", "STT_COMMON"}
_OF_THE_LINKER = {"_GLOBAL_OFFSET_TABLE_", "_DYNAMIC", "__dso_handle", "__bss_start", "_edata", "_end"}
_COMPILERS_OWN_FILE = "crtstuff.c"  # whose variables each library holds
_WRITTEN_BY_THE_LINKER = (".data.rel.ro", ".dynamic", ".got", ".init_array", ".fini_array", ".tm_clone_table")


@contextmanager
def opened(path: Path) -> Iterator[ELFFile]:
    """Open an ELF file; all functions here raise as this does.

    Raises:
        BuildError: it is not an ELF file that can be read.
    """
    try:
        with path.open("rb") as stream:
            yield ELFFile(stream)
    except (OSError, ELFError) as error:
        raise BuildError(f"{path}: not an ELF file that can be read: {error}", kind="compile") from error


def defined_symbols(path: Path, *, local: bool = True) -> set[str]:
    """List the symbols that a file defines, hidden ones too, as far as it was not stripped of them."""
    with opened(path) as elf:
        symbols = [*_symbols(elf, ".dynsym"), *_symbols(elf, ".symtab")]
        kept = (symbol for symbol in symbols if local or symbol["st_info"]["bind"] != "STB_LOCAL")
        return {symbol.name for symbol in kept if symbol["st_shndx"] != "SHN_UNDEF"}


def undefined_symbols(path: Path) -> set[str]:
    """List the symbols that an object needs from elsewhere."""
    with opened(path) as elf:
        return {
            symbol.name
            for symbol in _symbols(elf, ".symtab")
            if symbol["st_shndx"] == "SHN_UNDEF" and symbol["st_info"]["bind"] == "STB_GLOBAL"
        } - _OF_THE_LINKER


def _symbols(elf: ELFFile, table: str) -> list[Symbol]:
    section = elf.get_section_by_name(table)
    symbols = section.iter_symbols() if isinstance(section, SymbolTableSection) else ()
    return [symbol for symbol in symbols if symbol.name and symbol["st_info"]["type"] in _CODE_OR_DATA]


def defined_functions(path: Path, *, local: bool = False) -> frozenset[str]:
    """List the functions that a file exports; with ``local``, all that it defines."""
    with opened(path) as elf:
        return frozenset(
            symbol.name
            for table in elf.iter_sections()
            if isinstance(table, SymbolTableSection)
            for symbol in table.iter_symbols()
            if symbol["st_info"]["type"] in FUNCTION_TYPES
            and (local or symbol["st_info"]["bind"] != "STB_LOCAL")
            and symbol["st_shndx"] != "SHN_UNDEF"
        )


def global_variables(objects: Iterable[Path]) -> set[str]:
    """List the variables that objects define for everybody, without the tables that C++ makes of its classes."""
    names = set[str]()
    for path in objects:
        with opened(path) as elf:
            names |= {
                symbol.name
                for symbol in _symbols(elf, ".symtab")
                if symbol["st_info"]["type"] in ("STT_OBJECT", "STT_COMMON")
                and (symbol["st_info"]["bind"], symbol["st_other"]["visibility"]) == ("STB_GLOBAL", "STV_DEFAULT")
                and symbol["st_shndx"] != "SHN_UNDEF"
                and not symbol.name.startswith("_ZT")
            }
    return names


def needed_libraries(path: Path) -> list[str]:
    """List the libraries that a file was linked with: ``libm.so.6``."""
    with opened(path) as elf:
        dynamic = elf.get_section_by_name(".dynamic")
        tags = dynamic.iter_tags("DT_NEEDED") if isinstance(dynamic, DynamicSection) else ()
        return [tag.needed for tag in tags]  # type: ignore[attr-defined]


def mutable_variables(library: Path) -> list[str]:
    """List the variables that the code of ``library`` may change, static and of threads too, sorted.

    Raises:
        BuildError: it is stripped, or as ``opened``.
    """
    with opened(library) as elf:
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
            if is_variable and symbol["st_shndx"] in writable and not (is_local and file == _COMPILERS_OWN_FILE):
                names.add(symbol.name)
        return sorted(names)
