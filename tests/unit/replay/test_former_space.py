"""Committed options that the compiler's own space holds no more, asked of the real gcc."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from pytest_compileiq import PtxasSearchSpace, choice
from pytest_compileiq.artifact import Controls
from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.model import Candidate, sha256_hex
from pytest_compileiq.replay.committed import Integrity, Stop, formerly_held
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc.marker import Cc
from pytest_compileiq.toolchains.nvidia.markers import Nvcc
from pytest_compileiq.toolchains.nvidia.tools import installed
from tests import needs
from tests.files import write_files
from tests.unit.artifacts import make_artifact

KERNEL = "int f(int a) { return a; }"
RELAXED = {"-O": 3, "-fassociative-math": "", "-fno-signed-zeros": ""}
APPLIED = {"--maxrregcount=": 24, "-Xptxas=--register-usage-level=": 2}
OWN_SPACE = {"-O": choice([2, 3])}


def tuned(directory, text, flags, space) -> TunedBenchmark:
    (directory / "k.c").write_text(text)
    return benchmark_of(directory, Cc("k.c", flags=flags, compiler="gcc"), space)


def benchmark_of(directory, toolchain, space) -> TunedBenchmark:
    spec = SimpleNamespace(name="k", space=space, where=(), toolchain=toolchain)
    builder = toolchain.resolve(Place(directory, directory))
    return TunedBenchmark("t.py::t", spec, builder, None, print, (), directory, directory)


def read_back(benchmark, knobs, blob=None):
    """The stored controls, as a replay reads them."""
    controls = benchmark.builder.render(Candidate(knobs, blob))
    stored = Controls(kind=controls.kind, file="k.acf", sha256=sha256_hex(controls.data), size_bytes=1, knobs=knobs)
    store = SimpleNamespace(read_controls=lambda *_: controls.data)
    return Integrity(benchmark, store).controls(make_artifact(controls=stored))


@pytest.mark.parametrize(
    ("text", "flags", "space", "knobs", "expected"),
    [
        (KERNEL, "-O2", None, {"-O": 3}, None),
        (KERNEL, "-O2", None, RELAXED,
         ("-fassociative-math, -fno-signed-zeros (relaxed-maths)", "space=['default', 'relaxed-maths']")),
        (KERNEL, "-O2", "contraction", {"-ffp-contract=": "off", "-fno-signed-zeros": ""},
         ("-fno-signed-zeros (relaxed-maths)", "space=['contraction', 'relaxed-maths']")),
        (f"/* sets no errno */ {KERNEL}", "-O2", None, {"-fno-math-errno": ""},
         ("-fno-math-errno (environment)", "space=['default', 'environment']")),
        (KERNEL, "-O3", None, {"-O": 2}, ("-O2 (value-safe)", "")),
        (KERNEL, "-O2", OWN_SPACE, {"-funroll-loops": ""}, None),  # the test's own space: it never held it
        (KERNEL, "-O2", None, {"-fno-signed-zeros": "", "-fno-tree-ter": ""}, None),  # in no list: somebody changed it
    ],
)  # fmt: skip
def test_options_that_the_compilers_own_space_held_once_are_named_with_what_lets_them_in(
    tmp_path, text, flags, space, knobs, expected
):
    assert formerly_held(tuned(tmp_path, text, flags, space), knobs) == expected


def test_such_an_artifact_is_stale_and_not_corrupt(tmp_path):
    with pytest.raises(
        Stop, match=r"no longer holds -fassociative-math, -fno-signed-zeros \(relaxed-maths\)"
    ) as stopped:
        read_back(tuned(tmp_path, KERNEL, "-O2", None), RELAXED)
    assert stopped.value.verdict == "STALE"
    assert "space=['default', 'relaxed-maths'] in the marker lets them in" in stopped.value.remedy


@needs.nvcc
@pytest.mark.parametrize(
    ("space", "blob"),
    [
        pytest.param("options", None, id="words given by hand"),
        pytest.param([dict.fromkeys(APPLIED, choice([2, 24])), PtxasSearchSpace()], b"ACF", id="options beside an ACF"),
    ],
)
def test_a_build_that_applies_the_artifact_is_told_to_be_no_baseline(tmp_path, space, blob):
    command = "nvcc -arch=sm_90a --options-file k.flags -c k.cu"
    entry = {"directory": str(tmp_path), "command": command, "file": "k.cu"}
    files = {"k.cu": "", "k.flags": "--maxrregcount=24 -Xptxas=--register-usage-level=2"}
    write_files(tmp_path, {**files, "compile_commands.json": json.dumps([entry])})
    marker = Nvcc("k.cu", arch="sm_90a", like=".", compiler=next(installed("nvcc")).program)
    with pytest.raises(Stop, match=r"like='\.' names a command that applies --maxrregcount=24 -Xptxas=") as stopped:
        read_back(benchmark_of(tmp_path, marker, space), APPLIED, blob)
    assert "without what acf flags gave it" in stopped.value.remedy
