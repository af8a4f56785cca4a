"""A test of a captured kernel, as a person would write it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from pytest_compileiq.store.captures import Kernel

_NO_NAME = re.compile(r"\W")


def test_name(kernel: str) -> str:
    """The test's name for a kernel."""
    return f"test_{_NO_NAME.sub('_', kernel)}"


def captured_test(name: str, kernel: Kernel, capture: str, source: str, flags: str, compiler: str) -> str:
    """The text of a test file.

    Args:
        name: the kernel's, in its capture.
        kernel: what was recorded; shapes of which no call is exact are left out.
        capture: the capture's directory, relative to the test file.
        source: the kernel's source, relative to the test file.
        flags: what the source was compiled with.
        compiler: and by what.
    """
    return "\n".join(_lines(name, kernel, capture, source, flags, compiler)) + "\n"


def _lines(name: str, kernel: Kernel, capture: str, source: str, flags: str, compiler: str) -> Iterator[str]:
    called = f"{test_name(name)[5:]} as a program called it, {kernel.calls} times"
    yield f'"""{called}. Written by acf capture; yours to edit."""'
    yield from ("", "import pytest", "from pytest_compileiq import Captured", "", "")
    yield "@pytest.mark.tune("
    yield "    Captured("
    yield f"        {json.dumps(f'{capture}/{name}')},"
    yield f"        {json.dumps(source)},"
    yield '        # -D and -I are not known here: like="compile_commands.json" in place of flags brings them'
    yield f"        flags={json.dumps(flags)},"
    yield from [f"        compiler={json.dumps(compiler)},"] if compiler != "gcc" else []
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
    yield "    kernel.check()  # every recorded call again, bit for bit; floats within check(rtol=…)"
    yield "    call = kernel.call(acf.workload.shape)"
    yield "    acf.measure(call, reset=call.restore, check=call.check)"
