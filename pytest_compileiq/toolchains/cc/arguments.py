"""What ``Cc`` may be given."""

from __future__ import annotations

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.toolchains.cc.marker import Cc
from pytest_compileiq.toolchains.functions import FunctionSelection


def check_arguments(cc: Cc) -> None:
    """Refuse arguments of the wrong kind.

    Raises:
        MarkerError: with what was expected.
    """
    if not cc.sources or not all(isinstance(source, str) and source for source in cc.sources):
        given = ", ".join(map(repr, cc.sources))
        raise MarkerError(f"Cc({given}): expected one or more sources, each a path, as in Cc('kernel.c', 'table.c')")
    if not isinstance(cc.flags, str):
        raise MarkerError(f"Cc(flags={cc.flags!r}): expected one string, as in flags='-O3 -march=native'")
    if cc.like is not None and (not isinstance(cc.like, str) or not cc.like):
        raise MarkerError(f"Cc(like={cc.like!r}): expected a path, as in like='build/compile_commands.json'")
    if cc.compiler is not None and (not isinstance(cc.compiler, str) or not cc.compiler):
        raise MarkerError(f"Cc(compiler={cc.compiler!r}): expected a program or a path, as in compiler='clang'")
    if cc.output not in ("library", "executable"):
        raise MarkerError(f"Cc(output={cc.output!r}): expected 'library' or 'executable'")


def functions_named(cc: Cc) -> FunctionSelection:
    """What ``functions=`` and ``neighbours=`` say.

    Raises:
        MarkerError: they are not usable, or say nothing about a program.
    """
    functions = FunctionSelection.of("Cc", cc.functions, cc.neighbours)
    if functions.are_given and cc.output == "executable":
        raise MarkerError(
            "Cc(output='executable'): a program is measured and compared as one whole, so functions= and neighbours= "
            "say nothing about it: leave them out, or tune the function in a library"
        )
    return functions
