"""The marker's words for Triton; what they do is in ``pytest_compileiq.toolchains.triton.builder``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

# Every tuned test file imports this module, in runs that tune nothing too: it must cost nothing.
if TYPE_CHECKING:
    from pytest_compileiq.toolchains.base import Builder, Place


@dataclass(frozen=True)
class Triton:
    """A ``@triton.jit`` kernel, compiled ahead of time by Triton itself, with no GPU and no torch.

    Args:
        kernel: ``"file.py::function"``, the file relative to the test file.
        signature: argument → type as Triton's ahead-of-time compiler spells it: ``"*fp32"``, ``"i32"``, and
            ``"*fp32:16"`` for a pointer or an integer that is divisible by 16 and ``"i32:1"`` for an integer that is 1,
            such as a unit stride, of which the JIT makes a constant.
        arch: the architecture, e.g. ``"sm_90a"``, which ``"sm_90"`` means too: it is what Triton compiles for.
        constexprs: the kernel's ``tl.constexpr`` arguments in the baseline, each of which can be a knob; also any
            argument that is None, of which the JIT makes a constant too.
        num_warps: of the baseline; a knob of this name replaces it. So for ``num_stages``.
        num_stages: see ``num_warps``.
        compiler: the ``ptxas`` that Triton shall call, as for ``Ptxas``; never one that Triton bundles, since a 13.3
            ACF needs ptxas 13.3.
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
        from pytest_compileiq.toolchains.triton.builder import resolve  # heavy, and collecting does without

        return resolve(self, place)
