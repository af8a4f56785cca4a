"""Writes a test for each captured Triton kernel, and says whether it rebuilds the PTX that the program launched."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from pytest_compileiq.capture.bundle import Bundle
from pytest_compileiq.capture.bundle_launches import LaunchedKernel, ptx_of
from pytest_compileiq.capture.launch_template import Marked, by_ptx, by_source, launched_test, name_of_test
from pytest_compileiq.capture.written_tests import written_beside
from pytest_compileiq.errors import CompileIQError
from pytest_compileiq.ship.acf_runtime import ptx_sha256
from pytest_compileiq.spelling import quantity, test_name
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.installed import is_installed
from pytest_compileiq.toolchains.triton.marker import Triton
from pytest_compileiq.toolchains.triton.source import find_kernel

_MOST_TESTS = 8  # of a kernel; a specialisation each
_BUILD_S = 300.0
_VERSION = re.compile(r"(?m)^\.version (\S+)$")
_ENTRY = re.compile(r"\.entry\s+([\w$]+)")
_OF_A_CONFIG = {"maxnreg": None, "num_ctas": 1}  # what a config of @triton.autotune may set besides


def write_launched_tests(
    directory: Path, project: Path, bundle: Bundle, kernels: Mapping[str, LaunchedKernel]
) -> Iterator[str]:
    """Write ``test_NAME.py`` for each kernel, or ``test_NAME.py.new`` beside one that differs; gives lines to print."""
    directory.mkdir(parents=True, exist_ok=True)
    place = Place(directory.absolute(), project)
    for name, kernel in kernels.items():
        texts = [ptx_of(bundle, each.ptx) for each in kernel.specialisations[:_MOST_TESTS]]
        marked = _marked(name, kernel, texts, place)
        yield from written_beside(directory / f"{test_name(name)}.py", launched_test(name, kernel, marked))
        for number, (each, text) in enumerate(zip(marked, texts, strict=True), 1):
            if each.toolchain == "Ptxas":
                yield from written_beside(directory / each.source, text)
            else:
                yield f"{name_of_test(name, number)} {_rebuilt(each, text, kernel.triton, place)}"
        if len(kernel.specialisations) > _MOST_TESTS:
            yield f"no test of {quantity(len(kernel.specialisations) - _MOST_TESTS, 'more specialisation')} of {name}"


def _marked(name: str, kernel: LaunchedKernel, texts: list[str], place: Place) -> list[Marked]:
    source, why = _source(kernel, place)
    named = _OF_A_CONFIG if source and not find_kernel(source, place).is_jit_alone else {}
    marked = []
    for number, (each, text) in enumerate(zip(kernel.specialisations, texts, strict=False), 1):
        entry = match[1] if (match := _ENTRY.search(text)) else kernel.function
        if source is None or each.why:
            marked.append(by_ptx(f"{name_of_test(name, number)[5:]}.ptx", each, entry, each.why or why))
        else:
            marked.append(by_source(source, each, named, entry))
    return marked


def _source(kernel: LaunchedKernel, place: Place) -> tuple[str | None, str]:
    """The kernel as ``Triton(…)`` names it, or None and why it cannot, in words that continue after ``it``."""
    file = Path(kernel.file)
    if is_installed(file.as_posix()):
        source = f"{kernel.module}:{kernel.function}"
    elif file.resolve().is_relative_to(place.rootdir.resolve()):
        relative = Path(os.path.relpath(file.resolve(), place.test_dir.resolve())).as_posix()
        source = f"{relative}::{kernel.function}"
    else:
        return None, f"is defined outside the project, in {kernel.file}"
    try:
        find_kernel(source, place)
    except CompileIQError as error:
        return None, f"cannot be named ({error})"
    return source, ""


def _rebuilt(marked: Marked, launched: str, triton: str, place: Place) -> str:
    """What the marker's baseline is beside what the program launched; the sentence continues after its name.

    ``triton`` is the version that compiled it there.
    """
    try:
        with TemporaryDirectory(prefix="acf-capture-") as folder:
            builder = Triton(marked.source, **marked.arguments).resolve(place)
            built = builder.build(None, Path(folder), timeout_s=_BUILD_S)
            rebuilt = built.path.with_name("kernel.ptx").read_text(encoding="utf-8")
            return _compared(launched, rebuilt, triton, builder.compiler.version)
    except CompileIQError as error:
        return f"could not be compared with the PTX that was launched: {error}"


def _compared(launched: str, rebuilt: str, there: str, here: str) -> str:
    """Whether two PTX texts are the same code; ``there`` and ``here`` are the versions of Triton that made them."""
    if ptx_sha256(launched) == ptx_sha256(rebuilt):
        return "compiles to the PTX that was launched"
    then, now = (match[1] if (match := _VERSION.search(text)) else "?" for text in (launched, rebuilt))
    if ptx_sha256(_VERSION.sub("", launched)) == ptx_sha256(_VERSION.sub("", rebuilt)):
        return (
            f"compiles to the PTX that was launched, but for the version of PTX: {now} for {then}, since Triton "
            "called another ptxas there"
        )
    return (
        f"compiles to other PTX than was launched, PTX {now} of Triton {here} instead of PTX {then} of Triton {there}: "
        "where these are the same, the marker does not say all that decides it"
    )
