"""Kernel Tuner's classic examples, in ``examples/kernel_tuner``: built for sm_90a at the baseline and at another point."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

from pytest_compileiq.benchmark.marker import read_marker
from pytest_compileiq.benchmark.spaces import read_predicate
from pytest_compileiq.model import Candidate
from pytest_compileiq.space import Space
from pytest_compileiq.space.constraints import Where
from pytest_compileiq.toolchains.base import Place
from tests import needs

EXAMPLES = Path(__file__).parents[3] / "examples" / "kernel_tuner"
ENOUGH_S = 200.0
POINTS = {  # with the restrictions, and without
    "vector_add": (15, 15),
    "convolution": (489, 864),
    "matmul": (36, 288),
    "gemm": (30_200, 165_888),
    "reduction": (216, 216),
}


def test_every_example_is_built_here():
    assert {path.stem for path in EXAMPLES.glob("*.cu")} == POINTS.keys()


@needs.nvcc
@pytest.mark.parametrize("name", POINTS)
@pytest.mark.slow
def test_an_example_has_its_parameters_and_restrictions_and_builds_within_them(name, tmp_path):
    test = runpy.run_path(str(EXAMPLES / f"test_{name}.py"))[f"test_{name}"]
    spec = read_marker(test.pytestmark[0], test.__name__)
    every = Space.from_mapping(spec.space)
    where = Where(tuple(read_predicate(call, EXAMPLES) for call in spec.where))
    space = every.bounded(where) if spec.where else every
    assert (space.size, every.size) == POINTS[name]

    nvcc = spec.toolchain.resolve(Place(EXAMPLES, EXAMPLES))
    macros = {
        knob: value for knob, value in space.knobs(space.sample(np.random.default_rng(5))).items() if knob[0] == "-"
    }
    arms = (None, nvcc.render(Candidate(macros)))
    baseline, other = (nvcc.build(arm, tmp_path / str(bool(arm)), timeout_s=ENOUGH_S) for arm in arms)
    assert baseline.code.keys() == other.code.keys()
    assert baseline.digest != other.digest
    assert nvcc.why_without_effect(macros) is None
