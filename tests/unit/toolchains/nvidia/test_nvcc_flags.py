"""A marker's flags as nvcc takes them: paths from the root, and a sign where nvcc demands one."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import Candidate
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.nvidia.options import PTXAS, as_one_definition, split_nvcc_flags

ROOT = Path("/project")
PLACE = Place(ROOT / "kernels", ROOT)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("-Iinc -I inc -I=inc --include-path=inc", ["-Ikernels/inc"] * 4),
        ("-isystem inc -isystem=inc --system-include=inc --system-include inc", ["-isystem=kernels/inc"] * 4),
        ("-include ./a.h --pre-include=a.h", ["-include=./a.h", "-include=a.h"]),  # none is beside the test: a name
        ("-I/opt/x -isystem /opt/x -isystem /project/inc", ["-I/opt/x", "-isystem=/opt/x", "-isystem=inc"]),
        ("-x cu -D A=1 -DB=x=y", ["-x=cu", "-DA=1", "-DB=x=y"]),
        ("-Xptxas -v --ptxas-options=-v --threads 4", ["-Xptxas", "-v", "--ptxas-options=-v", "--threads", "4"]),
    ],
)
def test_flags_are_spelled_as_nvcc_takes_them(flags: str, words: list[str]) -> None:
    assert list(split_nvcc_flags(flags, PLACE)) == words


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["-O3"], "expected one string"),
        ("'", "No closing quotation"),
        ("-isystem", "-isystem needs a value"),
        ("-Xptxas -v -v", "'-v' cannot be used"),
        ("-O3 --keep", "'--keep' cannot be used"),
        ("-Xptxas=--apply-controls=k.acf", "built without controls"),
    ],
)
def test_flags_that_cannot_be_used_are_named(flags: object, sentence: str) -> None:
    with pytest.raises(MarkerError, match=sentence):
        split_nvcc_flags(flags, PLACE)


def test_a_definition_is_split_at_no_comma() -> None:
    assert as_one_definition('-DLIST=1,2,"a,b"') == '-DLIST=1\\,2\\,"a,b"'
    with pytest.raises(MarkerError, match="nvcc leaves backslashes out"):
        as_one_definition("-DA=\\n")


@pytest.mark.parametrize("flags", ["-o x.cubin", "-arch sm_90a", "-arch=sm_90a"])
def test_a_flag_that_the_plugin_gives_is_refused_as_it_was_written(flags: str) -> None:
    with pytest.raises(MarkerError, match=f": '{flags.split()[0]}' cannot be used: the plugin gives it"):
        split_nvcc_flags(flags, PLACE)


def test_a_digit_of_another_script_is_refused_in_a_controls_file() -> None:
    with pytest.raises(MarkerError, match="no option of ptxas that a controls file may hold"):
        PTXAS.render(Candidate({"--maxrregcount=": "\N{ARABIC-INDIC DIGIT THREE}"}))
