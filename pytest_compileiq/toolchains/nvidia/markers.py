"""The markers' arguments for nvcc and ptxas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pytest_compileiq.toolchains.marker_values import arguments_by_name

# Every tuned test file imports this module, even in runs that tune nothing, so it must import nothing heavy.
if TYPE_CHECKING:
    from pytest_compileiq.toolchains.base import Builder, Place
    from pytest_compileiq.toolchains.functions import Names, Neighbours


@arguments_by_name
@dataclass(frozen=True)
class Nvcc:
    """Kernels in CUDA C++, compiled by nvcc.

    nvcc gets a ``-frandom-seed`` derived from the source's path, unless ``flags`` hold one. Without a seed, the private
    names of a file that holds only templates change with every build.

    Args:
        source: the ``.cu`` file, or with ``instantiate`` a header, relative to the test file.
        arch: one architecture or several, e.g. ``"sm_90a"``; controls apply to all of them.
        flags: the baseline's flags, split as a shell would; relative ``-I`` is relative to the test file. ``-O3`` by
            default; with ``like`` none, and what is given comes behind production's.
        defines: macro → its value in the baseline, as in ``{"TILE": 16}``. A knob ``"-DTILE="`` of the test's space
            takes its place, and both arms read theirs as ``acf.params["TILE"]``.
        output: a ``"cubin"`` (for several architectures, a fatbin), a shared ``"library"`` for ``ctypes``, or an
            ``"executable"``, whose path the body gets.
        controls: the compiler that an ACF is for: ``"ptxas"`` works on every architecture, ``"nvcc"`` from sm_100 on.
        compiler: an ``nvcc`` on ``PATH``, or a path relative to the test file. By default that of the ``cuda`` extra,
            else that of ``CUDA_HOME`` or ``CUDA_PATH``, else the first on ``PATH``.
        functions: the kernels that the test stands for, beside those that it takes from ``load()``: a name or pattern
            (``"scale"``, ``"reduce<float, *>"``), or several.
        neighbours: what becomes of a candidate that changes the machine code of other kernels: it is ``"void"``, or
            with ``"allow"`` it counts, and the artifact and every review list them as not exercised by the test.
        instantiate: kernels to instantiate beside those that the source does, for the output ``"cubin"``: what names
            one behind the source's last line, such as ``"reduce<float, 256>"``, where macros may stand too, or
            ``"(void (*)(float *)) scale"``, which chooses an overload. The entry goes by this text.
        like: a ``compile_commands.json`` or its directory, relative to the test file: the source is compiled by the
            nvcc and with the flags of its command there. ``"build#cubins"`` chooses among several commands by a text.
    """

    source: str
    arch: str | Sequence[str]
    flags: str | None = None
    defines: Mapping[str, int | float | str] = field(default_factory=dict)
    output: Literal["cubin", "library", "executable"] = "cubin"
    controls: Literal["ptxas", "nvcc"] = "ptxas"
    compiler: str | None = None
    functions: Names = ()
    neighbours: Neighbours = "void"
    instantiate: Sequence[str] = ()
    like: str | None = None

    def resolve(self, place: Place) -> Builder:
        from pytest_compileiq.toolchains.nvidia.nvcc import resolve  # heavy, and not needed to collect tests

        return resolve(self, place)


@arguments_by_name
@dataclass(frozen=True)
class Ptxas:
    """A kernel in PTX, assembled by ptxas to a cubin.

    Args:
        source: the PTX file, relative to the test file.
        arch: the architecture to assemble for, e.g. ``"sm_90a"``; any that ptxas knows, whatever this machine has.
        flags: the baseline's flags, split as a shell would.
        compiler: a ``ptxas``, found as the ``nvcc`` of ``Nvcc`` is.
        functions: the kernels that the test stands for, as of ``Nvcc``.
        neighbours: what becomes of a candidate that changes the machine code of other kernels, as of ``Nvcc``.
    """

    source: str
    arch: str
    flags: str = ""
    compiler: str | None = None
    functions: Names = ()
    neighbours: Neighbours = "void"

    def resolve(self, place: Place) -> Builder:
        from pytest_compileiq.toolchains.nvidia.ptxas import resolve  # heavy, and not needed to collect tests

        return resolve(self, place)
