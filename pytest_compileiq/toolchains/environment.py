"""The environment of a build: one allowlist for every compiler, of which what decides is recorded by value.

A variable that a compiler reads is one of three. One of ``_LOCATES`` says where programs and files lie: it is handed
on, and what is found there is recorded, or is installed. One of ``_DECIDES`` says what is compiled: it is handed on and
recorded. Any other is kept out, and a build cannot depend on it; those of ``_KEPT_OUT`` are known to change builds
elsewhere, and are named where they are set.

Sources: the manuals of gcc, ld, clang and nvcc; ``nvcc.profile``, whose ``NAME +=`` begins with the variable ``NAME``;
``triton/knobs.py``, and the names that libtriton asks for.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from pytest_compileiq.model import LONGEST_TEXT, sha256_hex

_LOCATES = frozenset(
    ("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "LD_LIBRARY_PATH",
     "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "GCC_EXEC_PREFIX", "COMPILER_PATH", "LIBRARY_PATH", "LD_RUN_PATH",
     "SYSROOT", "CONDA_BUILD_SYSROOT", "LM_LICENSE_FILE",
     "CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER",
     "PYTHONPATH", "PYTHONHOME", "TRITON_HOME", "TRITON_LIBDEVICE_PATH")
)  # fmt: skip
_OF_NO_KEY = frozenset(  # what they say reaches no machine code, and differs between users and workers
    ("HOME", "USER", "LOGNAME", "TMPDIR", "LM_LICENSE_FILE", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "PYTHONPATH",
     "PYTHONHOME")
)  # fmt: skip
_WRAPPERS = (  # of compilers that are scripts and stop without their own variables
    "NIX_CC", "NIX_BINTOOLS", "NIX_CFLAGS", "NIX_LDFLAGS", "NIX_HARDENING", "NIX_ENFORCE", "SPACK_", "CRAYPE_", "PE_",
)  # fmt: skip
_OF_TIME = frozenset({"SOURCE_DATE_EPOCH"})  # what __DATE__ becomes: another one each day where it is not set

_CC = frozenset({"NIX_HARDENING_ENABLE"})
_CLANG = _CC | {"CLANG_NO_DEFAULT_CONFIG"}
_NVCC = _CC | {"NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN"}
_TRITON = frozenset(
    ("TRITON_DEFAULT_FP_FUSION", "TRITON_F32_DEFAULT", "TRITON_DISABLE_LINE_INFO", "TRITON_ENABLE_ASAN", "TRITON_DEBUG",
     "TRITON_INSTRUMENTATION_MODE", "TRITON_ALLOW_NON_CONSTEXPR_GLOBALS", "TRITON_MOCK_PTX_VERSION",
     "TRITON_OVERRIDE_ARCH", "USE_IR_LOC", "PTXAS_OPTIONS",
     "DISABLE_PTXAS_OPT", "DISABLE_LLVM_OPT", "DISABLE_MMA_V3", "DISABLE_MMA_V5")
)  # fmt: skip
# What a switch of Triton says where it is not set: setting it to that changes nothing.
_SWITCHES = {"TRITON_DEFAULT_FP_FUSION": True} | dict.fromkeys(
    ("TRITON_DISABLE_LINE_INFO", "TRITON_ENABLE_ASAN", "TRITON_DEBUG", "TRITON_ALLOW_NON_CONSTEXPR_GLOBALS",
     "DISABLE_PTXAS_OPT", "DISABLE_LLVM_OPT", "DISABLE_MMA_V3", "DISABLE_MMA_V5"),
    False,
)  # fmt: skip
_ON = ("1", "true", "on", "yes", "y")
_DECIDES = {"gcc": _CC, "gfortran": _CC, "clang": _CLANG, "nvcc": _NVCC, "triton": _TRITON}

_OF_LD = ("GNUTARGET", "LDEMULATION", "LPATH")
_KEPT_OUT = {
    "gcc": _OF_LD,
    "gfortran": _OF_LD,
    "clang": (*_OF_LD, "CCC_OVERRIDE_OPTIONS", "RC_DEBUG_OPTIONS"),
    "nvcc": (*_OF_LD, "PTXAS_FLAGS", "NVVM_FLAGS", "CUDAFE_FLAGS", "INCLUDES", "SYSTEM_INCLUDES", "LIBRARIES"),
    "triton": ("TRITON_INTERPRET", "TRITON_KERNEL_OVERRIDE", "TRITON_OVERRIDE_DIR", "TRITON_PLUGIN_PATHS",
               "LLVM_PASS_PLUGIN_PATH"),
}  # fmt: skip

_HANDED_ON = _LOCATES | _OF_TIME | frozenset().union(*_DECIDES.values())
_SECRET = re.compile(r"TOKEN|SECRET|PASS|KEY|CREDENTIAL|AUTH", re.IGNORECASE)
_HOST_COMPILER = re.compile(r"(-ccbin|--compiler-bindir)([ =])(\S+)")


def build_environment() -> dict[str, str]:
    """What every compiler sees of this process's environment, with untranslated messages."""
    return {name: value for name, value in os.environ.items() if name in _HANDED_ON or name.startswith(_WRAPPERS)} | {
        "LC_ALL": "C"
    }


def set_here(names: Iterable[str]) -> dict[str, str]:
    """Name → value of those that are set and not empty."""
    return {name: value for name in sorted(names) if (value := os.environ.get(name))}


def keyed_environment() -> dict[str, str]:
    """``build_environment`` for keys of the build cache, without variables that reach no machine code."""
    return {name: value for name, value in build_environment().items() if name not in _OF_NO_KEY}


def deciding(compiler: str, also: Iterable[str] = ()) -> dict[str, str]:
    """Name → value of the variables that are set here and decide about a ``compiler``'s output, for the record.

    The directory of nvcc's host compiler is left out, since it differs between machines. ``also`` names more variables.
    """
    names = _DECIDES.get(compiler, frozenset()).union(also)
    here = set_here(names).items()
    return {name: _recorded(name, value) for name, value in here if _SWITCHES.get(name) is not (value.lower() in _ON)}


def _recorded(name: str, value: str) -> str:
    if _SECRET.search(name):  # what is recorded is committed, and shown
        return f"sha256 {sha256_hex(value.encode())}"
    if name == "NVCC_CCBIN":
        return value.rpartition("/")[2]
    portable = _HOST_COMPILER.sub(lambda found: f"{found[1]}{found[2]}{found[3].rpartition('/')[2]}", value)
    return portable if len(portable) <= LONGEST_TEXT else f"sha256 {sha256_hex(portable.encode())}"


def kept_out(compiler: str) -> list[str]:
    """Variables that are set here, that a compiler would read, and that no build sees."""
    return list(set_here(_KEPT_OUT.get(compiler, ())))


def named_in(texts: Iterable[str]) -> frozenset[str]:
    """Names of variables in ``texts`` that are set here and do not only locate files.

    pytest's own are left out: a kernel's file that asks for them defines another kernel than in production.
    """
    decide = (text for text in texts if text not in _LOCATES and not text.startswith("PYTEST_"))
    return frozenset(text for text in decide if text in os.environ)
