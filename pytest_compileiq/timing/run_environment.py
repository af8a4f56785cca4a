"""The environment of a run: the variables that libraries of a kernel read when it runs, which are part of a claim.

Sources: the OpenMP specification and libgomp's manual, "The GNU C Library" on tunables and ``ld.so(8)``, and the "CUDA
C++ Programming Guide" on CUDA's environment variables.
"""

from __future__ import annotations

import os
from pathlib import PurePath

from pytest_compileiq.model import LONGEST_TEXT

_FAMILIES = ("OMP_", "GOMP_", "KMP_", "MALLOC_", "MKL_", "OPENBLAS_", "BLIS_")
_NAMES = frozenset(
    ("GLIBC_TUNABLES", "LD_PRELOAD", "LD_BIND_NOW", "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING",
     "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_FORCE_PTX_JIT")
)  # fmt: skip
_OF_THREADPOOLCTL = ("KMP_INIT_AT_FORK", "KMP_DUPLICATE_LIB_OK")  # which a search imports, and which sets them


def run_environment() -> dict[str, str]:
    """Name → value of those that are set here, sorted; of files that are preloaded the names alone."""
    own = (name for name in sorted(os.environ) if name not in _OF_THREADPOOLCTL)
    read = (name for name in own if name in _NAMES or name.startswith(_FAMILIES))
    return {name: _recorded(name, os.environ[name]) for name in read if os.environ[name]}


def _recorded(name: str, value: str) -> str:
    preloaded = value.replace(":", " ").split()
    return (" ".join(PurePath(file).name for file in preloaded) if name == "LD_PRELOAD" else value)[:LONGEST_TEXT]
