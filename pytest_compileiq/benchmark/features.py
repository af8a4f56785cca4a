"""What the machine code of a build says about its speed, beside the exact metrics that it comes with."""

from __future__ import annotations

import math
from collections.abc import Mapping

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.model import BuildResult
from pytest_compileiq.toolchains.machine_code.features import features_of

_DIGITS = 4  # more would only make a journal longer


def features_of_build(benchmark: TunedBenchmark, build: BuildResult) -> Mapping[str, float]:
    """Name → number, counts as log(1 + n); empty where nothing is known of this kind of machine code.

    What an objective of ``benchmark`` equals is left out: it is told, and would only be predicted from itself.
    """
    objectives = {objective.measured for objective in benchmark.exact_objectives}
    metrics = {name: math.log1p(max(value, 0)) for name, value in build.metrics.items()}
    features = {**metrics, **features_of(build.path)}
    return {name: round(value, _DIGITS) for name, value in features.items() if name not in objectives}
