"""Reads the output of a command's steps: as machine code if possible, else as bytes."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from pytest_compileiq.errors import BuildError
from pytest_compileiq.model import CodeDigest, sha256_hex
from pytest_compileiq.toolchains.machine_code.elf import MachineCode, machine_code

WHOLE = "output"
Output = Literal["library", "executable", "file"]

# The C runtime's own functions, which every link adds. Missing one here makes replay stricter, never wrong.
_STARTUP = frozenset(
    {"_init", "_fini", "_start", "frame_dummy", "register_tm_clones", "deregister_tm_clones", "__do_global_dtors_aux",
     "_dl_relocate_static_pie", "__libc_csu_init", "__libc_csu_fini"}
)  # fmt: skip


def code_of(path: Path, output: Output, pattern: str) -> MachineCode:
    """The machine code of ``path``, read from the objects beside it whose names match ``pattern``.

    A file is its own object. An executable is the single entry ``main``. Output whose functions are not all in readable
    objects is the single entry ``WHOLE``, with the digest and the number of its bytes.

    Raises:
        BuildError: a library exports no function, or an object is damaged.
    """
    objects = [path] if output == "file" else _matching(path.parent, pattern)
    if not objects or not all(map(_is_object, objects)) or not _is_wholly_of(path, objects):
        data = path.read_bytes()
        whole = CodeDigest(sha256_hex(data), {"code_bytes": len(data)})
        return MachineCode({WHOLE: whole}, whole)
    code = machine_code(objects)
    if output == "library" and not code.entries:
        names = ", ".join(file.name for file in objects)
        raise BuildError(f"{names}: exports no function; a kernel is neither static nor hidden", kind="compile")
    if output == "executable":
        return MachineCode({"main": code.program}, code.program)
    return code if code.entries else MachineCode({WHOLE: code.program}, code.program)


def _matching(out_dir: Path, pattern: str) -> list[Path]:
    return sorted(path for path in out_dir.iterdir() if path.is_file() and fnmatch(path.name, pattern))


def _is_object(path: Path) -> bool:
    """Whether the file is ELF and not linked yet."""
    try:
        with path.open("rb") as stream:
            return bool(ELFFile(stream)["e_type"] == "ET_REL")
    except ELFError:
        return False


def _is_wholly_of(path: Path, objects: Sequence[Path]) -> bool:
    """Whether every function of ``path`` is in ``objects``: no digest would cover what the link adds from elsewhere."""
    try:
        known = _STARTUP.union(*(_functions(file) for file in objects))
        return _functions(path) <= known
    except ELFError:
        return False


def _functions(path: Path) -> frozenset[str]:
    with path.open("rb") as stream:
        tables = [section for section in ELFFile(stream).iter_sections() if isinstance(section, SymbolTableSection)]
        return frozenset(
            symbol.name
            for table in tables
            for symbol in table.iter_symbols()
            if symbol["st_info"]["type"] in ("STT_FUNC", "STT_LOOS") and symbol["st_shndx"] != "SHN_UNDEF"
        )
