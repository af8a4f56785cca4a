import pytest

from pytest_compileiq import Fortran, choice, minimize


@pytest.mark.tune(Fortran("dot.f90", flags="-O3"), space={"-O": choice(["s", 1])}, objectives=[minimize("code_bytes")])
def test_dot(acf):
    acf.build()
