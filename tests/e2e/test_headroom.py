"""``pytest --tune-headroom`` as a user runs it: on gcc, and on a GPU's kernel where there is no GPU."""

from __future__ import annotations

import json

import pytest

from tests import needs
from tests.examples import KERNEL_C, KERNEL_H, TEST_PY

TIMED_ON_A_GPU = """
import pytest
from pytest_compileiq import Nvcc, choice

@pytest.mark.tune(Nvcc("scale.cu", arch="sm_90a"), space={"-Xptxas=-O": choice([0, 1, 2])})
def test_scale(acf):
    raise AssertionError("a body that nobody runs here")
"""
SCALE_CU = 'extern "C" __global__ void scale(float *x) { x[threadIdx.x] *= 2.0f; }\n'


def test_a_look_says_what_a_search_could_find_and_writes_no_artifact(project):
    made = project(
        {"kernel.c": KERNEL_C, "kernel.h": KERNEL_H, "test_kernel.py": TEST_PY + "\ndef test_other(): pass\n"}
    )
    output = made.pytest("--tune-headroom", "--acf-report=report.json", code=0)
    assert "1 passed, 1 deselected" in output and "HEADROOM" in output
    assert "nothing is proven by this, and nothing was written; pytest --tune searches" in output
    (item,) = json.loads((made.root / "report.json").read_text())["items"]
    found = item["headroom"]
    assert item["verdict"] == "HEADROOM" and found["candidates"] == 4 and found["whole_space"]
    assert "among 4 candidates, all of the space" in output and "in 8 h" not in output
    assert 1 <= found["distinct"] <= 4 and found["seconds_a_build"] > 0 and found["seconds_an_evaluation"] > 0
    assert found["metrics"]["code_bytes"]["lowest"] <= found["metrics"]["code_bytes"]["highest"]
    assert {path.name for path in made.root.iterdir()} <= {
        "kernel.c", "kernel.h", "test_kernel.py", "pytest.ini", "report.json", "__pycache__",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--tune", "--tune-headroom"), "--tune-headroom looks before a search: leave --tune out"),
        (("--tune-headroom", "--tune-draw=1"), "leave --tune out"),
    ],
)
def test_it_stands_for_itself(project, options, told):
    assert told in project({"test_nothing.py": ""}).pytest(*options, code=4)


@needs.nvcc
def test_a_kernel_of_a_gpu_is_looked_at_without_one(project):
    made = project({"scale.cu": SCALE_CU, "test_scale.py": TIMED_ON_A_GPU})
    output = made.pytest("--tune-headroom", "--acf-report=report.json", code=0)
    (item,) = json.loads((made.root / "report.json").read_text())["items"]
    assert item["headroom"]["candidates"] == 3 and "registers" in item["headroom"]["metrics"]
    if item["headroom"]["seconds_an_evaluation"] is None:
        assert "no evaluation was timed: " in output
