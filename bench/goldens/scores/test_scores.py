import pytest

from pytest_compileiq import Params, choice, minimize
from pytest_compileiq import range as steps


@pytest.mark.tune(
    Params({"width": 8, "kind": "a"}),
    space={"width": steps(1, 16), "kind": choice(["a", "b"])},
    objectives=[minimize("error"), minimize("cost")],
)
def test_scores(acf):
    width, kind = acf.params["width"], acf.params["kind"]
    acf.record(error=abs(width - 5) + (kind == "a"), cost=width)
