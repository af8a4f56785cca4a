"""pytest-compileiq: tune a kernel's compiler controls, prove the gain, commit the artifact, and keep it honest.

The public names are loaded on first use (PEP 562), so that an installed and unused plugin costs a pytest run nothing.

PYTEST_DONT_REWRITE: a worker imports this package before its own pytest starts, which pytest would warn about.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_compileiq.benchmark.fixture import Acf as Acf
    from pytest_compileiq.benchmark.fixture import Build as Build
    from pytest_compileiq.benchmark.marker import maximize as maximize
    from pytest_compileiq.benchmark.marker import minimize as minimize
    from pytest_compileiq.capture.toolchain.marker import Captured as Captured
    from pytest_compileiq.space import NvccSearchSpace as NvccSearchSpace
    from pytest_compileiq.space import PtxasSearchSpace as PtxasSearchSpace
    from pytest_compileiq.space import choice as choice
    from pytest_compileiq.space import literal as literal
    from pytest_compileiq.space import log_sampling as log_sampling
    from pytest_compileiq.space import range as range  # CompileIQ's name
    from pytest_compileiq.toolchains.cc.marker import Cc as Cc
    from pytest_compileiq.toolchains.cc.marker import Fortran as Fortran
    from pytest_compileiq.toolchains.command.marker import Command as Command
    from pytest_compileiq.toolchains.nvidia.device_array import DeviceArray as DeviceArray
    from pytest_compileiq.toolchains.nvidia.markers import Nvcc as Nvcc
    from pytest_compileiq.toolchains.nvidia.markers import Ptxas as Ptxas
    from pytest_compileiq.toolchains.params.marker import Params as Params
    from pytest_compileiq.toolchains.triton.marker import Triton as Triton

__version__ = "0.1.0"

_HOMES = {
    "Acf": "benchmark.fixture",
    "Build": "benchmark.fixture",
    "Captured": "capture.toolchain.marker",
    "Cc": "toolchains.cc.marker",
    "Command": "toolchains.command.marker",
    "DeviceArray": "toolchains.nvidia.device_array",
    "Fortran": "toolchains.cc.marker",
    "Nvcc": "toolchains.nvidia.markers",
    "NvccSearchSpace": "space",
    "Params": "toolchains.params.marker",
    "Ptxas": "toolchains.nvidia.markers",
    "PtxasSearchSpace": "space",
    "Triton": "toolchains.triton.marker",
    "choice": "space",
    "literal": "space",
    "log_sampling": "space",
    "maximize": "benchmark.marker",
    "minimize": "benchmark.marker",
    "range": "space",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        from pytest_compileiq.spelling import did_you_mean

        meant = did_you_mean(name, __all__)
        raise AttributeError(f"pytest_compileiq has no {name!r}{meant}: it has {', '.join(__all__)}")
    return getattr(import_module(f"pytest_compileiq.{_HOMES[name]}"), name)
