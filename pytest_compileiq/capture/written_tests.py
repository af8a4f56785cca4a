"""Writes a test for each captured kernel whose source is known; never over a file that somebody may have edited."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_compileiq.capture.bundle import Bundle, Kernel
from pytest_compileiq.capture.toolchain.sources import Given, Sources, sources_of
from pytest_compileiq.cli.locate import configures_pytest
from pytest_compileiq.errors import UserError
from pytest_compileiq.spelling import quantity, test_name
from pytest_compileiq.system.files import replace
from pytest_compileiq.toolchains.base import Place


@dataclass(frozen=True)
class Building:
    """How a test builds its kernel; paths are relative to the test file, ``flags`` None where they are not known."""

    sources: tuple[str, ...]
    flags: str | None
    compiler: str | None
    like: str | None


def captured_test(name: str, kernel: Kernel, capture: str, building: Building) -> str:
    """The text of a test file.

    Args:
        name: the kernel's, in its capture.
        kernel: what was recorded; shapes of which no call is exact are left out.
        capture: the capture's directory, relative to the test file.
        building: how it is built.
    """
    return "\n".join(_lines(name, kernel, capture, building)) + "\n"


def _lines(name: str, kernel: Kernel, capture: str, building: Building) -> Iterator[str]:
    called = f"{test_name(name)[5:]} as a program called it, {quantity(kernel.calls, 'time')}"
    yield f'"""{called}. Written by acf capture; yours to edit."""'
    yield from ("", "import pytest", "from pytest_compileiq import Captured", "", "")
    yield "@pytest.mark.tune("
    yield "    Captured("
    yield f"        {json.dumps(f'{capture}/{name}')},"
    yield from (f"        {json.dumps(source)}," for source in building.sources)
    yield from _options(building)
    yield '        neighbours="allow",  # the other functions of the source share its options'
    yield "    ),"
    yield "    workloads={"
    for place, shape in enumerate(kernel.shapes):
        if any(call.is_exact for call in shape.kept):
            told = ", ".join(json.dumps(part).strip('"') for part in shape.shape)
            yield f'        "shape{place}": dict(shape={place}, weight={shape.calls}),  # ({told})'
    yield "    },"
    yield ")"
    yield f"def {test_name(name)}(acf):"
    yield "    kernel = acf.build().load()"
    yield "    kernel.check(acf.workload.shape)  # its recorded calls, bit for bit; floats within check(…, rtol=…)"
    yield "    call = kernel.call(acf.workload.shape)"
    yield "    acf.measure(call, reset=call.reset, check=call.check)"


def _options(building: Building) -> Iterator[str]:
    if building.like is not None:
        yield f"        like={json.dumps(building.like)},"
        if building.flags:
            yield f"        flags={json.dumps(building.flags)},"
        return
    if building.flags is None:
        yield '        # how the library was compiled is not known: say it here, or by like="compile_commands.json"'
    else:
        yield '        # -D is not known here: like="compile_commands.json" in place of flags brings it'
    yield f"        flags={json.dumps(building.flags or '-O2')},"
    if building.compiler not in (None, "gcc"):
        yield f"        compiler={json.dumps(building.compiler)},"


def project_of(directory: Path) -> Path:
    """The project that a directory for tests belongs to: the nearest one above with settings for pytest, or here."""
    return next((each for each in directory.absolute().parents if configures_pytest(each)), Path.cwd()).resolve()


def write_tests(directory: Path, bundle: Bundle, kernels: Mapping[str, Kernel], given: Given) -> Iterator[str]:
    """Write ``test_NAME.py`` for each kernel, or ``test_NAME.py.new`` beside one that differs; gives lines to print.

    Args:
        directory: where the tests go.
        bundle: the capture.
        kernels: its kernels, by name.
        given: sources and commands that the user names, for where the libraries do not tell.
    """
    directory.mkdir(parents=True, exist_ok=True)
    place = Place(directory.resolve(), project_of(directory))
    is_any_without = False
    for name, kernel in kernels.items():
        try:
            sources = _sources(kernel, given, place)
        except UserError as why:
            yield f"no test of {name}: {why}"
            continue
        is_any_without |= sources.like is None
        capture = Path(os.path.relpath(bundle.root, directory)).as_posix()
        text = captured_test(name, kernel, capture, _from(directory, sources))
        yield from written_beside(directory / f"{test_name(name)}.py", text)
        if sources.remark:
            yield f"the test of {name} will not do as it is: {sources.remark}"
    if is_any_without:
        yield (
            "macros (-D) are not known from a library: where its build gives any, --like compile_commands.json brings "
            "them"
        )


def _sources(kernel: Kernel, given: Given, place: Place) -> Sources:
    """What a kernel's test is of.

    Raises:
        UserError: it has none, for the reason that the message gives.
    """
    if not any(call.is_exact for call in kernel.kept):
        raise UserError("no call of it is recorded exactly")
    if not kernel.shows_its_work:
        raise UserError(
            f"nothing that it does is recorded: set {kernel.function}.restype in the program, if it returns"
        )
    return sources_of(Path(kernel.library), kernel.function, given, place)


def _from(directory: Path, sources: Sources) -> Building:
    """How it is built, as seen from the test."""
    seen = (Path(os.path.relpath(path, directory)).as_posix() for path in sources.paths)
    like = None if sources.like is None else Path(os.path.relpath(sources.like, directory)).as_posix()
    return Building(tuple(seen), sources.every_flag, sources.compiler, like)


def written_beside(path: Path, text: str) -> Iterator[str]:
    """Write ``text`` to ``path``, or beside it where another text is there; gives lines to print."""
    if not path.exists():
        replace(path, text.encode())
        yield f"wrote {path}"
        return
    there = path.read_text(encoding="utf-8", errors="replace")
    if there == text:
        yield f"{path} is the same"
        return
    beside = path.with_name(f"{path.name}.new")
    replace(beside, text.encode())
    yield f"{path} is there and differs, so {beside} was written:"
    yield from difflib.unified_diff(there.splitlines(), text.splitlines(), path.name, beside.name, lineterm="")
