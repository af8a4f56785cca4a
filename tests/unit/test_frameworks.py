"""What each framework is told, as text; that it does what it is told is in ``tests/e2e/test_docs.py``."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from pytest_compileiq import frameworks
from pytest_compileiq.errors import BodyError, EnvironmentFault

ACF = "--apply-controls=/cache/3f9c.acf"
FOR_NVCC = f"-Xptxas={ACF}"
CACHE = Path("/cache")
FRAGMENTS = {
    "triton": frameworks.triton_options,
    "helion": frameworks.helion_options,
    "cute": frameworks.cute_options,
    "torch extension": frameworks.torch_extension_flags,
    "flashinfer": lambda options: frameworks.flashinfer_environment(options, {}, CACHE),
    "inductor": lambda options: frameworks.inductor_environment(options, {}, CACHE),
}


def test_the_baseline_is_told_nothing():
    assert frameworks.triton_options(()) == {}
    assert frameworks.helion_options(()) == {}
    assert frameworks.cute_options(()) == ""
    assert frameworks.torch_extension_flags(()) == []
    assert "FLASHINFER_EXTRA_CUDAFLAGS" not in frameworks.flashinfer_environment((), {}, CACHE)
    assert "PTXAS_OPTIONS" not in frameworks.inductor_environment((), {}, CACHE)


def test_triton_is_told_by_one_string_that_it_splits_at_blanks():
    assert frameworks.triton_options((ACF, "--maxrregcount=64")) == {"ptx_options": f"{ACF} --maxrregcount=64"}


def test_helion_is_told_the_path_alone():
    assert frameworks.helion_options((ACF,)) == {"advanced_controls_file": "/cache/3f9c.acf"}


def test_helion_refuses_an_option_that_it_could_not_hand_on():
    with pytest.raises(BodyError, match=r"--maxrregcount=64.*leave space= at its default"):
        frameworks.helion_options((ACF, "--maxrregcount=64"))


def test_cute_gets_the_assembler_options_as_one_word():
    assert shlex.split(frameworks.cute_options((ACF, "-O2"))) == ["--ptxas-options", f"{ACF} -O2"]


def test_a_torch_extension_gets_the_flags_of_nvcc_as_they_are():
    assert frameworks.torch_extension_flags((FOR_NVCC, "--fmad=false")) == [FOR_NVCC, "--fmad=false"]


def test_flashinfer_keeps_the_flags_that_its_user_gives_in_both_arms():
    given = {"FLASHINFER_EXTRA_CUDAFLAGS": "-DMINE", "PATH": "/bin"}
    baseline = frameworks.flashinfer_environment((), given, CACHE)
    tuned = frameworks.flashinfer_environment((FOR_NVCC,), given, CACHE)
    assert baseline["FLASHINFER_EXTRA_CUDAFLAGS"] == "-DMINE"
    assert shlex.split(tuned["FLASHINFER_EXTRA_CUDAFLAGS"]) == ["-DMINE", FOR_NVCC]
    assert tuned["PATH"] == "/bin" and given == {"FLASHINFER_EXTRA_CUDAFLAGS": "-DMINE", "PATH": "/bin"}


def test_inductor_is_told_by_the_variable_that_triton_reads():
    tuned = frameworks.inductor_environment((ACF,), {"PTXAS_OPTIONS": "-v"}, CACHE)
    assert tuned["PTXAS_OPTIONS"] == f"-v {ACF}"


@pytest.mark.parametrize(
    ("environment_of", "names"),
    [
        (frameworks.flashinfer_environment, ["FLASHINFER_WORKSPACE_BASE"]),
        (frameworks.inductor_environment, ["TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"]),
    ],
    ids=["flashinfer", "inductor"],
)
def test_every_arm_has_its_own_caches_and_finds_them_again(environment_of, names):
    arms = [(), (ACF,), ("--apply-controls=/cache/77ab.acf",)]
    for name in names:
        homes = [environment_of(options, {}, CACHE)[name] for options in arms]
        assert len(set(homes)) == len(arms) and all(home.startswith("/cache/") for home in homes)
        assert homes == [environment_of(options, {}, CACHE)[name] for options in arms]


@pytest.mark.parametrize("character", [" ", ",", "'", '"', "$", "\\", ";", "\n"])
@pytest.mark.parametrize("framework", FRAGMENTS)
def test_a_path_that_the_framework_would_split_is_refused_with_the_remedy(framework, character):
    with pytest.raises(EnvironmentFault, match="set XDG_CACHE_HOME to a plain path"):
        FRAGMENTS[framework]((f"--apply-controls=/home/a{character}b/3f9c.acf",))


def test_a_path_of_letters_of_any_alphabet_is_plain():
    option = "--apply-controls=/home/zoë-ж/3f_9c+~%@:1.acf"
    assert frameworks.triton_options((option,)) == {"ptx_options": option}
