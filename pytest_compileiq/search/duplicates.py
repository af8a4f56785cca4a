"""What makes two sets of controls one measurement."""

from __future__ import annotations

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.model import ControlsFile, sha256_hex
from pytest_compileiq.toolchains.macros import params_in

Key = tuple[str, tuple[tuple[str, object], ...]]


def key_of(benchmark: TunedBenchmark, controls: ControlsFile | None, digest: str) -> Key:
    """Equal for equal machine code and equal parameters, the baseline's (None) included.

    Where the time to compile is an objective, only equal controls are one: equal machine code may take unequal times.
    """
    params = tuple(sorted(params_in(benchmark.builder, controls.knobs if controls else {}).items()))
    compiling = any(objective.metric == "compile_time" for objective in benchmark.objectives)
    return (controls.key if compiling and controls else digest), params


def name_of(key: Key) -> str:
    """A short name of the key, for those who only need to know which keys are equal."""
    return sha256_hex(repr(key).encode())[:16]


def built_key(benchmark: TunedBenchmark, controls: ControlsFile | None) -> Key:
    """The key of controls that build."""
    return key_of(benchmark, controls, benchmark.builds.get(controls).digest)
