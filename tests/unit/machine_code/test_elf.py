"""Digests of machine code, on objects made by the real compiler."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from pytest_compileiq.errors import BuildError
from pytest_compileiq.machine_code import elf
from pytest_compileiq.machine_code.elf import MachineCode, machine_code
from pytest_compileiq.ship.binaries import read_binaries
from tests import needs

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")

TWO_ENTRIES = """
static double scale = 2.0;
static __attribute__((noinline)) double help(double x) { return x * scale; }
double first(double x) { return help(x) + 1.5; }
int second(int x) { return x + 1; }
"""


def objects(tmp_path: Path, *sources: str, flags: str = "-O2", suffix: str = ".c") -> MachineCode:
    paths = []
    for number, text in enumerate(sources):
        source = tmp_path / f"{number}{suffix}"
        source.write_text(text)
        paths.append(source.with_suffix(".o"))
        subprocess.run(["gcc", *flags.split(), "-fPIC", "-c", source, "-o", paths[-1]], check=True)
    return machine_code(paths)


def digests(code: MachineCode) -> dict[str, str]:
    return {name: entry.sha256 for name, entry in code.entries.items()}


def test_entries_are_the_exported_functions_with_their_sizes(tmp_path: Path) -> None:
    hidden = '__attribute__((visibility("hidden"))) int out_of_sight(int x) { return x; }'
    code = objects(tmp_path, TWO_ENTRIES + hidden + "__attribute__((weak)) int replaceable(void) { return 3; }")
    assert list(code.entries) == ["first", "replaceable", "second"]
    assert all(entry.metrics["code_bytes"] > 0 for entry in code.entries.values())
    assert code.program.metrics["code_bytes"] > sum(entry.metrics["code_bytes"] for entry in code.entries.values())


def test_comments_names_of_locals_and_debug_data_change_nothing(tmp_path: Path) -> None:
    plain = objects(tmp_path, TWO_ENTRIES)
    assert objects(tmp_path, "/* a comment\n on two lines */" + TWO_ENTRIES) == plain
    assert digests(objects(tmp_path, TWO_ENTRIES, flags="-O2 -g3")) == digests(plain)


def test_equal_objects_are_taken_apart_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = objects(tmp_path, "int one(int x) { return x * 12345; }")
    monkeypatch.setattr(elf, "ELFFile", None)
    copy = (tmp_path / "0.o").rename(tmp_path / "copy.o")
    assert machine_code([copy]) == first
    copy.write_bytes(copy.read_bytes() + b" ")
    with pytest.raises(TypeError):
        machine_code([copy])


def test_one_changed_function_changes_one_digest(tmp_path: Path) -> None:
    before = digests(objects(tmp_path, TWO_ENTRIES))
    after = digests(objects(tmp_path, TWO_ENTRIES.replace("x + 1;", "x + 7;")))
    assert before["second"] != after["second"]
    assert before["first"] == after["first"]


DATA = """
static int table[4] = {1, 7, 3, 9};
void set(int x) { table[0] = x; }
static __attribute__((noinline)) int help(int x) { return x * x + table[x & 3]; }
int first(int x) { return help(x) + help(x + 1); }
int choice(int *x, int n) {
    switch (n) { case 0: return 11; case 1: return x[0] / 3; case 2: x[1]++; return 5; case 3: return x[2] * n;
        case 4: return x[7]; case 5: x[9]++; return 2; }
    return n;
}
double ratio(double x) { return x * 2.5 + 1.25; }
int calls; int counted(int x) { return calls += x; }
const char *word(int n) { return n ? "other" : "nothing"; }
const __WCHAR_TYPE__ *wide(void) { return L"tin"; }
"""
BESIDE = """
static int mine; static __attribute__((noinline)) int step(int x) { return mine += x * 3; }
int beside(int x) { return step(x) * step(-x); }
double half(double x) { return x * 0.5 + 8.125; }
int pick(int n) { switch (n) { case 0: return calls; case 1: return 7; case 2: return step(1); case 3: mine = 2; return 1;
    case 4: return 9; } return 0; }
"""


@pytest.mark.parametrize("flags", ["-O2", "-Os", "-O2 -ffunction-sections", "-O2 -fno-pic"])
@pytest.mark.parametrize("before", [True, False])
def test_functions_added_beside_change_nothing_of_those_that_do_not_reach_them(tmp_path, flags, before) -> None:
    flags += " -fno-toplevel-reorder"  # help is called by its distance, which changes where something lies between
    alone = digests(objects(tmp_path, DATA, flags=flags))
    text = f"extern int calls;{BESIDE}{DATA}" if before else DATA + BESIDE
    both = digests(objects(tmp_path, text, flags=flags))
    assert {name: both[name] for name in alone} == alone


@pytest.mark.parametrize(
    ("change", "functions"),
    [
        (("3, 9}", "3, 8}"), {"first", "set"}), (("x * x +", "x * x -"), {"first"}), (("return 11", "return 12"), {"choice"}),
        (("case 4: return x[7]", "case 4: return x[8]"), {"choice"}), (("1.25", "1.75"), {"ratio"}),
        (("calls;", "calls = 3;"), {"counted", "first", "set"}), (('"nothing"', '"nothink"'), {"word"}),
        (('L"tin"', 'L"tip"'), {"wide"}),
        (("case 3: return x[2] * n;\n        case 4: return x[7];", "case 4: return x[2] * n; case 3: return x[7];"),
         {"choice"}),
    ],
)  # fmt: skip
def test_data_and_local_functions_are_of_the_functions_that_reach_them(tmp_path, change, functions) -> None:
    before = digests(objects(tmp_path, DATA))
    assert change[0] in DATA
    after = digests(objects(tmp_path, DATA.replace(*change)))
    assert {name for name in before if before[name] != after[name]} == functions


@pytest.mark.parametrize("place", ["table - 1", "table + 4", "&table[n]"])
def test_a_variable_is_reached_by_whatever_place_code_holds(tmp_path, place) -> None:
    text = f"static const int a = 5, table[4] = {{1, 2, 3, 4}}, b = 6; const int *f(int n) {{ return {place}; }}"
    text += "int g(int n) { return *(n ? &a : &b); }"
    before, after = (digests(objects(tmp_path, each)) for each in (text, text.replace("3, 4}", "3, 5}")))
    assert before["f"] != after["f"]


def test_bytes_that_a_relocation_fills_in_are_no_distance_to_a_local_function(tmp_path: Path) -> None:
    """Behind ``lea`` lie the byte 0x15 and zeros: with one of them, the distance to a function 21 bytes away."""
    text = "word:\n leaq text(%rip), %rdx\n .globl word\n .type word, @function\n ret\n .size word, .-word\n"
    beside = ".fill 19, 1, 0x90\n help:\n .type help, @function\n ret\n .size help, .-help\n"
    alone, both = (digests(objects(tmp_path, each, suffix=".s")) for each in (text, text + beside))
    assert both["word"] == alone["word"]


def test_what_runs_as_the_object_is_loaded_is_part_of_every_entry(tmp_path: Path) -> None:
    text = "static volatile int n; __attribute__((constructor)) static void begin(void) { n = 3; } int f(int x) { return x + 1; }"
    before, after = (digests(objects(tmp_path, each)) for each in (text, text.replace("n = 3", "n = 4")))
    assert before["f"] != after["f"]


def test_two_variables_of_equal_content_are_not_the_same(tmp_path: Path) -> None:
    text = "int a, b; int f(void) { return a; } static int c, d; int g(int x) { c = x; d = x + 1; return c; }"
    other = text.replace("return a", "return b").replace("c = x; d =", "d = x; c =")
    before, after = (digests(objects(tmp_path, each)) for each in (text, other))
    assert before["f"] != after["f"] and before["g"] != after["g"]


def test_the_digests_of_earlier_versions_still_hold(tmp_path: Path) -> None:
    flags = "-O2 -fcf-protection=none"  # which distributions set otherwise
    (entry,) = objects(tmp_path, "int one(int x) { return x * 12345; }", flags=flags).entries.values()
    assert entry.is_recorded_as(
        "f29cbeda009c4a780139e1d9ab9af9fcff61cc8ab66ae2f6b3392f6018881916"
    ) and not entry.is_recorded_as("0" * 64)
    (entry,) = objects(tmp_path, 'const char *word(void) { return "nothing"; }', flags=flags).entries.values()
    assert entry.is_recorded_as("e6481608f93fc1f373ca9edd6589e62cc819ff1224f0b429138208ea58599f8f")


@pytest.mark.parametrize("change", [("scale = 2.0", "scale = 3.0"), ("x * scale", "x - scale"), ("1.5", "1.25")])
def test_data_constants_and_local_functions_are_part_of_an_entry(tmp_path: Path, change: tuple[str, str]) -> None:
    before = digests(objects(tmp_path, TWO_ENTRIES))
    assert digests(objects(tmp_path, TWO_ENTRIES.replace(*change)))["first"] != before["first"]


def test_a_call_to_another_function_is_another_code_though_the_bytes_are_equal(tmp_path: Path) -> None:
    template = "double {0}(double); double kernel(double x) {{ return {0}(x) + 1; }}"
    assert objects(tmp_path, template.format("sin")) != objects(tmp_path, template.format("cos"))


def test_a_larger_alignment_is_another_code(tmp_path: Path) -> None:
    assert objects(tmp_path, TWO_ENTRIES) != objects(tmp_path, TWO_ENTRIES, flags="-O2 -falign-functions=64")


def test_hidden_functions_and_data_of_another_object_are_part_of_every_entry(tmp_path: Path) -> None:
    entry = "extern const int table[4]; int helper(int); int kernel(int x) { return helper(x) + table[x & 3]; }"
    helper = '__attribute__((visibility("hidden"))) int helper(int x) { return x * 3; }'
    table = "const int table[4] = {1, 2, 3, 4};"
    before = objects(tmp_path, entry, helper, table)
    assert objects(tmp_path, entry, helper.replace("3", "5"), table) != before
    assert objects(tmp_path, entry, helper, table.replace("4}", "9}")) != before


def test_objects_do_not_reach_into_each_other_otherwise(tmp_path: Path) -> None:
    other = "static int step = 1; int* place(void) { return &step; } int other(int x) { return x + step; }"
    before = digests(objects(tmp_path, TWO_ENTRIES, other))
    after = digests(objects(tmp_path, TWO_ENTRIES, other.replace("step = 1", "step = 2")))
    assert before["other"] != after["other"]
    assert before["first"] == after["first"]


def test_a_function_in_assembly_without_type_and_size_is_an_entry(tmp_path: Path) -> None:
    text = '.globl one\none:\n nop\n ret\n.globl two\ntwo:\n ret\n.section .note.GNU-stack,""\n'
    code = objects(tmp_path, text, suffix=".s")
    assert {name: entry.metrics["code_bytes"] for name, entry in code.entries.items()} == {"one": 2, "two": 1}


def test_clones_for_other_processors_are_part_of_the_function_that_they_are_named_after(tmp_path: Path) -> None:
    text = '.globl f\nf:\n nop\n ret\n.globl f.avx2.0\nf.avx2.0:\n {}\n ret\n.section .note.GNU-stack,""\n'
    before, after = (objects(tmp_path, text.format(body), suffix=".s") for body in ("nop", "cld"))
    assert list(before.entries) == ["f"] and before.entries["f"] != after.entries["f"]


def test_a_program_is_one_digest_over_all_its_code(tmp_path: Path) -> None:
    main = "int second(int); int main(void) { return second(1); }"
    before = objects(tmp_path, main, TWO_ENTRIES).program
    assert objects(tmp_path, main, TWO_ENTRIES.replace("x * scale", "x - scale")).program != before


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"int kernel(void);", b"\x7fELF" + b"\xff" * 200])
def test_a_file_that_is_no_object_is_a_build_error_that_names_it(tmp_path: Path, content: bytes) -> None:
    broken = tmp_path / "broken.o"
    broken.write_bytes(content)
    with pytest.raises(BuildError, match=r"broken\.o"):
        machine_code([broken])


# ── inline functions, which C++ gives a public name in every object ──────────────────────────────────────────────

TWICE = "template <class T> __attribute__((noinline)) T twice(T x) { return x + x; }\n"
STRONG = "float scale(float x) { return twice(x) + 1; }\nint other(int x) { return x + 1; }\n"
TWICE_OF_FLOAT = "_Z5twiceIfET_S0_"


def cplusplus(tmp_path: Path, *sources: str, named: str = "") -> dict[str, str]:
    """The digests of sources in C++, where one function is named."""
    objects(tmp_path, *sources, suffix=".cpp")
    paths = [tmp_path / f"{number}.o" for number in range(len(sources))]
    return digests(machine_code(paths, {named}.intersection))


@needs.gxx
def test_an_inline_function_is_part_of_the_entries_that_may_call_it(tmp_path: Path) -> None:
    before = cplusplus(tmp_path, TWICE + STRONG)
    assert list(before) == ["_Z5otheri", "_Z5scalef"]
    after = cplusplus(tmp_path, TWICE.replace("x + x", "x * x") + STRONG)
    assert before["_Z5scalef"] != after["_Z5scalef"]
    elsewhere = "int far(int x) { return x * 5; }"  # a link may take the inline function from either object
    far = cplusplus(tmp_path, TWICE + STRONG, elsewhere)["_Z3fari"]
    assert far != cplusplus(tmp_path, TWICE.replace("x + x", "x * x") + STRONG, elsewhere)["_Z3fari"]


@needs.gxx
def test_an_inline_function_that_is_named_is_an_entry_and_no_part_of_others(tmp_path: Path) -> None:
    before = cplusplus(tmp_path, TWICE + STRONG, named=TWICE_OF_FLOAT)
    after = cplusplus(tmp_path, TWICE.replace("x + x", "x * x") + STRONG, named=TWICE_OF_FLOAT)
    assert list(before) == ["_Z5otheri", "_Z5scalef", TWICE_OF_FLOAT]
    assert [name for name in before if before[name] != after[name]] == [TWICE_OF_FLOAT]


@needs.gxx
def test_the_digest_of_a_function_that_several_namings_make_an_entry_is_the_first_of_them_sorted(
    tmp_path: Path,
) -> None:
    instances = "\n".join(f"template {kind} twice({kind});" for kind in ("float", "double", "int", "char", "long"))
    cplusplus(tmp_path, TWICE + STRONG + instances)
    namings = [{TWICE_OF_FLOAT, f"_Z5twiceI{kind}ET_S0_"} for kind in "dcil"]
    kernels = {
        kernel.entry: kernel
        for kernel in read_binaries([tmp_path / "0.o"], [(each, each, ()) for each in namings]).kernels
    }
    digests_of = [
        digests(machine_code([tmp_path / "0.o"], naming.intersection)) for naming in sorted(namings, key=sorted)
    ]
    first, *others = (each[TWICE_OF_FLOAT] for each in digests_of)
    assert kernels[TWICE_OF_FLOAT].sha256 == first and kernels[TWICE_OF_FLOAT].others >= set(others)


@needs.gxx
def test_objects_of_an_artifact_have_its_digests_in_any_order_and_beside_others(tmp_path: Path) -> None:
    def uses(kind: str) -> str:
        return f"{TWICE}{kind} of_{kind}({kind} x) {{ return twice(x); }}\n"

    data = "extern const int table[2]; const int table[2] = {1, 2};\n"  # which serves the entries
    entries = cplusplus(tmp_path, uses("int"), uses("float"), data)
    (tmp_path / "more").mkdir()
    cplusplus(tmp_path / "more", uses("double"))
    paths = [tmp_path / "more" / "0.o", *(tmp_path / f"{number}.o" for number in (2, 1, 0))]
    recorded = [(frozenset(), entries.keys(), [f"src/{number}.cpp" for number in range(3)])]
    found = {kernel.entry: kernel for kernel in read_binaries(paths, recorded).kernels}
    assert all(entries[name] in (found[name].sha256, *found[name].others) for name in entries)


@needs.gxx
def test_the_inline_functions_of_an_object_that_has_no_others_are_its_entries(tmp_path: Path) -> None:
    instances = TWICE + "template float twice(float);\ntemplate double twice(double);\n"
    assert list(cplusplus(tmp_path, instances)) == ["_Z5twiceIdET_S0_", TWICE_OF_FLOAT]
    assert list(cplusplus(tmp_path, instances, named=TWICE_OF_FLOAT)) == [TWICE_OF_FLOAT]
    assert list(cplusplus(tmp_path, instances, STRONG.replace("twice", ""))) == [
        "_Z5otheri", "_Z5scalef", "_Z5twiceIdET_S0_", TWICE_OF_FLOAT
    ]  # fmt: skip


@needs.gxx
def test_clones_anonymous_functions_and_resolvers_are_no_entries(tmp_path: Path) -> None:
    source = """
    namespace { __attribute__((noinline)) int hidden(int x) { return x * 3; } }
    extern "C" int plain(int x) { if (__builtin_expect(x == 0, 0)) throw x; return hidden(x); }
    __attribute__((target_clones("avx2", "default"))) int sum(const int *x, int n) {
        int s = 0; for (int i = 0; i < n; i++) s += x[i]; return s;
    }
    struct Foo { int a; Foo(int x); };
    Foo::Foo(int x) : a(plain(x)) {}
    """
    found = cplusplus(tmp_path, source)
    assert list(found) == ["_Z3sumPKii", "_ZN3FooC1Ei", "_ZN3FooC2Ei", "plain"]
    assert found["_ZN3FooC1Ei"] == found["_ZN3FooC2Ei"]
