from pathlib import Path

import pytest

from pytest_compileiq.errors import BuildError, MarkerError
from pytest_compileiq.machine_code.cubin import Cubin
from pytest_compileiq.machine_code.names import demangled, outline
from pytest_compileiq.model import CodeDigest
from pytest_compileiq.toolchains.nvidia.instantiations import Instantiations, instantiations

REDUCE = "_Z6reduceIfLi256EEvPT_"
LABELS = {  # as nvcc 13.3 writes them: substitutions count from the label's own names
    1: "_ZN16pytest_compileiq5labelILi1EPFvPfEXadL_Z6reduceIfLi256EEvPT_EEEEvv",
    2: "_ZN16pytest_compileiq5labelILi2EPFvPfEXadL_Z5plainS1_EEEEvv",
    3: "_ZN16pytest_compileiq5labelILi3EPFvPfEXadL_Z4overS1_EEEEvv",
}
OTHERS = (REDUCE, "plain", "_Z4overPf", "_Z4overPd", "_Z5plaini", "plai")


def cubin(*symbols: str) -> Cubin:
    names = {symbol: symbol for symbol in symbols}
    entries = {symbol: CodeDigest(f"in this file {symbol}", {"registers": 8}) for symbol in symbols}
    return Cubin(entries, names, "", "", is_separate=False, is_linked=False)


def test_entries_go_by_their_expressions_and_labels_are_left_out():
    kernels = Instantiations("k.cuh", ("reduce<float, N>", "plain", "(void (*)(float *)) over"))
    named = kernels.named(cubin(*LABELS.values(), *OTHERS))
    assert named.symbols == {
        "reduce<float, N>": REDUCE,
        "plain": "plain",
        "(void (*)(float *)) over": "_Z4overPf",
        **{symbol: symbol for symbol in ("_Z4overPd", "_Z5plaini", "plai")},
    }
    assert named.entries["reduce<float, N>"] == CodeDigest(f"in this file {REDUCE}", {"registers": 8}, symbol=REDUCE)
    assert named.entries["plain"] == CodeDigest("in this file plain", {"registers": 8})


def test_two_expressions_may_name_one_entry():
    labels = (LABELS[1], LABELS[1].replace("Li1E", "Li2E"))
    named = Instantiations("k.cuh", ("reduce<float, N>", "reduce<float, 256>")).named(cubin(*labels, REDUCE))
    assert named.symbols == {"reduce<float, N>": REDUCE, "reduce<float, 256>": REDUCE}


def test_a_kernel_of_many_parameters_is_named_though_its_label_is_too_long_for_a_stranger_s_symbol():
    symbol = f"_Z1zIfdEvPT_PT0_{'S1_S3_' * 6}"
    label = f"_ZN16pytest_compileiq5labelILi1EPFvPfPd{'S1_S2_' * 6}EXadL_Z1zIfdEvPT_PT0_{'S7_S9_' * 6}EEEEvv"
    assert demangled(label) == outline(label)
    named = Instantiations("k.cuh", ("z<float,double>",)).named(cubin(label, symbol))
    assert named.symbols == {"z<float,double>": symbol}


def test_instantiations_that_a_macro_may_name_too_are_left_out():
    others = (REDUCE.replace("256", "64"), "_Z6reducePf", "plain")
    assert Instantiations("k.cu", ("reduce<float,256>",)).named(cubin(LABELS[1], REDUCE, *others)).symbols.keys() == {
        "reduce<float,256>",
        *others,
    }
    assert Instantiations("k.cu", ("reduce<float, TILE>",)).named(cubin(LABELS[1], REDUCE, *others)).symbols.keys() == {
        "reduce<float, TILE>",
        *others[1:],
    }


def test_without_expressions_nothing_is_touched():
    everything = cubin(*OTHERS)
    assert Instantiations("k.cu", ()).named(everything) is everything
    assert Instantiations("k.cu", ()).words_to_compile(Path("/nowhere")) == ("k.cu",)


def test_what_is_no_kernel_is_refused_by_its_declaration():
    kernels = Instantiations("k.cuh", ("helper",))
    with pytest.raises(BuildError, match=r"'helper' names no kernel .* of k.cuh: nvcc reads it as .*, &\(over\(fl"):
        kernels.named(cubin(LABELS[3].replace("Li3E", "Li1E"), REDUCE))


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('instantiate=(2): error: identifier "b" is undefined', "instantiate='b<2>': identifier \"b\" is undefined"),
        ("instantiate=:1:47: error: missing )", "instantiate='a<1>': missing )"),
        ("k.cuh(3): error: expected a ;", "k.cuh(3): error: expected a ;"),
        ("instantiate=(7): error: expected a )", "instantiate=(7): error: expected a )"),
    ],
)
def test_an_error_in_our_file_names_the_expression(line, sentence):
    assert Instantiations("k.cuh", ("a<1>", "b<2>")).first_error(f"warning: w\n{line}\n  code\n") == sentence


@pytest.mark.parametrize(
    ("source", "given", "output", "message"),
    [
        ("k.cuh", "reduce", "cubin", "expected a list of kernels"),
        ("k.cuh", None, "cubin", "expected a list of kernels"),
        ("k.cuh", [1], "cubin", "expected what names a kernel"),
        ("k.cuh", [" "], "cubin", "expected what names a kernel"),
        ("k.cuh", ["f<1>\n#include <x>"], "cubin", "expected what names a kernel"),
        ("k.cuh", ["f<1>", "f<1> "], "cubin", "'f<1>' stands twice"),
        ("k.cuh", ["f" * 2000], "cubin", r"2000 characters, and an artifact holds 1986: give its types shorter names"),
        ("k.cu", ["f<1>"], "library", "a library instantiates what its host code launches"),
        ("a,b.cuh", ["f<1>"], "cubin", "nvcc splits paths at commas"),
        ("k.cuh", [], "cubin", r"name them, as in instantiate=\['reduce<float, 256>'\]"),
    ],
)
def test_what_cannot_be_instantiated_is_said(source, given, output, message):
    with pytest.raises(MarkerError, match=message):
        instantiations(source, given, output)
