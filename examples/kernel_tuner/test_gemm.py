"""CLBlast's GEMM as Kernel Tuner's papers tune it: eleven of its parameters, and restrictions that leave a fraction."""

import numpy as np
import pytest

from pytest_compileiq import DeviceArray, Nvcc, choice, minimize

M, N, K = 512, 768, 256
BASELINE = {
    "MWG": 64, "NWG": 64, "KWG": 16, "MDIMC": 16, "NDIMC": 16, "MDIMA": 16, "NDIMB": 16, "VWM": 1, "VWN": 1, "SA": 1,
    "SB": 1,
}  # fmt: skip
VALUES = {
    "MWG": [16, 32, 64, 128],
    "NWG": [16, 32, 64, 128],
    "KWG": [16, 32],
    "MDIMC": [8, 16, 32],
    "NDIMC": [8, 16, 32],
    "MDIMA": [8, 16, 32],
    "NDIMB": [8, 16, 32],
    "VWM": [1, 2, 4, 8],
    "VWN": [1, 2, 4, 8],
    "SA": [0, 1],
    "SB": [0, 1],
}


@pytest.mark.tune(
    Nvcc("gemm.cu", arch="sm_90a", defines=BASELINE),
    space={f"-D{name}=": choice(values) for name, values in VALUES.items()},
    where=[
        lambda k: k["-DMWG="] % (k["-DMDIMC="] * k["-DVWM="]) == 0,
        lambda k: k["-DNWG="] % (k["-DNDIMC="] * k["-DVWN="]) == 0,
        lambda k: k["-DMWG="] % (k["-DMDIMA="] * k["-DVWM="]) == 0,
        lambda k: k["-DNWG="] % (k["-DNDIMB="] * k["-DVWN="]) == 0,
        lambda k: k["-DKWG="] % (k["-DMDIMC="] * k["-DNDIMC="] // k["-DMDIMA="]) == 0,
        lambda k: k["-DKWG="] % (k["-DMDIMC="] * k["-DNDIMC="] // k["-DNDIMB="]) == 0,
    ],
    objectives=[minimize("spill_bytes"), minimize("instructions")],
)
def test_gemm(acf):
    """Correct on the GPU, where there is one."""
    kernel = acf.build().load().gemm
    p = acf.params
    a, b = (acf.rng.standard_normal((K, columns), dtype=np.float32) for columns in (M, N))
    c = DeviceArray(np.full((M, N), np.nan, np.float32))
    grid, block = (N // p["NWG"], M // p["MWG"]), (p["MDIMC"], p["NDIMC"])
    kernel(grid, block, c, DeviceArray(a), DeviceArray(b), np.int32(M), np.int32(N), np.int32(K))
    np.testing.assert_allclose(c.host(), a.astype(np.float64).T @ b, rtol=1e-3, atol=1e-3)
