"""What compilers see of the environment, what of it is recorded, and what is named because they do not see it."""

from __future__ import annotations

import pytest

from pytest_compileiq.toolchains.environment import build_environment, deciding, kept_out, keyed_environment, named_in


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    for name in [*build_environment(), *deciding("nvcc"), *deciding("triton"), *kept_out("nvcc")]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/usr/bin")


@pytest.mark.parametrize(
    ("name", "is_seen", "is_keyed"),
    [
        ("CPATH", True, True),
        ("NVCC_APPEND_FLAGS", True, True),
        ("TRITON_DEFAULT_FP_FUSION", True, True),
        ("NIX_CFLAGS_COMPILE", True, True),
        ("HOME", True, False),
        ("CUDA_VISIBLE_DEVICES", True, False),
        ("PTXAS_FLAGS", False, False),
        ("CCC_OVERRIDE_OPTIONS", False, False),
        ("PYTEST_CURRENT_TEST", False, False),
    ],
)
def test_a_compiler_sees_what_the_allowlist_names(monkeypatch, name, is_seen, is_keyed):
    monkeypatch.setenv(name, "x")
    assert (name in build_environment(), name in keyed_environment()) == (is_seen, is_keyed)
    assert build_environment()["LC_ALL"] == "C"


def test_what_decides_is_recorded_by_value_for_the_compiler_that_reads_it(monkeypatch):
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-Xptxas -O1")
    monkeypatch.setenv("DISABLE_PTXAS_OPT", "1")
    monkeypatch.setenv("EMPTY", "")
    assert deciding("nvcc") == {"NVCC_APPEND_FLAGS": "-Xptxas -O1"}
    assert deciding("triton", ["EMPTY", "PATH"]) == {"DISABLE_PTXAS_OPT": "1", "PATH": "/usr/bin"}
    assert deciding("gcc") == {}


@pytest.mark.parametrize(
    ("name", "value", "recorded"),
    [
        ("NVCC_CCBIN", "/home/a/env/bin/g++-12", "g++-12"),
        ("NVCC_PREPEND_FLAGS", "-ccbin=/home/a/env/bin/g++ -O1", "-ccbin=g++ -O1"),
        ("NVCC_PREPEND_FLAGS", "--compiler-bindir /opt/g++", "--compiler-bindir g++"),
        ("NVCC_APPEND_FLAGS", "-DA " * 1000, "sha256 "),
        ("HUB_TOKEN", "hf_abc", "sha256 "),
    ],
)
def test_the_place_of_a_host_compiler_is_not_recorded_and_a_long_or_secret_value_is_by_digest(
    monkeypatch, name, value, recorded
):
    monkeypatch.setenv(name, value)
    assert deciding("nvcc", [name])[name].startswith(recorded)


def test_a_switch_that_says_what_holds_without_it_is_not_recorded(monkeypatch):
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "True")
    monkeypatch.setenv("DISABLE_PTXAS_OPT", "0")
    assert deciding("triton") == {}
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "0")
    assert deciding("triton") == {"TRITON_DEFAULT_FP_FUSION": "0"}


def test_what_a_compiler_would_read_and_does_not_see_is_named(monkeypatch):
    monkeypatch.setenv("NVVM_FLAGS", "-O0")
    assert (kept_out("nvcc"), kept_out("gcc")) == (["NVVM_FLAGS"], [])


def test_texts_that_name_variables_are_found_and_places_are_not(monkeypatch):
    monkeypatch.setenv("BLOCK", "64")
    assert named_in(["BLOCK", "NOT_SET", "PATH", "a text"]) == {"BLOCK"}
