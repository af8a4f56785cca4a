"""What relaxed maths brings a dot product, and what it costs in bits: the default space, and the one that asks for it.

    python bench/relaxed_maths.py [--budget 60]

Both winners are proven, and held on 32 draws to the sum in double precision.
"""

import argparse
import tempfile
from pathlib import Path

from libraries import run
from machine import describe

DOT_C = """\
void dot(const float *restrict x, const float *restrict y, int n, float *restrict out)
{
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * y[i];
    *out = sum;
}
"""
TEST_PY = """\
import ctypes

import numpy as np
import pytest
from pytest_compileiq import Cc

N = 65_536


@pytest.mark.tune(Cc("dot.c", flags="-O2 -march=x86-64-v3 -ffp-contract=off")SPACE)
def test_dot(acf):
    x, y = acf.rng.random((2, N), dtype=np.float32)
    out = np.empty(1, np.float32)
    dot = acf.build().load().dot
    x_at, y_at, out_at = (array.ctypes.data_as(ctypes.c_void_p) for array in (x, y, out))
    acf.measure(lambda: dot(x_at, y_at, N, out_at), outputs=[out])
    exact = np.dot(x.astype(np.float64), y)
    np.testing.assert_allclose(out, exact, rtol=1e-3)
    acf.compare("dot", out, reference=[exact])
"""
SPACES = {"default": "", "relaxed-maths": ', space=["default", "relaxed-maths"]'}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", default="60")
    options = parser.parse_args()
    print(describe())
    for name, space in SPACES.items():
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            (home / "dot.c").write_text(DOT_C)
            (home / "test_dot.py").write_text(TEST_PY.replace("SPACE", space))
            (home / "pytest.ini").write_text("[pytest]\n")
            print(f"\n{name}:")
            print(run(home, "--tune", f"--tune-budget={options.budget}").partition(" acf ===")[2])


if __name__ == "__main__":
    main()
