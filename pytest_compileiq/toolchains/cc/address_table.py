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
from pytest_compileiq.spelling import first_of
from pytest_compileiq.toolchains.cc.compiler import is_cplusplus
from pytest_compileiq.toolchains.steps import Commands, ask

TABLE = "acf_addresses"
_POSITION = re.compile(r"-f(?:no-)?(?:PIC|pic|PIE|pie)|-m(?:no-)?direct-extern-access|-fno-direct-access-external-data")
_REFUSED = re.compile(r"relocation (?P<kind>R_\w+)(?: against (?P<against>[^;\n]+?))? can ?not be used")
_OF_THREADS = "TPOFF"
_WHOLLY = "-fPIC -fno-semantic-interposition"


def change_of(compiler: str, commands: Mapping[str, Sequence[str]]) -> tuple[tuple[str, ...], str]:
    """The words that let code be loaded which is bound to one address, and a sentence about them."""
    bound = [
        source
        for source, (program, *words) in commands.items()
        if not _is_for_any_place(program, tuple(words), "c++" if is_cplusplus(source) else "c")
    ]
    if not bound:
        return (), ""
    added = ("-fPIE", _elsewhere(compiler))
    which = ", ".join(first_of(bound))
    return added, f"{which}: compiled with {' '.join(added)} besides, since production's code is bound to one address"


def _elsewhere(compiler: str) -> str:
    """The option that reaches data of other libraries where they are, and not where a program would have a copy."""
    return "-fno-direct-access-external-data" if compiler == "clang" else "-mno-direct-extern-access"


@lru_cache(maxsize=64)
def _is_for_any_place(program: str, words: tuple[str, ...], language: str) -> bool:
    chosen = [word for word in words if _POSITION.fullmatch(word) or word.startswith("-m")]
    macros = ask([program, *chosen, "-dM", "-E", "-x", language, "/dev/null"]).output
    return re.search(r"^#define __PI[EC]__ ", macros, re.MULTILINE) is not None


def table_of(commands: Commands, program: str, functions: Sequence[str]) -> tuple[list[Path], tuple[str, ...]]:
    """The object that holds the addresses of ``functions`` in their order, and the words that link it."""
    source, script = commands.out_dir / "addresses.s", commands.out_dir / "addresses.map"
    words = ['.section .note.GNU-stack,"",%progbits', '.section .data.rel.ro,"aw"', ".balign 8", f".globl {TABLE}"]
    words += [f"{TABLE}:", *(f'.quad "{name}"' for name in functions)]
    source.write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    script.write_text(f"{{ global: {TABLE}; local: *; }};\n", encoding="ascii")
    made = commands.out_dir / "addresses.object"
    commands.run([program, "-c", str(source), "-o", str(made)], "the table of addresses")
    return [made], (f"-Wl,--version-script={script}", "-Wl,-z,text")


def explained(error: BuildError, compiler: str) -> BuildError:
    """The linker's refusal with what helps, where it refuses to load what code of ``compiler`` refers to."""
    refused = _REFUSED.search(error.log)
    if refused is None:
        return error
    against = f" against {refused['against']}" if refused["against"] else ""
    least = _WHOLLY if _OF_THREADS in refused["kind"] else _elsewhere(compiler)
    what = f"production's objects cannot be loaded as they are ({refused['kind']}{against})"
    return BuildError(f"{what}: give flags='{least}' beside like=, the least change", kind=error.kind, log=error.log)
