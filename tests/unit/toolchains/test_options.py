"""Which options may be committed: the tool's own by their form, others by the maintainers' word, some by nobody's."""

from __future__ import annotations

import pytest

from pytest_compileiq.config import NamedOptions, why_no_entries
from pytest_compileiq.space import range as steps
from pytest_compileiq.toolchains.cc.known_options import CLANG, GCC
from pytest_compileiq.toolchains.nvidia.options import NVCC, PTXAS
from pytest_compileiq.toolchains.options import OptionList, options_of

LISTS = {"gcc": GCC, "clang": CLANG, "ptxas": PTXAS, "nvcc": NVCC}
NOBODY = NamedOptions()


@pytest.mark.parametrize("compiler", LISTS)
def test_whatever_a_default_space_draws_may_be_committed(compiler: str) -> None:
    options = LISTS[compiler]
    assert options.compiler == compiler
    for option in options.known:
        for value in option.drawn.values:
            assert options.why_not([f"{option.name}{value}"], NOBODY) is None, f"{option.name}{value}"


@pytest.mark.parametrize(
    ("options", "name", "value"),
    [
        (GCC, "-O3", ""),
        (GCC, "-O", 0),
        (GCC, "-falign-loops=", 99999),
        (GCC, "--param=max-unroll-times=", 7),
        (PTXAS, "--maxrregcount=", 40),
        (NVCC, "-Xptxas=-O", 4),
    ],
)
def test_a_number_may_be_another_than_the_space_draws(options: OptionList, name: str, value: int | str) -> None:
    assert options.why_not([f"{name}{value}"], NOBODY) is None


@pytest.mark.parametrize(
    ("options", "name", "value"),
    [
        (GCC, "-falign-loops=", 100000),
        (GCC, "-falign-loops=", "16.5"),
        (GCC, "-falign-loops=", -1),
        (GCC, "-ffp-contract=", "on"),  # a word of clang's
        (GCC, "-O", "fast"),
        (GCC, "-f", "no-stack-protector"),
        (GCC, "-funroll-loops", "=2"),
        (GCC, "-fno-vectorize", ""),  # clang's
        (CLANG, "-fno-ivopts", ""),  # gcc's
        (GCC, "--param=ira-max-loops-num=", 5),
        (PTXAS, "--return-at-end", ""),
        (GCC, "-DTILE=", 8),
        (CLANG, "-DUSE_LUT", ""),
        (NVCC, "-DTYPE=", "float"),
        (NVCC, "-Xptxas=--maxrregcount=", 40),
    ],
)
def test_what_is_not_known_takes_the_line_that_the_refusal_prints(options: OptionList, name: str, value: str) -> None:
    reason = options.why_not([f"{name}{value}"], NOBODY)
    assert reason is not None
    before, _, line = reason.rpartition(": ")
    assert before.endswith("in [pytest] of pytest.ini") and line.startswith("acf_options = ")
    assert options.why_not([f"{name}{value}"], NamedOptions(tuple(line.split()[2:]))) is None


@pytest.mark.parametrize(
    ("options", "name", "value"),
    [
        (GCC, "-fplugin=", "evil"),
        (GCC, "-march=", "native"),
        (GCC, "-DTILE=", "8 -wrapper"),
        (GCC, "-DTILE=", "/etc/passwd"),
        (GCC, "-D", "TILE(x)=x"),
        (NVCC, "-DTILE=", "8,16"),  # nvcc would split it
        (PTXAS, "-DTILE=", 8),
        (GCC, "-wrapper", ""),
        (GCC, "@", "file"),
        (GCC, "-falign-loops=", "/etc/passwd"),
        (GCC, "-funroll-loops", "\n-fplugin=evil"),
        (PTXAS, "--options-file=", "more"),
        (PTXAS, "--output-file=", "x"),
        (NVCC, "--compiler-bindir=", "x"),
        (NVCC, "-Xcompiler=", "-fplugin=evil"),
        (NVCC, "-fno-stack-protector", ""),
        (GCC, "-falign-loops=", "٣"),  # a digit of another script
        (PTXAS, "--maxrregcount=", "٣"),
        (NVCC, "-Xptxas=--minnctapersm=", "٣"),
    ],
)
def test_what_runs_programs_or_touches_files_is_refused_whatever_is_named(
    options: OptionList, name: str, value: str
) -> None:
    reason = options.why_not([f"{name}{value}"], NamedOptions((f"{name}{value}", name)))
    assert reason is not None and "may ever stand in a controls file" in reason and "acf_options" not in reason


def test_a_line_lets_in_all_that_is_not_known() -> None:
    reason = GCC.why_not(
        options_of({"-O": 3, "-DTILE=": 8, "-DUSE_LUT": "", "-fno-tree-ter": ""}), NamedOptions(("-fno-dce",))
    )
    assert reason is not None and reason.startswith("'-DTILE=8', '-DUSE_LUT', '-fno-tree-ter' are none of the options")
    assert reason.endswith(": acf_options = -fno-dce -DTILE= -DUSE_LUT -fno-tree-ter")


def test_an_entry_is_a_whole_option_or_ends_before_one_value() -> None:
    named = NamedOptions(("-fno-dce", "-fdce=", "--param=a="))
    assert all(map(named.hold, ("-fno-dce", "-fdce=1", "-fdce=fast-1.5+x", "--param=a=12")))
    refused = ("-fno-dce2", "-fno-dc", "-fdce", "-fdce=list=x", "-fdce=a,b", "-fdce=-x", "-fdce=/x", "-fdce=1\n")
    assert not any(map(named.hold, (*refused, "--param=b=12")))


def test_the_line_keeps_what_is_named_and_is_written_as_its_file_is() -> None:
    ini = NamedOptions(("-fno-dce",), "[pytest] of tox.ini")
    assert ini.line_for("--param=a=12") == "acf_options = -fno-dce --param=a="
    toml = NamedOptions(("-fno-dce",), "[pytest] of pytest.toml", as_list=True)
    assert toml.line_for("-fno-dse") == 'acf_options = ["-fno-dce", "-fno-dse"]'


@pytest.mark.parametrize(
    "entry", ["", "-", "--", "fno-dce", "-f dce", "-f/x", "@x", "-f|sh", "-fé", "-f" + "x" * 300, "-fdce\n"]
)
def test_an_entry_that_is_no_option_is_refused(entry: str) -> None:
    assert why_no_entries([entry]) is not None


def test_a_range_that_no_option_takes_ends_with_a_number_that_is_too_long() -> None:
    """Why a space may be judged by the last number of a range that is too long to be looked through."""
    values = steps(0, 100_001).values
    assert GCC.why_not([f"-falign-loops={values[-1]}"], NOBODY) is not None
