"""What a shared library may keep from one call to the next: its variables that are not constant."""

from __future__ import annotations

from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from pytest_compileiq.errors import BuildError

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
