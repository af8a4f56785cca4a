"""The marker's words for nvcc; what they do is in ``pytest_compileiq.toolchains.nvidia.nvcc_builder``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

# Every tuned test file imports this module, in runs that tune nothing too: it must cost nothing.
if TYPE_CHECKING:
    from pytest_compileiq.toolchains.base import Builder, Place


@dataclass(frozen=True)
class Nvcc:
    """Kernels in CUDA C++, compiled by nvcc.

    It is given a ``-frandom-seed`` of the source's path, unless ``flags`` hold one: without, what is private to a file
    of nothing but templates has another name each time.

    Args:
        source: the ``.cu`` file, relative to the test file.
        arch: an architecture, or several, e.g. ``"sm_90a"``; controls reach every one of them.
        flags: the baseline's flags, split as a shell would; relative ``-I`` is relative to the test file.
        output: a ``"cubin"`` (several architectures: a fatbin), a shared ``"library"`` for ``ctypes``, or an
            ``"executable"``, of which the path is given.
        controls: which compiler an ACF is for: ``"ptxas"`` works on every architecture, ``"nvcc"`` from sm_100 on.
        compiler: an ``nvcc`` on ``PATH``, or a path relative to the test file. By default the one of the ``cuda``
            extra, else of ``CUDA_HOME`` or ``CUDA_PATH``, else the first on ``PATH``.
    """

    source: str
    arch: str | Sequence[str]
    flags: str = "-O3"
    output: Literal["cubin", "library", "executable"] = "cubin"
    controls: Literal["ptxas", "nvcc"] = "ptxas"
    compiler: str | None = None

    def resolve(self, place: Place) -> Builder:
        """Find nvcc and the source.

        Raises:
            EnvironmentFault: there is no nvcc.
            MarkerError: the source is missing, or an architecture or a flag cannot be used.
        """
        from pytest_compileiq.toolchains.nvidia.nvcc_builder import resolve  # heavy, and collecting does without

        return resolve(self, place)
