import pytest

from pytest_compileiq import Cc, choice, minimize


@pytest.mark.tune(
    Cc("paths.c", defines={"SWAP": 0}),
    space={"-DSWAP=": choice([0, 1])},
    objectives=[minimize("instructions", of="hot*"), minimize("code_bytes", of="hot_path")],
)
def test_both(acf):
    acf.build()


@pytest.mark.tune(
    Cc("paths.c", functions="hot_path", neighbours="allow", defines={"SWAP": 0}),
    space={"-O": choice(["s", 1])},
    objectives=[minimize("instructions")],
)
def test_hot(acf):
    acf.build()
