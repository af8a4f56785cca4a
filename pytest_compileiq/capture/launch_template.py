"""A test of a captured Triton kernel, as a person would write it."""

from __future__ import annotations

import itertools
import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pytest_compileiq.capture.bundle_launches import LaunchedKernel, Specialisation, calls_by_frequency
from pytest_compileiq.capture.launches_report import told_of_launch
from pytest_compileiq.spelling import quantity, test_name
from pytest_compileiq.system.printing import visible

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
