"""A test of a captured Triton kernel, as a person would write it."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_compileiq.report.captured_test import test_name
from pytest_compileiq.report.launches import told_of_launch
from pytest_compileiq.store.captured_launches import LaunchedKernel, Specialisation, calls_by_frequency
from pytest_compileiq.system.printing import visible

_BY_NAME = ("num_warps", "num_stages")  # the marker's own arguments
_TOLD_CALLS = 3
_WIDTH = 110
# Where there is no GPU, load() ends the body; where there is one, a test that compares nothing must not pass.
_UNFINISHED = "no tensors were recorded: launch the kernel on data of yours, compare, and acf.measure the launch"


def launched_test(
    name: str, kernel: LaunchedKernel, markers: Sequence[tuple[Specialisation, Mapping[str, Any]]]
) -> str:
    """The text of a test file: a test for each specialisation.

    Args:
        name: the kernel's, in its capture.
        kernel: what was launched.
        markers: each specialisation with the arguments of its ``Triton(…)``, as ``marker_arguments`` gives them.
    """
    return "\n".join(_lines(name, kernel, markers)) + "\n"


def marker_arguments(source: str, each: Specialisation, named: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of ``Triton(…)``, the kernel's own apart: what is left out is the marker's default.

    Args:
        source: the kernel, as the marker names it.
        named: launch options that are to be named even where they are Triton's defaults.
    """
    options = {name: value for name, value in {**named, **each.options}.items() if name not in each.constexprs}
    arguments: dict[str, Any] = {"kernel": source, "signature": _as_python(each.signature)}
    if each.constexprs:
        arguments["constexprs"] = _as_python(each.constexprs)
    arguments |= {name: options.pop(name) for name in _BY_NAME if name in options}
    if options:
        arguments["options"] = _as_python(options)
    return {**arguments, "arch": each.architecture}


def _lines(
    name: str, kernel: LaunchedKernel, markers: Sequence[tuple[Specialisation, Mapping[str, Any]]]
) -> Iterator[str]:
    called = f"{test_name(name)[5:]} as a program launched it, {kernel.launches} times"
    yield f'"""{called}. Written by acf capture; yours to edit."""'
    yield from ("", "import pytest", "from pytest_compileiq import Triton, minimize")
    for number, (each, arguments) in enumerate(markers, 1):
        test = test_name(name) if number == 1 else f"{test_name(name)}_{number}"
        yield from ("", "")
        for launch in itertools.islice(calls_by_frequency(each), _TOLD_CALLS):
            told = f"launched {visible(told_of_launch(launch, list(each.signature)))}"
            yield from textwrap.wrap(told, _WIDTH, initial_indent="# ", subsequent_indent="#   ")
        yield from ("@pytest.mark.tune(", "    Triton(", f"        {arguments['kernel']!r},".replace("'", '"'))
        for key, value in arguments.items():
            yield from _argument(key, value) if key != "kernel" else ()
        yield from (
            "    ),",
            '    objectives=[minimize("registers")],  # where there is a GPU, leave it out: time decides',
            ")",
        )
        yield f"def {test}(acf):"
        yield "    kernel = acf.build().load()"
        yield f"    # {visible(_call(each))}"
        yield f"    raise NotImplementedError({_literal(_UNFINISHED)})"


def _call(each: Specialisation) -> str:
    """How the most frequent launch is made again: tensors by their names, integers as they were."""
    launch = next(calls_by_frequency(each), None)
    given = dict(zip(each.signature, launch.arguments if launch else (), strict=False))
    told = [str(value) if isinstance(value := given.get(name), int) else name for name in each.signature]
    return f"kernel({', '.join([str(launch.grid) if launch else 'grid', *told])})"


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
    if isinstance(value, str):
        text = ascii(value)
        return f'"{text[1:-1]}"' if '"' not in value and "'" not in value else text
    return repr(value)


def _as_python(value: Any) -> Any:
    """Lists, which stand for tuples, as tuples."""
    if isinstance(value, dict):
        return {name: _as_python(inner) for name, inner in value.items()}
    return tuple(map(_as_python, value)) if isinstance(value, list) else value
