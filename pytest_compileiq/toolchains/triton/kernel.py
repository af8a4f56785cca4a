"""A kernel that Triton compiled ahead of time, launched without Triton."""

from __future__ import annotations

import json
from math import prod
from operator import index
from pathlib import Path
from typing import Any

import numpy as np

from pytest_compileiq.errors import BodyError
from pytest_compileiq.timing.cuda_context import cuda_core, visible_gpu
from pytest_compileiq.toolchains.nvidia.cubin_module import CubinModule, Extent, sizes

_WARP = 32


class TritonKernel:
    """The kernel of one cubin with the launch parameters that Triton wrote beside it.

    Args:
        path: the cubin; ``kernel.json`` lies beside it.
        used: the kernel's name is added to it.

    Raises:
        EnvironmentFault: no driver, no visible device, or no cuda-core.
        BodyError: the kernel runs in clusters or writes a profile, which this launcher does not support.
    """

    def __init__(self, path: Path, used: set[str]) -> None:
        described = json.loads(path.with_name("kernel.json").read_text(encoding="utf-8"))
        self._name: str = described["name"]
        if (described["num_ctas"] or 1) > 1:
            raise BodyError(f"{self._name} runs in clusters of {described['num_ctas']}: launch it by Triton's JIT")
        if described["profile_scratch_size"]:
            raise BodyError(f"{self._name} is instrumented and writes a profile: launch it by Triton's JIT")
        self._kernel = CubinModule(path, used)[self._name]
        self._arguments: dict[str, str] = described["arguments"]
        self._threads: int = described["num_warps"] * _WARP
        self._shared_bytes: int = described["shared"]
        self._scratch_bytes: int = described["global_scratch_size"] or 0  # per program
        self._scratch_alignment: int = described["global_scratch_align"] or 1
        self._scratch: dict[int, Any] = {}

    def __call__(self, grid: Extent, *args: Any) -> None:
        """Launch ``grid`` programs with the arguments of the signature, in the kernel's order, constexprs left out.

        An argument with the hint ``:1`` (``i32:1``) is passed too, as to the JIT.

        Raises:
            TypeError: there are too few or too many arguments, an integer contradicts its hint in the signature, or an
                argument's size in bits is not known.
            BodyError: Triton gave the kernel parameters that this launcher does not know.
        """
        if len(args) != len(self._arguments):
            named = ", ".join(self._arguments)
            raise TypeError(f"{self._name} takes {len(self._arguments)} arguments ({named}), and {len(args)} are given")
        launched = []
        for (name, kind), arg in zip(self._arguments.items(), args, strict=True):
            _expect(f"{self._name}: {name}", kind, arg)
            if not kind.endswith(":1"):  # else a constant in the code
                launched.append(arg)
        extent = sizes(grid)
        # After the signature's arguments Triton adds two pointers: to scratch memory, and to a profile.
        added = self._kernel.parameters - len(launched)
        if not bool(self._scratch_bytes) <= added <= 2:
            raise BodyError(
                f"{self._name} has {self._kernel.parameters} parameters for {len(launched)} arguments, which this "
                "launcher does not know of Triton: launch it by Triton's JIT"
            )
        pointers = (np.uint64(self._scratch_for(prod(extent))), np.uint64(0))[:added]
        self._kernel(extent, self._threads, *launched, *pointers, shared_bytes=self._shared_bytes)

    def _scratch_for(self, programs: int) -> int:
        """The address of the kernel's scratch memory, which is kept, since a captured graph may use it again."""
        if not self._scratch_bytes:
            return 0
        if programs not in self._scratch:
            core = cuda_core()
            size_bytes = programs * self._scratch_bytes + self._scratch_alignment
            self._scratch[programs] = visible_gpu(core).allocate(size_bytes, stream=core.LEGACY_DEFAULT_STREAM)
        address = int(self._scratch[programs].handle)
        return -(-address // self._scratch_alignment) * self._scratch_alignment


def _expect(argument: str, kind: str, arg: Any) -> None:
    """Raise TypeError if an integer is not what the kernel was compiled for."""
    plain, _, hint = kind.partition(":")
    if not hint or plain.startswith("*"):
        return
    value = index(getattr(arg, "value", arg))
    if value != 1 if hint == "1" else value % int(hint):
        raise TypeError(f"{argument} is {kind!r} in the signature, and {value} is given: the JIT takes another kernel")
