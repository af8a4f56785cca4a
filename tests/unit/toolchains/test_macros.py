"""Macros as knobs: their names, their values in both arms, and the words of a command that they take the place of."""

from __future__ import annotations

import pytest

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.toolchains.macros import (
    baseline_macros,
    check_names,
    fixed_macros,
    macro_of,
    params_of,
    why_idle,
    why_unnamed,
    without_replaced,
)
from pytest_compileiq.toolchains.marker_values import frozen


@pytest.mark.parametrize(
    ("option", "macro"),
    [
        ("-DTILE=16", "TILE"),
        ("-DUSE_LUT", "USE_LUT"),
        ("-DTILE=", "TILE"),
        ("-D_X=a=b", "_X"),
        ("-O3", None),
        ("-D", None),
        ("-D3", None),
        ("TILE", None),
    ],
)
def test_an_option_defines_a_macro(option, macro):
    assert macro_of(option) == macro


def test_a_body_reads_macros_by_their_names_beside_the_other_parameters():
    knobs = {"-DTILE=": 16, "-DTYPE=": "float", "-DSCALE=": 1.5, "-DUSE_LUT": "", "-DMODE=3": "", "-O": 3, "threads": 4}
    assert params_of(knobs) == {"TILE": 16, "TYPE": "float", "SCALE": 1.5, "USE_LUT": 1, "MODE": 3, "threads": 4}


def test_the_baseline_reads_what_its_words_define():
    words = ["-O3", "-DTILE=16", "-DTYPE=float", "-DUSE_LUT", "-DNEG=-1", "-DADD(a)=a", "-DHEX=0x10"]
    assert baseline_macros((), words, "Cc") == (
        (), {"TILE": 16, "TYPE": "float", "USE_LUT": 1, "NEG": -1, "HEX": "0x10"},
    )  # fmt: skip


def test_a_candidate_takes_the_place_of_the_baselines_definition():
    words = ("-O3", "-DTILE=16", "-DUSE_LUT", "-Iinclude", "-DTILE_K=8")
    assert without_replaced(words, {"-DTILE=": 32, "-funroll-loops": ""}) == (
        "-O3", "-DUSE_LUT", "-Iinclude", "-DTILE_K=8",
    )  # fmt: skip
    assert without_replaced(words, {"-D": "USE_LUT"}) == ("-O3", "-DTILE=16", "-Iinclude", "-DTILE_K=8")
    assert without_replaced(words, {"-O": 2}) == words


def test_defines_become_words_whose_order_is_not_the_dicts():
    words, params = baseline_macros(frozen({"B": 2, "A": "float"}), ["-O3", "-DC"], "Cc")
    assert words == ("-DA=float", "-DB=2") and params == {"A": "float", "B": 2, "C": 1}


@pytest.mark.parametrize(
    ("defines", "flags", "said"),
    [
        ("TILE=16", [], "Cc(defines=('TILE=16',)): expected a dict such as {'TILE': 16}"),
        ([("TILE",)], [], "expected a dict such as"),
        ([("TILE", 8), ("TILE", 16)], [], "expected a dict such as"),
        ({"TI LE": 16}, [], "'TI LE' is no macro's name"),
        ({"TILE": True}, [], "TILE = True: expected a number or a text; write 1 or 0"),
        ({"TILE": None}, [], "TILE = None: expected a number or a text"),
        ({"TILE": "a\nb"}, [], "expected a number or a text"),
        ({"TILE": 16}, ["-DTILE=8"], "the flags define TILE too: give its value once"),
    ],
)
def test_defines_that_cannot_be_are_refused(defines, flags, said):
    with pytest.raises(MarkerError) as refused:
        baseline_macros(frozen(defines), flags, "Cc")
    assert said in str(refused.value)


@pytest.mark.parametrize("knobs", [["-DTILE=", "TILE"], ["-DTILE=", "-DTILE"], ["TILE", "-DTILE=8"]])
def test_two_knobs_of_one_parameter_are_refused(knobs):
    with pytest.raises(MarkerError, match=r"would both be acf\.params\['TILE'\]: rename one"):
        check_names(knobs)
    check_names(["-DTILE=", "-DTILE_K=", "threads", "-O"])


def test_a_macro_that_no_file_names_is_told_with_what_was_meant():
    files = [b"#if TILE_K > 4\n", b"#define OTHER 1\n"]
    assert why_unnamed({"TILE_K", "OTHER"}, files, ()) is None
    assert why_unnamed({"TILE_K", "NDEBUG"}, files, [b"#ifdef NDEBUG"]) is None
    assert why_unnamed(["TILE_k"], files, [b"Tile_k2"]) == (
        "no file that the compiler reads names the macro 'TILE_k' (did you mean 'TILE_K'?), so that -DTILE_k changes "
        "nothing: name it in the source, or take it out of space="
    )
    assert "did you mean" not in str(why_unnamed(["THREADS"], files, ()))


def test_a_macro_that_the_source_defines_itself_is_told():
    printed = "#define TILE 16\n#define USE_LUT 1\n#define EMPTY \n#define __x86_64__ 1\n"
    fixed = [({"-DUSE_LUT": "", "-DTILE=": tile, "-DUNDEFINED_AGAIN=": 3}, printed) for tile in (8, 16)]
    assert fixed_macros(fixed) == fixed_macros(fixed[:1]) == {"TILE": "16"}
    assert fixed_macros(fixed[1:]) == {}


def test_a_macro_that_the_source_limits_has_an_effect():
    limited = [({"-DTILE=": 8}, "#define TILE 8\n"), ({"-DTILE=": 64}, "#define TILE 32\n")]
    assert fixed_macros(limited) == {}


def idle(*sources: str, probes=({"-DTILE=": 8, "-DUNROLL=": 1}, {"-DTILE=": 32, "-DUNROLL=": 2})) -> str | None:
    """The answer for sources that hold these definitions, which the command's macros do not change."""

    def at_the_end(macros):
        given = {f"#define {name} {value}" for name, value in params_of(macros).items()}
        return ["\n".join([*sorted(given), *source.splitlines()]) for source in sources]

    return why_idle(probes, [b"TILE UNROLL MODE_A MODE_B"], (), at_the_end)


TILE, UNROLL = "#define TILE 16\n", "#define UNROLL 4\n"


def test_a_macro_is_idle_where_every_source_defines_it_itself():
    said = "the source defines TILE as 16, whatever -DTILE says: write #ifndef TILE before that line"
    assert str(idle(TILE)).startswith(said)
    assert str(idle(TILE, UNROLL + TILE)).startswith(said)
    assert "defines UNROLL as 4" in str(idle(UNROLL, TILE + UNROLL))
    assert idle(TILE, UNROLL) is None
    assert idle(TILE, "") is None


def test_a_knob_that_names_another_macro_in_each_candidate_is_not_idle():
    modes = ({"-D": "MODE_A", "-DTILE=": 8}, {"-D": "MODE_B", "-DTILE=": 32})
    assert idle("#define MODE_A 1\n#define MODE_B 1\n", probes=modes) is None
    assert "defines TILE as 16" in str(idle(TILE, probes=modes))


@pytest.mark.parametrize(
    "option", ["-Xclang", "-mllvm", "-Xcompiler", "-Xptxas", "-Xpreprocessor", "--compiler-options"]
)
def test_the_value_of_another_option_defines_no_macro(option):
    words = ("-DTILE=2", option, "-DTILE=1", "-O2")
    assert without_replaced(words, {"-DTILE=": 4}) == (option, "-DTILE=1", "-O2")
    assert baseline_macros((), words, "Cc")[1] == {"TILE": 2}
    assert baseline_macros((("TILE", 3),), words[1:], "Cc")[1] == {"TILE": 3}


def test_a_macro_that_is_undefined_again_has_no_value_in_the_baseline():
    assert baseline_macros((), ["-DA=1", "-DB", "-UA", "-UB", "-DB=2", "-UC"], "Cc")[1] == {"B": 2}
