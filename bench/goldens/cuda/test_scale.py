import pytest

from pytest_compileiq import Nvcc, choice, minimize


@pytest.mark.tune(
    Nvcc("scale.cu", arch="sm_90a", functions="scale", neighbours="allow"),
    objectives=[minimize("instructions")],
    space={"-Xptxas=-O": choice([1, 2]), "--use_fast_math": choice([""], knockout_prob=0.5)},
)
def test_scale(acf):
    acf.build()
