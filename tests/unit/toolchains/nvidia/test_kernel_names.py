import pytest

from pytest_compileiq.machine_code.names import readable
from pytest_compileiq.toolchains.nvidia.instantiations import NoSuchKernel, kernel_named

WIDE, NARROW = "_Z6reduceIfLi256EEvPT_", "_Z6reduceIfLi64EEvPT_"
FLOATS, DOUBLES = "_Z4overPf", "_Z4overPd"
IN_NAMESPACE = "_ZN2ns5scaleEPfi"
HERE = "_ZN38_GLOBAL__N__b88bd397_7_anon_cu__Z2goPf5innerEPf"
PRIVATE = HERE.replace("b88bd397", "00000000")
SYMBOLS = {
    "reduce<float, TILE>": WIDE,
    NARROW: NARROW,
    "(void (*)(float *)) over": FLOATS,
    DOUBLES: DOUBLES,
    IN_NAMESPACE: IN_NAMESPACE,
    PRIVATE: HERE,
    "spin": "spin",
}


@pytest.mark.parametrize(
    ("name", "symbol"),
    [
        ("spin", "spin"),
        (FLOATS, FLOATS),
        ("reduce<float, TILE>", WIDE),
        ("reduce<float,TILE>", WIDE),
        ("reduce < float, 256 >", WIDE),
        (WIDE, WIDE),
        ("reduce<float, 64>", NARROW),
        ("void reduce<float, 64>(float*)", NARROW),
        ("(void(*)(float*)) over", FLOATS),
        ("over(double*)", DOUBLES),
        ("ns::scale", IN_NAMESPACE),
        ("scale", IN_NAMESPACE),
        (PRIVATE, HERE),
        (HERE, HERE),
        ("inner", HERE),
    ],
)
def test_a_kernel_is_taken_by_what_its_build_its_file_or_its_source_calls_it(name, symbol):
    assert kernel_named(name, SYMBOLS) == symbol


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("reduce", "several kernels 'reduce': reduce<float, 64>, reduce<float, TILE>"),
        ("over", "several kernels 'over': (void (*)(float *)) over, over"),
        ("reduce<float, 65>", "no kernel 'reduce<float, 65>' (did you mean 'reduce<float, 64>'?); its kernels: (anon"),
        ("unsignedint", "no kernel 'unsignedint'; its kernels: "),
    ],
)
def test_a_name_of_no_kernel_or_of_several_is_answered_with_those_that_exist(name, message):
    with pytest.raises(NoSuchKernel) as refused:
        kernel_named(name, SYMBOLS)
    assert str(refused.value).startswith(message)


def test_blanks_that_part_words_stay():
    assert kernel_named("add<unsigned  int>", {"add<unsigned int>": "_Z3addIjEvPT_"})
    with pytest.raises(NoSuchKernel, match="no kernel 'x'; its kernels: none"):
        kernel_named("x", {})


def test_two_names_of_one_kernel_are_no_two_kernels():
    assert kernel_named("reduce", {"reduce<float, TILE>": WIDE, "reduce<float, 256>": WIDE}) == WIDE


LONG = f"_Z6launchI4GemmIJ{''.join(f'21stage_of_a_pipeline_{letter}' for letter in 'abcdefghijklmnopqrstuvwxyz' * 2)}EEEvT_"


def test_a_kernel_with_a_symbol_of_a_thousand_characters_is_taken_by_its_name_or_by_what_is_shown():
    both = {symbol: symbol for symbol in (LONG, LONG.replace("launch", "finish"))}
    assert kernel_named("launch", both) == kernel_named(readable(LONG), both) == LONG
    with pytest.raises(NoSuchKernel, match=r"its kernels: finish<Gemm<…> >#\w{6}, launch<Gemm<…> >#\w{6}$"):
        kernel_named("start", both)
