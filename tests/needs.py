"""What a test needs beyond Python and gcc, as marks that skip with the reason and the command that brings it."""

from __future__ import annotations

import importlib.util
import os
import shutil

import pytest

from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.toolchains.nvidia.tools import installed


def _takes_controls(name: str) -> bool:
    try:
        tool = next(installed(name), None)
    except EnvironmentFault:
        return False
    return tool is not None and tool.takes_controls


def has(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # not even its parent is there
        return False


ptxas = pytest.mark.skipif(not _takes_controls("ptxas"), reason="no ptxas 13.3: pip install 'pytest-compileiq[cuda]'")
nvcc = pytest.mark.skipif(not _takes_controls("nvcc"), reason="no nvcc 13.3: pip install 'pytest-compileiq[cuda]'")
cuda_core = pytest.mark.skipif(
    not (has("cuda.core") and has("pynvml")),
    reason="no cuda-core or no pynvml: pip install 'pytest-compileiq[cuda]'",
)
triton = pytest.mark.skipif(not has("triton"), reason="no Triton: pip install 'pytest-compileiq[triton]'")
compileiq = pytest.mark.skipif(not has("compileiq"), reason="no CompileIQ: pip install 'pytest-compileiq[compileiq]'")
search_spaces = pytest.mark.skipif(
    not os.environ.get("CIQ_SEARCH_SPACES_DIR"),
    reason="no search spaces: set CIQ_SEARCH_SPACES_DIR to the files of a CompileIQ release",
)
ray = pytest.mark.skipif(not has("ray"), reason="no Ray: pip install 'pytest-compileiq[ray]'")
gxx = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
