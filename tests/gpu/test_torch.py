"""Work that torch and Triton's JIT launch, on a GPU with torch."""

from __future__ import annotations

import pytest

from pytest_compileiq.timing.cuda import CudaClock
from pytest_compileiq.timing.launching import choose_launching

torch = pytest.importorskip("torch", reason="no torch")
pytestmark = pytest.mark.usefixtures("_computes")


@pytest.fixture
def product():
    """A call whose work lasts some hundred microseconds."""
    matrix = torch.ones(2048, 2048, device="cuda")
    out = torch.empty_like(matrix)
    return lambda: torch.mm(matrix, matrix, out=out)


def seconds(call, wanted=None) -> float:
    return CudaClock(choose_launching({"tuned": call}, wanted)).seconds(call, 5)


def test_torchs_work_takes_as_long_in_a_graph_as_launched(product):
    assert choose_launching({"tuned": product}, None).launch == "eager"
    assert 0.8 < seconds(product, "graph") / seconds(product) < 1.25


def test_a_side_stream_of_torch_is_timed_too(product):
    side = torch.cuda.Stream()

    def call():
        with torch.cuda.stream(side):
            product()

    assert 0.8 < seconds(call) / seconds(product) < 1.25
