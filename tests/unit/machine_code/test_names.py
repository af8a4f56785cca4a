import subprocess
import sys

import pytest

from pytest_compileiq.machine_code.names import listed, matching, readable

REDUCE = "_Z6reduceIfLi256EEvPT_"
IN_NAMESPACE = "_ZN2ns5scaleEPfi"
CALL = "_ZNK3FooclEi"
CONVERSION = "_ZN1AcvbEv"
ANONYMOUS = "_ZN12_GLOBAL__N_11gEv"
OF_POINTER = "_Z5applyIPFviEEvT_"
CONSTRUCTORS = ["_ZN2ns3FooC1Ei", "_ZN2ns3FooC2Ei"]
TIMES, DIVIDE = "_ZmlRK1VS1_", "_ZdvRK1VS1_"
OF_ARRAY = "_Z3sumRA4_i"
PROCEDURE = "__kernels_MOD_saxpy"
OF_A_FILE = (  # of relocatable device code
    "__nv_static_26__00000000_5_st_cu__Z4hostv__ZN37_GLOBAL__N__00000000_5_st_cu__Z4hostv3oneI1SIS1_IfEEEEvPT_"
)
ENTRIES = [
    *CONSTRUCTORS,
    TIMES,
    DIVIDE,
    OF_ARRAY,
    PROCEDURE,
    OF_A_FILE,
    REDUCE,
    IN_NAMESPACE,
    CALL,
    CONVERSION,
    ANONYMOUS,
    OF_POINTER,
    "LZ4_compress_default",
    "LZ4_compress_fast",
]


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        (REDUCE, "reduce<float, 256>"),
        (OF_A_FILE, "(anonymous namespace)::one<S<S<float> > >"),
        (IN_NAMESPACE, "ns::scale"),
        (CALL, "Foo::operator()"),
        (CONVERSION, "A::operator bool"),
        (ANONYMOUS, "(anonymous namespace)::g"),
        (OF_POINTER, "apply<void (*)(int)>"),
        (f"{REDUCE}@sm_90a", "reduce<float, 256>@sm_90a"),
        ("LZ4_compress_default", "LZ4_compress_default"),
        (PROCEDURE, "kernels::saxpy"),
        ("_Znonsense", "_Znonsense"),
    ],
)
def test_an_entry_is_called_as_its_source_spells_it(entry, name):
    assert readable(entry) == name


@pytest.mark.parametrize(
    ("pattern", "entries"),
    [
        ("LZ4_compress_default", ["LZ4_compress_default"]),
        ("LZ4_*", ["LZ4_compress_default", "LZ4_compress_fast"]),
        (REDUCE, [REDUCE]),
        ("reduce<float, 256>", [REDUCE]),
        ("reduce<*>", [REDUCE]),
        ("reduce", []),
        ("ns::scale", [IN_NAMESPACE]),
        ("ns::scale(float*, int)", [IN_NAMESPACE]),
        ("scale", []),
        ("Foo::operator()", [CALL]),
        ("(anonymous namespace)::*", [ANONYMOUS, OF_A_FILE]),
        ("*::one<S<S<float>>>", [OF_A_FILE]),
        ("(anonymous namespace)::one<S<S<float> > >", [OF_A_FILE]),
        ("ns::Foo::Foo", CONSTRUCTORS),
        ("operator*", [TIMES]),
        ("operator?", [DIVIDE, TIMES]),
        ("sum(int (&) [4])", [OF_ARRAY]),
        ("sum(int (&) [?])", [OF_ARRAY]),
        ("kernels::*", [PROCEDURE]),
    ],
)
def test_a_pattern_names_symbols_and_what_they_are_called(pattern, entries):
    assert matching(pattern, ENTRIES) == entries


def test_an_entry_of_one_architecture_is_named_alone_or_with_the_others():
    both = [f"{REDUCE}@sm_100a", f"{REDUCE}@sm_90a"]
    assert matching("reduce<float, 256>", both) == both
    assert matching("reduce<float, 256>@sm_90a", both) == both[1:]


def test_a_list_names_each_function_once_and_counts_what_does_not_fit():
    assert listed([*CONSTRUCTORS, IN_NAMESPACE]) == "ns::Foo::Foo, ns::scale"
    assert listed(["a", "b", "c", "d"], 2) == "a, b, and 2 more"
    assert listed(["a", "b"], 2) == "a, b"


def test_a_name_that_is_not_mangled_asks_no_c_runtime():
    code = (
        "import sys, pytest_compileiq.plugin, pytest_compileiq.replay.run\n"
        "from pytest_compileiq.machine_code.names import readable\n"
        "assert readable('scale@sm_90a') == 'scale@sm_90a' and readable('__kernels_MOD_saxpy') == 'kernels::saxpy'\n"
        "assert 'cxxfilt' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
REPEATED = "".join(f"S0_IS{level}_S{level}_E" for level in _DIGITS[1:])
PACK = f"_Z1fIJ{'i' * 20}EEv"
BOMBS = {
    "names of names": f"_Z1f1a1pIS_S_E{REPEATED}",
    "functions of functions": f"_Z1f{'PFv' * 18}iES0_E{''.join(f'S{level}_E' for level in _DIGITS[2::2])}",
    "packs in packs": f"{PACK}{'DpPFvT_DpT_' * 5}{'E' * 5}",
    "expressions of packs": f"_Z1fIJ{'Li1E' * 20}EEvDT{'spplT_' * 5}T_E",
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_a_symbol_that_stands_for_gigabytes_is_told_in_outline(bomb):
    assert readable(bomb).partition("#")[0] in ("f", "f<…>")


def test_a_long_name_is_shown_with_as_much_of_its_arguments_as_leaves_it_readable():
    long = f"_Z6reduceI{'4tileILi1EE' * 2}{''.join(f'5part{digit}' for digit in range(9))}{'8remotestIiE' * 6}EvT_"
    shown, _, tag = readable(long).partition("#")
    assert shown == "reduce<…>" and len(tag) == 6
    nested = "_Z6launchI4gemmI4tileI" + "".join(f"9operand_{letter}" for letter in "abcdefghijkl") + "EEEvT_"
    shown, _, tag = readable(f"{nested}@sm_90a").partition("#")
    assert shown == "launch<gemm<tile<…> > >" and tag.endswith("@sm_90a")
    assert readable(nested) != readable(nested.replace("operand_a", "operand_z"))
    assert matching(readable(nested), [nested, long]) == [nested]
    assert matching("launch<*", [nested, long]) == [nested]


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_Z10bsr_matmatIlyEvT_S0_S0_S0_S0_S0_PKS0_S2_PKT0_S2_S2_S5_PS0_S6_PS3_", "bsr_matmat<long, unsigned long long>"),
        (f"{PACK}DpT_", f"f<{', '.join(['int'] * 20)}>"),
        ("_ZN2ns15transpose_splitIJifdEEEvDpPT_", "ns::transpose_split<int, float, double>"),
    ],
)  # fmt: skip
def test_a_symbol_with_many_references_or_packs_is_called_as_its_source_spells_it(symbol, name):
    assert readable(symbol) == name
