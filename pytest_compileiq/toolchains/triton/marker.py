"""The marker's arguments for Triton; ``pytest_compileiq.toolchains.triton.builder`` implements them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

# Every tuned test file imports this module, even in runs that tune nothing, so it must import nothing heavy.
if TYPE_CHECKING:
    from pytest_compileiq.toolchains.base import Builder, Place


@dataclass(frozen=True)
class Triton:
    """A ``@triton.jit`` kernel, compiled ahead of time by Triton itself, with no GPU and no torch.

    Args:
        kernel: ``"file.py::function"``, the file relative to the test file.
        signature: argument → type as Triton's ahead-of-time compiler spells it: ``"*fp32"``, ``"i32"``. A pointer or an
            integer that is divisible by 16 takes ``:16``, as in ``"*fp32:16"``; an integer that is 1, such as a unit
            stride, takes ``:1``, and the JIT makes it a constant.
        arch: the architecture, e.g. ``"sm_90a"``; ``"sm_90"`` means the same, since Triton compiles for ``sm_90a``.
        constexprs: the kernel's ``tl.constexpr`` arguments in the baseline, each of which can be a knob; also any
            argument that is None, which the JIT makes a constant too.
        num_warps: the number of warps in the baseline; a knob of this name replaces it.
        num_stages: the number of stages in the baseline; a knob of this name replaces it.
        compiler: the ``ptxas`` that Triton calls, found as for ``Ptxas``; never the one that Triton bundles, since a
            13.3 ACF needs ptxas 13.3.
    """

    kernel: str
    signature: Mapping[str, str]
    arch: str
    constexprs: Mapping[str, Any] = field(default_factory=dict)
    num_warps: int = 4
    num_stages: int = 3
    compiler: str | None = None

    def resolve(self, place: Place) -> Builder:
        """Find Triton, ptxas and the kernel's file.

        Raises:
            EnvironmentFault: Triton or ptxas is not installed.
            MarkerError: the file is missing, or an argument cannot be used.
        """
        from pytest_compileiq.toolchains.triton.builder import resolve  # heavy, and not needed to collect tests

        return resolve(self, place)
