"""A captured kernel is tuned, proven and replayed on the calls that its program made, without the program."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.captured_tests import captured_test
from tests.files import write_files
from tests.projects import UNREDUCED_INI, Project
from tests.six_kernels import write_program

pytestmark = pytest.mark.slow

BODY_PY = """\
    kernel.check(rtol=1e-12)
    call = kernel.call(acf.workload.shape)
    acf.measure(call, reset=call.reset, check=lambda: call.check(rtol=1e-12))
"""


@pytest.fixture(scope="module")
def _captured(tmp_path_factory) -> Path:
    root = write_program(tmp_path_factory.mktemp("program"))
    project = Project(root)
    project.acf("capture", "--", sys.executable, "program.py", "8")
    (root / "kernels.so").unlink()  # what is replayed is built from source
    (root / "program.py").unlink()
    return write_files(root, {"pytest.ini": UNREDUCED_INI})


@pytest.fixture
def captured(_captured, tmp_path) -> Project:
    shutil.copytree(_captured, tmp_path / "project")
    return Project(tmp_path / "project")


def test_a_kernel_is_tuned_on_its_recorded_calls_and_replayed(captured):
    write_files(captured.root, {"test_branchy.py": captured_test("branchy", BODY_PY)})  # it works in place
    assert "TUNED" in captured.pytest("--tune", code=0)
    assert "1 passed" in captured.pytest(code=0)
    record = captured.root / "acf-capture/branchy/kernel.json"
    record.write_text(record.read_text().replace('"share": 0.', '"share": 0.0'))
    output = captured.pytest("-rA", code=0)
    assert "acf-capture/branchy/kernel.json (changed): the machine code is the same" in output
    kernel = json.loads(record.read_text())
    del kernel["shapes"][0]["kept"][-1]
    record.write_text(json.dumps(kernel))
    output = captured.pytest(code=1)
    assert "STALE: the benchmark changed: data acf-capture/branchy/kernel.json" in " ".join(output.split())


def test_a_kernel_that_does_something_else_fails_on_the_record(captured):
    names = ("gather", "reduction", "ragged", "stencil")
    write_files(captured.root, {f"test_{name}.py": captured_test(name, BODY_PY) for name in names})
    assert "4 passed" in captured.pytest("--acf-check=off", code=0)
    captured.edit("kernels.c", "out[i] = table[index[i]]", "out[i] = table[index[i] / 2]")
    captured.edit("kernels.c", "sum += x[i];\n    return", "sum += x[i] + 1e-9;\n    return")
    output = captured.pytest("--acf-check=off", code=1)
    assert re.search(r"gather, call \d+: argument 3 differs from the record in ", output)
    assert re.search(
        r"reduction, call \d+: the result differs from the record in 1 of 1 values beyond rtol=1e-12", output
    )
    assert "2 failed, 2 passed" in output


def test_a_baseline_that_jitters_within_its_precision_passes_and_a_wrong_result_does_not(captured):
    write_files(captured.root, {"test_reduction.py": captured_test("reduction", BODY_PY)})
    jitters = "static int calls;\n    return sum * (1 + 1e-10 * (calls++ % 2));"
    captured.edit("kernels.c", "sum += x[i];\n    return sum;", f"sum += x[i];\n    {jitters}")
    assert "1 passed" in captured.pytest("--acf-check=off", code=0)
    captured.edit("kernels.c", "1 + 1e-10", "1.000001 + 1e-10")
    output = captured.pytest("--acf-check=off", code=1)
    beyond = r"reduction, call \d+: the result differs from the record in 1 of 1 values beyond rtol=1e-12, atol="
    assert re.search(beyond, output)


def test_a_capture_that_is_not_there_is_named_with_what_makes_it(captured):
    write_files(captured.root, {"test_gather.py": captured_test("gather", BODY_PY)})
    (captured.root / "acf-capture/gather/kernel.json").unlink()
    output = captured.pytest("--acf-check=off", code=1)
    assert "acf-capture/gather/kernel.json is missing; make it with acf capture -- python PROGRAM" in output
