"""Objects of a product, loaded as they are: linked behind a table of addresses, with every other symbol local.

A library's own functions may be replaced at load time, so that code for one (``-fPIC``) is other code than a program's
or a static library's. Where nothing but a table of addresses is exported, none can be replaced, and what was compiled
for a position-independent executable, which is what compilers make by default, links into a library too. The linker
decides: ``-z text`` has it refuse whatever would have to be changed as it is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from pytest_compileiq.errors import BuildError
from pytest_compileiq.machine_code.names import readable
from pytest_compileiq.machine_code.symbols import global_variables
from pytest_compileiq.toolchains.cc.compiler import is_cplusplus
from pytest_compileiq.toolchains.steps import Commands, ask

TABLE = "acf_addresses"
_POSITION = re.compile(r"-f(?:no-)?(?:PIC|pic|PIE|pie)|-m(?:no-)?direct-extern-access|-fno-direct-access-external-data")
# In the words of ld, gold and lld.
_REFUSED = re.compile(r"\b(R_\w+)(?:[^;\n]*? against (?:\w+ )*[`']([^'\n]+)')?[^;\n]*; recompile with -fPIC")
_PATCHED = "read-only segment has dynamic relocations"  # what ld says where it names none
_WHOLLY = ("-fPIC", "-fno-semantic-interposition")  # thread-locals of its own, too
_TOLD = "production's objects cannot be loaded as they are"


def changes(compiler: str, commands: Mapping[str, Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    """The words that may let production's objects be loaded, the least change first; ``()`` for none.

    Code that is bound to one address gets some without a try: the linker would refuse most of its candidates.
    """
    position = {
        _position(program, tuple(words), "c++" if is_cplusplus(source) else "c")
        for source, (program, *words) in commands.items()
    }
    if position == {"PIC"}:
        return ((),)
    # Data of other libraries is reached where it is, and not where a program would have a copy of it.
    elsewhere = "-fno-direct-access-external-data" if compiler == "clang" else "-mno-direct-extern-access"
    if "" in position:
        return (("-fPIE", elsewhere), _WHOLLY)
    return ((), (elsewhere,), _WHOLLY)


@lru_cache(maxsize=64)
def _position(program: str, words: tuple[str, ...], language: str) -> str:
    """``PIC``, ``PIE`` or, of code that is bound to one address, nothing."""
    chosen = [word for word in words if _POSITION.fullmatch(word) or word.startswith("-m")]
    macros = ask([program, *chosen, "-dM", "-E", "-x", language, "/dev/null"]).output
    said = set(re.findall(r"^#define __(PI[EC])__ ", macros, re.MULTILINE))
    return min(said - {"PIC"}, default=max(said, default=""))


def table_of(
    commands: Commands, program: str, functions: Sequence[str], objects: Sequence[Path]
) -> tuple[list[Path], tuple[str, ...]]:
    """The object that holds the addresses of ``functions`` in their order, and the words that link it to ``objects``.

    Global variables go by their names, as ``ctypes.c_int.in_dll`` takes them; the objects' own code is bound to them.
    """
    source, script = commands.out_dir / "addresses.s", commands.out_dir / "addresses.map"
    words = ['.section .note.GNU-stack,"",%progbits', '.section .data.rel.ro,"aw"', ".balign 8", f".globl {TABLE}"]
    words += [f"{TABLE}:", *(f'.quad "{name}"' for name in functions)]
    source.write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    exported = "".join(f' "{name}";' for name in (TABLE, *sorted(global_variables(objects))))
    script.write_text(f"{{ global:{exported} local: *; }};\n", encoding="utf-8")
    made = commands.out_dir / "addresses.object"
    commands.run([program, "-c", str(source), "-o", str(made)], "the table of addresses")
    return [made], (f"-Wl,--version-script={script}", "-Wl,-Bsymbolic", "-Wl,-z,text")


def explained(error: BuildError, added: Sequence[str]) -> BuildError:
    """The linker's refusal in words, where it refuses to load objects with ``added`` to production's command."""
    refused = _REFUSED.search(error.log)
    if refused is None and _PATCHED not in error.log:
        return error
    kind, symbol = refused.groups() if refused else (_PATCHED, None)
    why = f"{kind} against {readable(symbol.partition('@')[0])}" if symbol else kind
    beside = f", nor with {' '.join(added)}" if added else ""
    remedy = "compile what is linked besides, such as an archive, with -fPIC, or name its sources"
    return BuildError(f"{_TOLD}{beside} ({why}): {remedy}", kind=error.kind, log=error.log, refused=why)
