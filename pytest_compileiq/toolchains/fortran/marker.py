"""The marker's words for gfortran; what they do is in ``pytest_compileiq.toolchains.fortran.builder``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_compileiq.toolchains.marker_values import arguments_by_name

# Every tuned test file imports this module, in runs that tune nothing too: it must cost nothing.
if TYPE_CHECKING:
    from pytest_compileiq.toolchains.base import Builder, Place
    from pytest_compileiq.toolchains.functions import Names, Neighbours


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
        object.__setattr__(self, "sources", sources)
        object.__setattr__(self, "flags", flags)
        object.__setattr__(self, "compiler", compiler)
        object.__setattr__(self, "functions", functions)
        object.__setattr__(self, "neighbours", neighbours)

    def resolve(self, place: Place) -> Builder:
        """Find the compiler and fix everything that depends on this host.

        Raises:
            EnvironmentFault: the compiler is not installed or does not answer.
            MarkerError: a source is missing or a flag cannot be used.
        """
        from pytest_compileiq.toolchains.fortran.builder import resolve  # heavy, and collecting does without

        return resolve(self, place)
