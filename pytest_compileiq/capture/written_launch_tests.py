"""Writes a test for each captured Triton kernel, and says whether it rebuilds the PTX that the program launched."""

from __future__ import annotations

import itertools
import json
import os
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from pytest_compileiq.capture.bundle import Bundle
from pytest_compileiq.capture.bundle_launches import LaunchedKernel, Specialisation, calls_by_frequency, ptx_of
from pytest_compileiq.capture.launches_report import told_of_launch
from pytest_compileiq.capture.written_tests import written_beside
from pytest_compileiq.errors import CompileIQError
from pytest_compileiq.ship.acf_runtime import ptx_sha256
from pytest_compileiq.spelling import quantity, test_name
from pytest_compileiq.system.printing import visible
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.inputs import is_installed
from pytest_compileiq.toolchains.triton.marker import Triton
from pytest_compileiq.toolchains.triton.source import find_kernel

_BY_NAME = ("num_warps", "num_stages")  # arguments of Triton(…) themselves
_TOLD_CALLS = 3
_WIDTH = 110
# Where there is no GPU, load() ends the body; where there is one, a test that compares nothing must not pass.
_UNFINISHED = "no data was recorded: launch it on yours, compare, and acf.measure the launch"


@dataclass(frozen=True)
class Marked:
    """A specialisation, and the marker's toolchain for it with its first argument and the others."""

    each: Specialisation
    toolchain: Literal["Triton", "Ptxas"]
    source: str
    arguments: Mapping[str, Any]
    entry: str
    note: str | None = None


def name_of_test(kernel: str, number: int) -> str:
    """The name of the test for a kernel's specialisation, counted from 1."""
    return test_name(kernel) if number == 1 else f"{test_name(kernel)}_{number}"


def by_source(source: str, each: Specialisation, named: Mapping[str, Any], entry: str) -> Marked:
    """A specialisation by ``Triton(…)``; what is left out is its default.

    Args:
        source: the kernel, as the marker names it.
        named: launch options that are to be named even where they are Triton's defaults.
        entry: the kernel's name in its PTX.
    """
    options = {name: value for name, value in {**named, **each.options}.items() if name not in each.constexprs}
    arguments: dict[str, Any] = {"signature": _as_python(each.signature)}
    if each.constexprs:
        arguments["constexprs"] = _as_python(each.constexprs)
    arguments |= {name: options.pop(name) for name in _BY_NAME if name in options}
    if options:
        arguments["options"] = _as_python(options)
    return Marked(each, "Triton", source, {**arguments, "arch": each.architecture}, entry)


def by_ptx(file: str, each: Specialisation, entry: str, why: str) -> Marked:
    """A specialisation by ``Ptxas(…)``, called with the flags of Triton 3.9 that decide on machine code."""
    flags = (
        "--regAllocOptLevel=2" if each.options.get("enable_fp_fusion", True) else "--regAllocOptLevel=2 --fmad=false"
    )
    note = f"it {why}: its PTX alone is tuned, by ptxas"
    return Marked(each, "Ptxas", file, {"arch": each.architecture, "flags": flags}, entry, note)


def launched_test(name: str, kernel: LaunchedKernel, marked: Sequence[Marked]) -> str:
    """The text of a test file: a test for each of ``marked``, of the kernel ``name`` in a capture."""
    return "\n".join(_lines(name, kernel, marked)) + "\n"


def _lines(name: str, kernel: LaunchedKernel, marked: Sequence[Marked]) -> Iterator[str]:
    called = f"{test_name(name)[5:]} as a program launched it, {quantity(kernel.launches, 'time')}"
    yield f'"""{called}. Written by acf capture; yours to edit."""'
    toolchains = ", ".join(sorted({each.toolchain for each in marked}))
    yield from ("", "import pytest", f"from pytest_compileiq import {toolchains}, minimize")
    for number, each in enumerate(marked, 1):
        yield from ("", "")
        yield from _comments(each)
        yield from ("@pytest.mark.tune(", f"    {each.toolchain}(", f"        {_literal(each.source)},")
        for key, value in each.arguments.items():
            yield from _argument(key, value)
        yield "    ),"
        yield '    objectives=[minimize("registers")],  # where there is a GPU, leave it out: time decides'
        yield ")"
        yield f"def {name_of_test(name, number)}(acf):"
        yield f"    kernel = acf.build().load(){'' if each.toolchain == 'Triton' else f'[{_literal(each.entry)}]'}"
        yield f"    # {visible(_call(each))}"
        yield f"    raise NotImplementedError({_literal(_UNFINISHED)})"


def _comments(marked: Marked) -> Iterator[str]:
    names = list(marked.each.signature)
    launches = itertools.islice(calls_by_frequency(marked.each), _TOLD_CALLS)
    told = [f"launched {told_of_launch(launch, names)}" for launch in launches]
    for comment in [*filter(None, [marked.note]), *told]:
        yield from textwrap.wrap(visible(comment), _WIDTH, initial_indent="# ", subsequent_indent="#   ")


def _call(marked: Marked) -> str:
    """How the most frequent launch is made again: tensors by their names, integers as they were."""
    launch = next(calls_by_frequency(marked.each), None)
    grid = str(launch.grid) if launch else "grid"
    if marked.toolchain == "Ptxas":
        threads = 32 * int(marked.each.options.get("num_warps", 4))
        return f"kernel({grid}, {threads}, …, and two pointers of Triton's own: numpy.uint64(0), numpy.uint64(0))"
    given = dict(zip(marked.each.signature, launch.arguments if launch else (), strict=False))
    told = [str(value) if isinstance(value := given.get(name), int) else name for name in marked.each.signature]
    return f"kernel({', '.join([grid, *told])})"


def _argument(name: str, value: Any) -> Iterator[str]:
    """A line, or one for each item where that would be too long."""
    line = f"        {name}={_literal(value)},"
    if len(line) <= _WIDTH or not isinstance(value, dict):
        yield line
        return
    yield f"        {name}={{"
    yield from (f"            {_literal(inner)}: {_literal(value[inner])}," for inner in value)
    yield "        },"


def _literal(value: Any) -> str:
    """As Python writes it, with double quotes."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_literal(name)}: {_literal(inner)}' for name, inner in value.items())}}}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_literal, value))}{',' if len(value) == 1 else ''})"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _as_python(value: Any) -> Any:
    """Lists, which stand for tuples, as tuples."""
    if isinstance(value, dict):
        return {name: _as_python(inner) for name, inner in value.items()}
    return tuple(map(_as_python, value)) if isinstance(value, list) else value


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
