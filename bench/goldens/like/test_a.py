import ctypes

import pytest

from pytest_compileiq import Cc, choice, minimize


@pytest.mark.tune(Cc("src/a.c", like="commands"), space={"-O": choice(["s", 1])}, objectives=[minimize("code_bytes")])
def test_like(acf):
    assert acf.build().load().total((ctypes.c_int * 3)(1, 2, 3), 3) == 18
