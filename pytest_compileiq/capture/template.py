"""A test of a captured kernel, as a person would write it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from pytest_compileiq.capture.bundle import Kernel
from pytest_compileiq.spelling import quantity, test_name


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
