"""The marker's arguments for ptxas; ``pytest_compileiq.toolchains.nvidia.ptxas_builder`` implements them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_compileiq.toolchains.marker_values import arguments_by_name

# Every tuned test file imports this module, even in runs that tune nothing, so it must import nothing heavy.
if TYPE_CHECKING:
    from pytest_compileiq.toolchains.base import Builder, Place
    from pytest_compileiq.toolchains.functions import Names, Neighbours


@arguments_by_name
@dataclass(frozen=True)
class Ptxas:
    """A kernel in PTX, assembled by ptxas to a cubin.

    Args:
        source: the PTX file, relative to the test file.
        arch: the architecture to assemble for, e.g. ``"sm_90a"``; any that ptxas knows, whatever this machine has.
        flags: the baseline's flags, split as a shell would.
        compiler: a ``ptxas`` on ``PATH``, or a path relative to the test file. By default that of the ``cuda`` extra,
            else that of ``CUDA_HOME`` or ``CUDA_PATH``, else the first on ``PATH``.
        functions: the kernels that the test stands for, beside those that it takes from ``load()``: a name or pattern
            (``"scale"``, ``"reduce<float, *>"``), or several.
        neighbours: what becomes of a candidate that changes the machine code of other kernels: it is ``"void"``, or
            with ``"allow"`` it counts, and the artifact and every review list them as not exercised by the test.
    """

    source: str
    arch: str
    flags: str = ""
    compiler: str | None = None
    functions: Names = ()
    neighbours: Neighbours = "void"

    def resolve(self, place: Place) -> Builder:
        """Find ptxas and the source.

        Raises:
            EnvironmentFault: there is no ptxas.
            MarkerError: the source is missing, or the architecture or a flag cannot be used.
        """
        from pytest_compileiq.toolchains.nvidia.ptxas_builder import resolve  # heavy, and not needed to collect tests

        return resolve(self, place)
