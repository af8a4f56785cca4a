"""Writes a test for each captured Triton kernel, and says whether it rebuilds the PTX that the program launched."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pytest_compileiq.cli.captured_tests import _written as written
from pytest_compileiq.errors import CompileIQError
from pytest_compileiq.report.captured_test import test_name
from pytest_compileiq.report.launched_test import launched_test, marker_arguments
from pytest_compileiq.ship.acf_runtime import ptx_sha256
from pytest_compileiq.store.captured_launches import LaunchedKernel, Specialisation, ptx_of
from pytest_compileiq.store.captures import Bundle
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.triton.marker import Triton
from pytest_compileiq.toolchains.triton.source import find_kernel

_MOST_TESTS = 8  # of a kernel; a specialisation each
_BUILD_S = 300.0
_VERSION = re.compile(r"(?m)^\.version (\S+)$")
_OF_A_CONFIG = {"maxnreg": None, "num_ctas": 1}  # what a config of @triton.autotune may set besides


def write_launched_tests(
    directory: Path, project: Path, bundle: Bundle, kernels: Mapping[str, LaunchedKernel]
) -> Iterator[str]:
    """Write ``test_NAME.py`` for each kernel, or ``test_NAME.py.new`` beside one that differs; gives lines to print."""
    directory.mkdir(parents=True, exist_ok=True)
    place = Place(directory.absolute(), project)
    for name, kernel in kernels.items():
        source, why = _source(kernel, place)
        if source is None:
            yield f"no test of {name}: {why}"
            continue
        try:
            named = {} if find_kernel(source, place).is_jit_alone else _OF_A_CONFIG
        except CompileIQError as error:
            yield f"no test of {name}: {error}"
            continue
        markers = [(each, marker_arguments(source, each, named)) for each in kernel.specialisations[:_MOST_TESTS]]
        yield from written(directory / f"{test_name(name)}.py", launched_test(name, kernel, markers))
        if len(kernel.specialisations) > _MOST_TESTS:
            yield f"{len(kernel.specialisations) - _MOST_TESTS} more specialisations of {name} have no test"
        for number, (each, arguments) in enumerate(markers, 1):
            yield f"{test_name(name)}{f'_{number}' if number > 1 else ''} {_rebuilt(bundle, each, arguments, place)}"


def _source(kernel: LaunchedKernel, place: Place) -> tuple[str | None, str]:
    """The kernel as the marker names it, or None and why it cannot."""
    file = Path(kernel.file)
    if not file.is_file():
        return None, f"its file {kernel.file} is not here"
    if "site-packages" in file.parts:
        return f"{kernel.module}:{kernel.function}", ""
    if not file.resolve().is_relative_to(place.rootdir.resolve()):
        return None, f"its file {kernel.file} lies outside the project {place.rootdir}: copy it there, and launch that"
    relative = Path(os.path.relpath(file.resolve(), place.test_dir.resolve())).as_posix()
    return f"{relative}::{kernel.function}", ""


def _rebuilt(bundle: Bundle, each: Specialisation, arguments: Mapping[str, Any], place: Place) -> str:
    """What the marker's baseline is beside what the program launched; the sentence continues after its name."""
    try:
        with TemporaryDirectory(prefix="acf-capture-") as folder:
            built = Triton(**arguments).resolve(place).build(None, Path(folder), timeout_s=_BUILD_S)
            return compared_ptx(
                ptx_of(bundle, each.ptx), built.path.with_name("kernel.ptx").read_text(encoding="utf-8")
            )
    except CompileIQError as error:
        return f"could not be compared with the PTX that was launched: {error}"


def compared_ptx(launched: str, rebuilt: str) -> str:
    """Whether two PTX texts are the same code."""
    if ptx_sha256(launched) == ptx_sha256(rebuilt):
        return "compiles to the PTX that was launched"
    then, now = (match[1] if (match := _VERSION.search(text)) else "?" for text in (launched, rebuilt))
    if ptx_sha256(_VERSION.sub("", launched)) == ptx_sha256(_VERSION.sub("", rebuilt)):
        return (
            f"compiles to the PTX that was launched, but for the version of PTX: {now} for {then}, since Triton "
            "called another ptxas there"
        )
    return (
        f"compiles to other PTX than was launched (PTX {now}; {then} there): what decides it is not in the marker, or "
        "Triton or its ptxas is another"
    )
