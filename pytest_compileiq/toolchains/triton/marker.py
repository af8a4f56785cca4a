"""The marker's arguments for Triton; ``pytest_compileiq.toolchains.triton.builder`` implements them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_compileiq.toolchains.marker_values import arguments_by_name

# Every tuned test file imports this module, even in runs that tune nothing, so it must import nothing heavy.
if TYPE_CHECKING:
    from pytest_compileiq.toolchains.base import Builder, Place


@arguments_by_name
@dataclass(frozen=True)
class Triton:
    """A ``@triton.jit`` kernel, compiled ahead of time by Triton itself, with no GPU and no torch.

    Of the kernel's file, and of the project's or the package's modules that it imports, only what the kernel names is
    executed: a script that launches it, or a package that imports the world, defines it all the same.

    Args:
        kernel: ``"file.py::function"``, the file relative to the test file, or ``"package.module:function"`` of the
            project or of an installed package.
        signature: argument → type as Triton's ahead-of-time compiler spells it: ``"*fp32"``, ``"i32"``. A pointer or an
            integer that is divisible by 16 takes ``:16``, as in ``"*fp32:16"``; an integer that is 1, such as a unit
            stride, takes ``:1``, and the JIT makes it a constant. A host's tensor descriptor is
            ``"tensordesc<fp16[128, 64]>"``, whose sizes may be computed with constexprs; a tuple is a tuple of types.
        arch: one architecture or several, e.g. ``"sm_90a"``; ``"sm_90"`` means the same, since Triton compiles for
            ``sm_90a``.
        constexprs: the kernel's ``tl.constexpr`` arguments in the baseline, each of which can be a knob; also any
            argument that is None, which the JIT makes a constant too. A dtype is ``"tl.float16"``. What is left out is
            computed by ``@triton.heuristics``, comes from a config of ``@triton.autotune``, or has a default.
        num_warps: the number of warps in the baseline; by default that of the config, else 4.
        num_stages: the number of stages in the baseline; by default that of the config, else 3.
        options: other launch options in the baseline, by the installed Triton's names: ``{"maxnreg": 128}``. Each can
            be a knob.
        config: values that single out the config of ``@triton.autotune`` which is the baseline; by default the first.
        arguments: values of arguments that heuristics compute something from: ``{"N": 4096}``.
        device: the name of the GPU, as torch gives it, for a kernel's file that asks ``torch.cuda.get_device_name()``.
        compiler: the ``ptxas`` that Triton calls, found as for ``Ptxas``; never the one that Triton bundles, since a
            13.3 ACF needs ptxas 13.3.
    """

    kernel: str
    signature: Mapping[str, Any]
    arch: str | Sequence[str]
    constexprs: Mapping[str, Any] = field(default_factory=dict)
    num_warps: int | None = None
    num_stages: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    device: str | None = None
    compiler: str | None = None

    def resolve(self, place: Place) -> Builder:
        from pytest_compileiq.toolchains.triton.builder import resolve  # heavy, and not needed to collect tests

        return resolve(self, place)
