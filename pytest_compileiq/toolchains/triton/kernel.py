"""A kernel that Triton compiled ahead of time, launched without Triton."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from operator import index
from pathlib import Path
from typing import Any

import numpy as np

from pytest_compileiq.errors import BodyError
from pytest_compileiq.spelling import quantity
from pytest_compileiq.timing.cuda_context import cuda_core, visible_gpu
from pytest_compileiq.toolchains.nvidia.launch import CubinModule, Extent, sizes

_WARP = 32


class TritonKernel:
    """The kernel of one cubin with the launch parameters that Triton wrote beside it, as JSON.

    Args:
        used, suffixes: as for ``CubinModule``, which raises too.

    Attributes:
        meta: the values of constexprs and launch options that were compiled, apart from those that only Triton knows.

    Raises:
        BodyError: the kernel is launched in a way that this launcher does not support.
    """

    def __init__(self, path: Path, used: set[str], suffixes: Sequence[str] = ("",)) -> None:
        described = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        self._name: str = described["name"]
        if reason := _why_not(described):
            raise BodyError(f"{self._name} {reason}: launch it by Triton's JIT")
        self._kernel = CubinModule(path, used, suffixes)[self._name]
        self._arguments: dict[str, Any] = described["arguments"]
        self.meta: dict[str, Any] = described["meta"]
        self._blocks: int = described["num_ctas"] or 1  # per program
        self._threads: int = described["num_warps"] * _WARP
        self._shared_bytes: int = described["shared"]
        self._scratch_bytes: int = described["global_scratch_size"] or 0  # per block
        self._scratch_alignment: int = described["global_scratch_align"] or 1
        self._scratch: dict[int, Any] = {}

    def __call__(self, grid: Extent | Callable[[Mapping[str, Any]], Extent], *args: Any) -> None:
        """Launch ``grid`` programs with the arguments of the signature, in the kernel's order, constexprs left out.

        An argument with the hint ``:1`` (``i32:1``) is passed too, as to the JIT.

        Args:
            grid: an int or up to three, or what computes them from ``meta``, as for the JIT:
                ``lambda meta: cdiv(n, meta["BLOCK"])``.
            args: a tuple where the signature has one.

        Raises:
            TypeError: there are too few or too many arguments, an integer contradicts its hint in the signature, or an
                argument's size in bits is not known.
            BodyError: Triton gave the kernel parameters that this launcher does not know.
        """
        if len(args) != len(self._arguments):
            named = ", ".join(self._arguments)
            takes = quantity(len(self._arguments), "argument")
            raise TypeError(f"{self._name} takes {takes} ({named}), and {len(args)} are given")
        launched: list[Any] = []
        for (name, kind), arg in zip(self._arguments.items(), args, strict=True):
            launched += _launched(f"{self._name}: {name}", kind, arg)
        extent = sizes(grid(self.meta) if callable(grid) else grid)
        # After the signature's arguments Triton adds two pointers: to scratch memory, and to a profile.
        added = self._kernel.parameters - len(launched)
        if not bool(self._scratch_bytes) <= added <= 2:
            has, taken = quantity(self._kernel.parameters, "parameter"), quantity(len(launched), "argument")
            raise BodyError(
                f"{self._name} has {has} for {taken}, which this launcher does not know of Triton: launch it by "
                "Triton's JIT"
            )
        pointers = (np.uint64(self._scratch_for(prod(extent))), np.uint64(0))[:added]
        cluster = self._blocks if self._blocks > 1 else None
        self._kernel(extent, self._threads, *launched, *pointers, shared_bytes=self._shared_bytes, cluster=cluster)

    def _scratch_for(self, programs: int) -> int:
        """The address of the kernel's scratch memory, which is kept, since a captured graph may use it again."""
        if not self._scratch_bytes:
            return 0
        if programs not in self._scratch:
            core = cuda_core()
            size_bytes = programs * self._blocks * self._scratch_bytes + self._scratch_alignment
            self._scratch[programs] = visible_gpu(core).allocate(size_bytes, stream=core.LEGACY_DEFAULT_STREAM)
        address = int(self._scratch[programs].handle)
        return -(-address // self._scratch_alignment) * self._scratch_alignment


def _why_not(described: Mapping[str, Any]) -> str | None:
    if described["profile_scratch_size"]:
        return "is instrumented and writes a profile"
    if described.get("launch_pdl") or described.get("launch_cooperative_grid"):
        return "is launched as a whole grid at once, or while another still runs"
    descriptors = [name for name, kind in described["arguments"].items() if "tensordesc<" in str(kind)]
    return f"takes a tensor descriptor of the host, {descriptors[0]}" if descriptors else None


def _launched(argument: str, kind: Any, arg: Any) -> Iterator[Any]:
    """The parameters that one argument becomes; what is a constant in the code is none."""
    if isinstance(kind, list):
        for number, (inner, part) in enumerate(zip(kind, arg, strict=True)):
            yield from _launched(f"{argument}[{number}]", inner, part)
    elif kind is not None:
        _expect(argument, kind, arg)
        if not kind.endswith(":1"):
            yield arg


def _expect(argument: str, kind: str, arg: Any) -> None:
    """Raise TypeError if an integer is not what the kernel was compiled for."""
    plain, _, hint = kind.partition(":")
    if not hint or plain.startswith("*"):
        return
    value = index(getattr(arg, "value", arg))
    if value != 1 if hint == "1" else value % int(hint):
        raise TypeError(f"{argument} is {kind!r} in the signature, and {value} is given: the JIT takes another kernel")
