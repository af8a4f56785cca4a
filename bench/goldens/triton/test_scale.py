import pytest

from pytest_compileiq import Triton, choice, minimize


@pytest.mark.tune(
    Triton(
        "kernels.py::scale",
        signature={"x": "*fp32:16", "y": "*fp32:16", "n": "i32"},
        constexprs={"BLOCK": 512},
        arch="sm_90a",
    ),
    space={"num_warps": choice([2, 8])},
    objectives=[minimize("registers")],
)
def test_scale(acf):
    acf.build()
