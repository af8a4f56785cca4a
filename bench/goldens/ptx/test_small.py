import pytest

from pytest_compileiq import Ptxas, choice, minimize


@pytest.mark.tune(
    Ptxas("small.ptx", arch="sm_90a"),
    space={"-O": choice([1, 2])},
    objectives=[minimize("code_bytes"), minimize("registers")],
)
def test_small(acf):
    acf.build()
