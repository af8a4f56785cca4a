"""The output of Triton's front end, taken in the process that runs Triton, for the build cache.

The front end executes the kernel's file, which may ask anything. So it runs each time the cache is asked, as nvcc's
preprocessor does, and its output is part of the key: the IR and the options. Behind it run the rest of Triton and
ptxas. An imported file may change Triton, so the key holds the digest of each.
"""

from __future__ import annotations

import json
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pytest_compileiq.errors import Signal
from pytest_compileiq.model import sha256_hex

Answer = dict[str, Any]
REFUSED = "refused"
_OURS = Path(__file__).parents[2]  # imported as far as a process needs it; the key holds its code otherwise
_OF_PYTHON = Path(sysconfig.get_path("stdlib"))


class Stopped(Signal):
    """The compilation ends behind the front end."""


def watch(answer: Callable[[Answer], None], places: Iterable[Path], *, stops: bool) -> None:
    """From now on, call ``answer`` with the output of the front end in each compilation.

    Args:
        places: directories of this machine, which the output does not name.
        stops: whether ``Stopped`` is raised then.
    """
    from triton.backends.nvidia.compiler import CUDABackend

    add_stages = CUDABackend.add_stages

    def add_watched(backend: Any, stages: dict[str, Any], *rest: Any) -> None:
        add_stages(backend, stages, *rest)
        behind = stages["ttir"]

        def first(module: Any, metadata: Mapping[str, Any]) -> Any:
            answer(_output(str(module), metadata, places))
            if stops:
                raise Stopped
            return behind(module, metadata)

        stages["ttir"] = first

    CUDABackend.add_stages = add_watched


def digest_triton() -> str | None:
    """Triton's own digest of its files, which it remembers; None where it has none."""
    import triton.compiler.compiler
    import triton.runtime.cache

    for module in (triton.runtime.cache, triton.compiler.compiler):  # older versions have it in the latter
        if callable(digest := getattr(module, "triton_key", None)):
            return sha256_hex(str(digest()).encode())
    return None


def digest_modules() -> str:
    """The digest of all imported Python files but Python's own and ours; it names no directory."""
    files = {name: Path(file) for name, module in sys.modules.items() if (file := getattr(module, "__file__", None))}
    digests = [(name, _digest_of(path)) for name, path in sorted(files.items()) if _is_foreign(path)]
    return sha256_hex(json.dumps([sys.version, digests]).encode())


def _is_foreign(path: Path) -> bool:
    is_of_python = _OF_PYTHON in path.parents and "site-packages" not in path.parts
    return path.suffix == ".py" and _OURS not in path.parents and not is_of_python


@cache
def _digest_of(path: Path) -> str:
    return sha256_hex(path.read_bytes()) if path.is_file() else ""


def _why_unknown() -> str | None:
    import triton

    compilation = getattr(getattr(triton, "knobs", None), "compilation", None)  # older versions have no knobs
    if getattr(compilation, "override", False):
        return "the kernel's file overrides Triton's IR"
    return None if digest_triton() else "this Triton does not digest its own files"


def _output(ir: str, metadata: Mapping[str, Any], places: Iterable[Path]) -> Answer:
    if reason := _why_unknown():
        return {REFUSED: reason}
    libraries = {name: _digest_of(Path(path)) for name, path in metadata.get("extern_libs") or ()}
    options = {**metadata, "extern_libs": libraries}
    del options["hash"]  # it depends on the build's directory
    return {
        "ir": sha256_hex(_without(places, ir).encode()),
        "options": _without(places, json.dumps(options, default=str, sort_keys=True)),
        "ptx_options": _without(places, metadata.get("ptx_options") or "").split(),
        "triton": digest_triton(),
        "modules": digest_modules(),
    }


def _without(places: Iterable[Path], text: str) -> str:
    for place in sorted(map(str, places), key=len, reverse=True):
        text = text.replace(place, ".")
    return text
