"""``acf capture`` of a program that launches by Triton's JIT, on a GPU: what the program and its tests compute."""

from __future__ import annotations

import runpy
import subprocess
import sys

import numpy as np
import pytest

from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.nvidia.device_array import DeviceArray
from tests import needs
from tests.driver.launching import KERNELS_PY
from tests.files import write_files
from tests.projects import Project

pytestmark = [pytest.mark.usefixtures("_computes"), needs.triton, needs.ptxas]
SERVE_PY = """\
import numpy as np
from kernels import softmax
from pytest_compileiq import DeviceArray

host = np.random.default_rng(7).standard_normal((128, 1920), dtype=np.float32)
x, out = DeviceArray(host), DeviceArray(np.full_like(host, np.nan))
for _ in range(3):
    softmax[(128,)](out, x, 1920, 1920, BLOCK=2048)
np.save("served.npy", out.host())
"""


def test_what_is_captured_computes_what_the_program_computed(tmp_path):
    project = Project(
        write_files(tmp_path, {"pytest.ini": "[pytest]\n", "kernels.py": KERNELS_PY, "serve.py": SERVE_PY})
    )
    subprocess.run([sys.executable, "serve.py"], cwd=tmp_path, check=True)
    alone = np.load(tmp_path / "served.npy")
    output = project.acf("capture", "--tests", "tests", "--", sys.executable, "serve.py", code=0)
    watched = np.load(tmp_path / "served.npy")
    np.testing.assert_array_equal(watched, alone)
    assert "test_softmax compiles to the PTX that was launched" in output

    marker = runpy.run_path(str(tmp_path / "tests/test_softmax.py"))["test_softmax"].pytestmark[0].args[0]
    builder = marker.resolve(Place(tmp_path / "tests", tmp_path))
    kernel = builder.load(builder.build(None, tmp_path / "built", timeout_s=120), set())
    host = np.random.default_rng(7).standard_normal((128, 1920), dtype=np.float32)
    out = DeviceArray(np.full_like(host, np.nan))
    kernel((128,), out, DeviceArray(host), 1920, 1920)
    np.testing.assert_allclose(out.host(), watched, rtol=1e-6)
