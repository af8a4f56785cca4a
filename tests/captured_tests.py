"""A tuned test of a captured kernel, by the size of its code, which every machine counts alike."""

from __future__ import annotations

_TEST_PY = """\
import pytest
from pytest_compileiq import Captured, literal, minimize

@pytest.mark.tune(
    Captured("acf-capture/{name}", "kernels.c", flags="-O3 -march=x86-64 {flags}", neighbours="allow"),
    space={{"-fno-tree-loop-vectorize": literal("")}},
    objectives=[minimize("code_bytes")],
    workloads={{"first": dict(shape=0), "second": dict(shape=1)}},
    budget=1,
)
def test_{name}(acf):
    kernel = acf.build().load()
"""


def captured_test(name: str, body: str, flags: str = "") -> str:
    """The text of the test of kernel ``name``, whose ``body`` has the loaded ``kernel``; ``flags`` are the baseline's."""
    return _TEST_PY.format(name=name, flags=flags) + body
