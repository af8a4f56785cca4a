import ctypes

import numpy as np
import pytest

from pytest_compileiq import Cc, draws, literal, minimize


def tune(option, flags):
    return pytest.mark.tune(
        Cc("sums.c", flags=flags), space={option: literal("")}, objectives=[minimize("instructions")], stress=20
    )


def summed(acf):
    x = draws.normal(acf.rng, 4096)
    kahan = acf.build().load().kahan
    kahan.restype = ctypes.c_float
    return [np.float32(kahan(x.ctypes.data_as(ctypes.c_void_p), x.size))], [x.sum(dtype=np.float64)]


@tune("-funsafe-math-optimizations", "-O2")
def test_wrong(acf):
    values, reference = summed(acf)
    acf.compare("sum", values, reference=reference)


@tune("-fno-unroll-loops", "-O1 -funroll-loops")
def test_right(acf):
    values, reference = summed(acf)
    acf.compare("sum", values, reference=reference)
