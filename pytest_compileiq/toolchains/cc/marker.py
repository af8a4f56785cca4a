"""The marker's arguments for gcc, clang and gfortran; ``builder`` and ``fortran`` implement them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pytest_compileiq.toolchains.marker_values import arguments_by_name, frozen

# Every tuned test file imports this module, even in runs that tune nothing, so it must import nothing heavy.
if TYPE_CHECKING:
    from pytest_compileiq.toolchains.base import Builder, Place
    from pytest_compileiq.toolchains.functions import Names, Neighbours


@arguments_by_name
@dataclass(frozen=True, init=False)
class Cc:
    """A kernel in C, or another language that ``compiler`` compiles, built by gcc or clang.

    Args:
        sources: paths relative to the test file.
        flags: the baseline's flags, split as a shell would. Relative ``-I``, ``-L`` and ``-include`` are relative to
            the test file. ``-l…``, ``-L…`` and ``-Wl,…`` only link; options that relax maths only compile, since
            linking with them would set flush-to-zero for the whole process. ``-march=native`` is replaced by the
            processor that it means here.
        compiler: a program on ``PATH``, or a path; ``gcc`` by default. The variable ``CC`` is not read, because an
            artifact belongs to one compiler and the environment must not choose another.
        defines: macro → its value in the baseline, as in ``{"TILE": 16}``. A knob ``"-DTILE="`` of the test's space
            takes its place, and both arms read theirs as ``acf.params["TILE"]``.
        like: a ``compile_commands.json``, or its directory, relative to the test file: each source is compiled as the
            build of the project compiles it, and ``flags``, then none by default, come after. Where the build compiles
            a source in several ways, a text of the command meant stands behind ``#``:
            ``"build/compile_commands.json#lz4_shared"``. The compiler is the command's unless ``compiler`` is given.
        output: a ``"library"`` is loaded with ``ctypes.CDLL``; for an ``"executable"`` the body gets the path.
        functions: what the test stands for, beside the functions that it takes from ``load()``: a name or pattern
            (``"LZ4_*"``, ``"ns::scale<*>"``), or several. A program is one whole, and has none.
        neighbours: what becomes of a candidate that changes the machine code of other functions: it is ``"void"``, or
            with ``"allow"`` it counts, and the artifact and every review list them as not exercised by the test.
    """

    sources: tuple[str, ...]
    flags: str
    compiler: str | None
    defines: Any  # pairs of a macro and its value
    output: Literal["library", "executable"]
    functions: Names
    neighbours: Neighbours
    like: str | None

    def __init__(
        self,
        *sources: str,
        flags: str | None = None,
        compiler: str | None = None,
        defines: Mapping[str, int | float | str] | None = None,
        output: Literal["library", "executable"] = "library",
        functions: Names = (),
        neighbours: Neighbours = "void",
        like: str | None = None,
    ) -> None:
        flags = ("-O2" if like is None else "") if flags is None else flags
        named = {"sources": sources, "functions": functions, "neighbours": neighbours, "output": output, "like": like}
        self.__dict__.update(named, flags=flags, compiler=compiler, defines=frozen({} if defines is None else defines))

    def resolve(self, place: Place) -> Builder:
        from pytest_compileiq.toolchains.cc.builder import resolve  # heavy, and not needed to collect tests

        return resolve(self, place)


@arguments_by_name
@dataclass(frozen=True, init=False)
class Fortran:
    """A kernel in Fortran, built by gfortran into a library that ``load()`` gives as a ``ctypes.CDLL``.

    Args:
        sources: paths relative to the test file; a module stands before the sources that use it.
        flags: the baseline's flags, as of ``Cc``.
        compiler: a program on ``PATH``, or a path.
        functions: what the test stands for, as of ``Cc``; a procedure of a module is ``module::procedure``.
        neighbours: as of ``Cc``.
    """

    sources: tuple[str, ...]
    flags: str
    compiler: str
    functions: Names
    neighbours: Neighbours

    def __init__(
        self,
        *sources: str,
        flags: str = "-O2",
        compiler: str = "gfortran",
        functions: Names = (),
        neighbours: Neighbours = "void",
    ) -> None:
        named = {"sources": sources, "functions": functions, "neighbours": neighbours}
        self.__dict__.update(named, flags=flags, compiler=compiler)

    def resolve(self, place: Place) -> Builder:
        from pytest_compileiq.toolchains.cc.fortran import resolve  # heavy, and not needed to collect tests

        return resolve(self, place)
