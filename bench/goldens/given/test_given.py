from dataclasses import dataclass

import pytest

from pytest_compileiq import Cc, choice, minimize

tuned = pytest.mark.tune(Cc("sum.c", flags="-O1"), space={"-O": choice([2, "s"])}, objectives=[minimize("code_bytes")])


@dataclass
class Case:
    n: int


@pytest.fixture(params=[[1, 2], [3]], ids=["pair", "one"])
def data(request):
    return request.param


@tuned
@pytest.mark.parametrize("case", [Case(3), Case(4)], ids=["three", "four"])
def test_case(acf, case):
    acf.build()


@tuned
def test_fixture(acf, data):
    acf.build()


class TestHeld:
    N = 5

    @tuned
    def test_method(self, acf):
        acf.build()
