import pytest

from pytest_compileiq.toolchains.machine_code.names import matching, readable

REDUCE = "_Z6reduceIfLi256EEvPT_"
IN_NAMESPACE = "_ZN2ns5scaleEPfi"
CALL = "_ZNK3FooclEi"
CONVERSION = "_ZN1AcvbEv"
ANONYMOUS = "_ZN12_GLOBAL__N_11gEv"
OF_POINTER = "_Z5applyIPFviEEvT_"
ENTRIES = [REDUCE, IN_NAMESPACE, CALL, CONVERSION, ANONYMOUS, OF_POINTER, "LZ4_compress_default", "LZ4_compress_fast"]


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        (REDUCE, "reduce<float, 256>"),
        (IN_NAMESPACE, "ns::scale"),
        (CALL, "Foo::operator()"),
        (CONVERSION, "A::operator bool"),
        (ANONYMOUS, "(anonymous namespace)::g"),
        (OF_POINTER, "apply<void (*)(int)>"),
        (f"{REDUCE}@sm_90a", "reduce<float, 256>@sm_90a"),
        ("LZ4_compress_default", "LZ4_compress_default"),
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
        ("(anonymous namespace)::*", [ANONYMOUS]),
    ],
)
def test_a_pattern_names_symbols_and_what_they_are_called(pattern, entries):
    assert matching(pattern, ENTRIES) == entries


def test_an_entry_of_one_architecture_is_named_alone_or_with_the_others():
    both = [f"{REDUCE}@sm_100a", f"{REDUCE}@sm_90a"]
    assert matching("reduce<float, 256>", both) == both
    assert matching("reduce<float, 256>@sm_90a", both) == both[1:]
