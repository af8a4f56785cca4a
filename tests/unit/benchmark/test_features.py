"""What is known of a build without running it."""

from __future__ import annotations

import math

from pytest_compileiq.benchmark.features import features_of_build
from pytest_compileiq.testing.fakes import FakeBuilder, fake_benchmark


def test_metrics_are_features_on_a_logarithmic_scale(tmp_path):
    benchmark = fake_benchmark(tmp_path, FakeBuilder(lambda knobs: {"kernel": "x" * 99}))
    assert features_of_build(benchmark, benchmark.builds.get(None)) == {"code_bytes": round(math.log1p(99), 4)}
