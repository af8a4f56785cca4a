"""Turns ``acf.options`` into the settings of frameworks that call the compiler themselves.

Nothing is imported from any framework. Each function names the release whose sources it was written from, and returns
an empty fragment for the baseline, whose options are ``()``. The frameworks pass flags on as text, which ninja, a shell
or nvcc splits at blanks, so an option with a character that one of them would split at or change raises
``EnvironmentFault``.

The options of ``Ptxas`` and ``Triton`` are for ptxas, those of ``Nvcc`` for nvcc; each function says which it takes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_compileiq.errors import BodyError, EnvironmentFault
from pytest_compileiq.model import sha256_hex

_ACF = "--apply-controls="
_SPLIT_BY_SOMEONE = re.compile(r"""[\s,;&|<>(){}\[\]*?!#$'"\\`]""")


def triton_options(options: Sequence[str]) -> dict[str, str]:
    """Keywords of a launch, ``kernel[grid](…, **triton_options(acf.options))``. Read from Triton 3.9.

    The options are for ptxas.
    """
    return {"ptx_options": " ".join(_whole(options))} if options else {}


def helion_options(options: Sequence[str]) -> dict[str, str]:
    """Keywords of ``helion.Config``. Read from Helion 1.5.1.

    Args:
        options: for ptxas; Helion takes an ACF and nothing else.

    Raises:
        BodyError: there is an option other than the ACF.
    """
    if other := next((option for option in options if not option.startswith(_ACF)), None):
        raise BodyError(f"Helion takes an ACF alone, and {other!r} is another option: leave space= at its default")
    return {"advanced_controls_file": _whole(options)[0].removeprefix(_ACF)} if options else {}


def cute_options(options: Sequence[str]) -> str:
    """A fragment of the string that ``cute.compile(…, options=…)`` takes. Read from the CuTe DSL 4.8.1.

    The options are for ptxas.
    """
    return f"--ptxas-options '{' '.join(_whole(options))}'" if options else ""


def torch_extension_flags(options: Sequence[str]) -> list[str]:
    """Flags for ``extra_cuda_cflags`` of ``torch.utils.cpp_extension.load`` and ``load_inline``. Read from PyTorch 2.

    The options are for nvcc.
    """
    return list(_whole(options))


def flashinfer_environment(options: Sequence[str], environment: Mapping[str, str], cache: Path) -> dict[str, str]:
    """The environment of a process that imports FlashInfer and runs one arm. Read from FlashInfer 0.7.2.

    Args:
        options: for nvcc; they follow the flags that ``environment`` already has.
        environment: the variables to start from, e.g. ``os.environ``.
        cache: a directory in which every arm has its own workspace.
    """
    flags = _appended(environment, "FLASHINFER_EXTRA_CUDAFLAGS", options)
    return {**environment, **flags, "FLASHINFER_WORKSPACE_BASE": _of_this_arm(cache, options)}


def inductor_environment(options: Sequence[str], environment: Mapping[str, str], cache: Path) -> dict[str, str]:
    """The environment of a process that calls ``torch.compile`` for one arm. Read from PyTorch 2 and Triton 3.9.

    Args:
        options: for ptxas; they follow the options that ``environment`` already has.
        environment: the variables to start from, e.g. ``os.environ``.
        cache: a directory in which every arm has its own compile caches.
    """
    flags = _appended(environment, "PTXAS_OPTIONS", options)
    home = _of_this_arm(cache, options)
    return {**environment, **flags, "TORCHINDUCTOR_CACHE_DIR": home, "TRITON_CACHE_DIR": f"{home}/triton"}


def _appended(environment: Mapping[str, str], name: str, options: Sequence[str]) -> dict[str, str]:
    given = environment.get(name, "").strip()
    return {name: " ".join([*([given] if given else []), *_whole(options)])} if options else {}


def _of_this_arm(cache: Path, options: Sequence[str]) -> str:
    """A directory for these options alone, since a framework's cache must hold one arm."""
    return str(cache / (sha256_hex("\0".join(options).encode())[:16] if options else "baseline"))


def _whole(options: Sequence[str]) -> Sequence[str]:
    for option in options:
        if match := _SPLIT_BY_SOMEONE.search(option):
            raise EnvironmentFault(
                f"{option!r} has {match[0]!r} in it, and a framework would split or change it there: "
                "set XDG_CACHE_HOME to a plain path"
            )
    return options
