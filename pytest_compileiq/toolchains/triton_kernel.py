"""A kernel that Triton compiled ahead of time, launched without Triton."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from pytest_compileiq.errors import BodyError
from pytest_compileiq.toolchains.cubin_module import CubinModule, Extent

_WARP = 32


class TritonKernel:
    """The kernel of one cubin with the launch parameters that Triton wrote beside it.

    Args:
        path: the cubin; ``kernel.json`` lies beside it.
        used: the kernel's name is added to it.

    Raises:
        EnvironmentFault: no driver, no visible device, or no cuda-core.
        BodyError: the kernel runs in clusters, which this launcher does not.
    """

    def __init__(self, path: Path, used: set[str]) -> None:
        described = json.loads(path.with_name("kernel.json").read_text(encoding="utf-8"))
        if (described["num_ctas"] or 1) > 1:
            raise BodyError(
                f"{described['name']} runs in clusters of {described['num_ctas']}: launch it by Triton's JIT"
            )
        self._kernel = CubinModule(path, used)[described["name"]]
        self._threads: int = described["num_warps"] * _WARP
        self._shared_bytes: int = described["shared"]

    def __call__(self, grid: Extent, *args: Any) -> None:
        """Launch ``grid`` programs with the arguments of the signature, constexprs left out.

        Raises:
            TypeError: an argument has no size that a kernel would know.
        """
        # Behind the signature Triton adds pointers to scratch memory, which these kernels do not use.
        scratch = [np.uint64(0)] * max(0, self._kernel.parameters - len(args))
        self._kernel(grid, self._threads, *args, *scratch, shared_bytes=self._shared_bytes)
