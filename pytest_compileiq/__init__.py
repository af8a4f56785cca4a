"""pytest-compileiq: tune a kernel's compiler controls, prove the gain, commit the artifact, and keep it honest.

The public names are loaded on first use (PEP 562), so that an installed and unused plugin costs a pytest run nothing.

PYTEST_DONT_REWRITE: a worker imports this package before its own pytest starts, which pytest would warn about.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_compileiq.fixture import Acf as Acf
    from pytest_compileiq.fixture import Build as Build
    from pytest_compileiq.marker import maximize as maximize
    from pytest_compileiq.marker import minimize as minimize
    from pytest_compileiq.space import NvccSearchSpace as NvccSearchSpace
    from pytest_compileiq.space import PtxasSearchSpace as PtxasSearchSpace
    from pytest_compileiq.space import choice as choice
    from pytest_compileiq.space import literal as literal
    from pytest_compileiq.space import log_sampling as log_sampling
    from pytest_compileiq.space import range as range  # CompileIQ's name
    from pytest_compileiq.toolchains.cc import Cc as Cc
    from pytest_compileiq.toolchains.command import Command as Command
    from pytest_compileiq.toolchains.device_array import DeviceArray as DeviceArray
    from pytest_compileiq.toolchains.nvcc import Nvcc as Nvcc
    from pytest_compileiq.toolchains.ptxas import Ptxas as Ptxas
    from pytest_compileiq.toolchains.triton import Triton as Triton

__version__ = "0.1.0"

_HOMES = {
    "Acf": "fixture",
    "Build": "fixture",
    "Cc": "toolchains.cc",
    "Command": "toolchains.command",
    "DeviceArray": "toolchains.device_array",
    "Nvcc": "toolchains.nvcc",
    "NvccSearchSpace": "space",
    "Ptxas": "toolchains.ptxas",
    "PtxasSearchSpace": "space",
    "Triton": "toolchains.triton",
    "choice": "space",
    "literal": "space",
    "log_sampling": "space",
    "maximize": "marker",
    "minimize": "marker",
    "range": "space",
}

__all__ = [
    "Acf",
    "Build",
    "Cc",
    "Command",
    "DeviceArray",
    "Nvcc",
    "NvccSearchSpace",
    "Ptxas",
    "PtxasSearchSpace",
    "Triton",
    "choice",
    "literal",
    "log_sampling",
    "maximize",
    "minimize",
    "range",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"pytest_compileiq has {', '.join(__all__)}; it has no {name!r}")
    return getattr(import_module(f"pytest_compileiq.{_HOMES[name]}"), name)
