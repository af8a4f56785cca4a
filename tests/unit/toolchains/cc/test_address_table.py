"""Production's objects are loaded as they are, both arms beside each other, or the change that loads them is named."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from pytest_compileiq.benchmark.builds import Builds, loadable
from pytest_compileiq.errors import BuildError
from pytest_compileiq.model import Candidate
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc.address_table import explained
from pytest_compileiq.toolchains.cc.builder import CcBuilder, resolve
from pytest_compileiq.toolchains.cc.marker import Cc
from tests import needs
from tests.files import write_files

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")

STATIC = "static int calls; int kernel(int x) { calls += 1; return x + calls; }\n"
TABLE_OF_CALLS = "static int one(int x) { return x + 1; }\nstatic int (*const calls[])(int) = {one}; int kernel(int x) { return calls[x & 0](x); }\n"
BETWEEN = "int inner(int x) { return x + 1; }\nint kernel(int x) { return inner(x); }\n"
MATHS = "#include <math.h>\nint kernel(int x) { return (int)sqrt((double)(x * x)) + 1; }\n"
OPENMP = "int kernel(int x) { int s = 0;\n#pragma omp parallel for reduction(+ : s)\n for (int i = 0; i < 8; i++) s += x;\n return s / 8 + 1; }\n"
EXTERNAL = "#include <stdio.h>\nint kernel(int x) { return x + (stderr != 0); }\n"
OWN_THREADS = "static _Thread_local int seen; int kernel(int x) { seen += x; return seen + 1; }\n"
VIRTUAL = """\
#include <stdexcept>
#include <string>
struct Base { virtual ~Base() = default; virtual int at(int x) const { return x; } };
struct Next : Base { int at(int x) const override { return x + 1; } };
template <typename T> T &shared() { static T value{}; return value; }
extern "C" int kernel(int x) {
    try { if (x < 0) throw std::runtime_error("less"); } catch (const std::exception &) { return -1; }
    shared<std::string>() += 'x';
    const Base *base = new Next; int y = base->at(x); delete base; return y;
}
"""
IN_C = {"static data": STATIC, "a table of calls": TABLE_OF_CALLS, "calls between functions": BETWEEN, "libm": MATHS}


def product(root: Path, command: str, name: str, source: str) -> CcBuilder:
    """The builder that a run of pytest takes: the first whose baseline the linker loads."""
    entry = {"directory": str(root), "command": f"{command} -c {name} -o k.o", "file": str(root / name)}
    write_files(root, {name: source, "compile_commands.json": json.dumps([entry])})
    versions = resolve(Cc(name, like=".", flags="-lm"), Place(root, root)).versions
    several = [Builds(each, root / f"builds{n}", 60, frozenset()) for n, each in enumerate(versions)]
    found = loadable(several).builder
    assert isinstance(found, CcBuilder)
    return found


def runs_beside_itself(found: CcBuilder, root: Path) -> None:
    """Both arms are loaded at once, and neither sees the other's data."""
    arms = []
    for number, controls in enumerate((None, found.render(Candidate({"-O": 3})))):
        built = found.build(controls, root / f"out{number}", timeout_s=60)
        arms.append(found.load(built, set()))
    assert [arm.kernel(4) for arm in arms] == [5, 5]


@pytest.mark.parametrize("flags", ["-O2", "-O2 -fPIE", "-O1 -fPIC", "-O2 -fno-pie", "-O2 -fno-pic -mcmodel=medium"])
@pytest.mark.parametrize("what", IN_C)
def test_c_is_loaded_as_production_compiles_it(tmp_path: Path, what: str, flags: str) -> None:
    found = product(tmp_path, f"gcc {flags}", "k.c", IN_C[what])
    is_changed = "-fno-pi" in flags
    assert found.added == (("-fPIE", "-mno-direct-extern-access") if is_changed else ())
    assert all(word in found.compiler.command for word in found.added)
    runs_beside_itself(found, tmp_path)


def test_openmp_is_loaded_as_production_compiles_it(tmp_path: Path) -> None:
    runs_beside_itself(product(tmp_path, "gcc -O2 -fopenmp", "k.c", OPENMP), tmp_path)


@needs.gxx
@pytest.mark.parametrize("flags", ["-O2 -mno-direct-extern-access", "-O2 -fno-pie", "-O2 -fPIC"])
def test_cplusplus_with_exceptions_virtual_calls_and_shared_statics_is_loaded(tmp_path: Path, flags: str) -> None:
    runs_beside_itself(product(tmp_path, f"g++ {flags}", "k.cpp", VIRTUAL), tmp_path)


def test_machine_code_is_that_of_production_s_object(tmp_path: Path) -> None:
    from pytest_compileiq.machine_code.elf import machine_code

    found = product(tmp_path, "gcc -O2", "k.c", BETWEEN)
    built = found.build(None, tmp_path / "out", timeout_s=60)
    subprocess.run(["gcc", "-O2", "-c", "k.c", "-o", "k.o"], cwd=tmp_path, check=True)
    made = machine_code([tmp_path / "k.o"], found.functions.among).entries
    assert {name: code.sha256 for name, code in built.code.items()} == {
        name: code.sha256 for name, code in made.items()
    }


@pytest.mark.parametrize(
    ("name", "source", "added", "because"),
    [
        ("k.c", EXTERNAL, "-mno-direct-extern-access", "R_X86_64_PC32 against stderr"),
        ("k.c", OWN_THREADS, "-fPIC -fno-semantic-interposition", "R_X86_64_TPOFF32 against seen"),
        pytest.param(
            "k.cpp", VIRTUAL, "-mno-direct-extern-access", "R_X86_64_PC32 against std::runtime_error", marks=needs.gxx
        ),
    ],
    ids=["external data", "own thread-locals", "the type of an exception"],
)
def test_what_cannot_be_loaded_as_it_is_is_compiled_with_the_least_change(
    tmp_path: Path, name: str, source: str, added: str, because: str
) -> None:
    found = product(tmp_path, "gcc -O2" if name == "k.c" else "g++ -O2", name, source)
    assert " ".join(found.added) == added
    runs_beside_itself(found, tmp_path)
    change = found.changed(60)
    assert change is not None
    assert change.because.startswith(because)
    assert 1 <= change.altered <= change.functions


def test_functions_that_a_change_alters_are_counted_and_others_are_not(tmp_path: Path) -> None:
    unmoved = "int one(int x) { return x + 1; }\nstatic __attribute__((noinline)) int two(int x) { return x * 2; }\n"
    found = product(tmp_path, "gcc -O2", "k.c", f"{unmoved}int both(int x) {{ return two(x); }}\n{EXTERNAL}")
    assert (change := found.changed(60)) is not None
    assert (change.altered, change.functions) == (1, 4)


def test_what_no_change_loads_is_refused_with_the_relocation(tmp_path: Path) -> None:
    source = '__asm__(".globl jump\\njump: mov $jump, %eax\\nret\\n");\n' + STATIC
    found = product(tmp_path, "gcc -O2", "k.c", source)
    with pytest.raises(
        BuildError, match=r"objects cannot be loaded as they are \(R_X86_64_32 against jump\): compile what"
    ):
        found.build(None, tmp_path / "out", timeout_s=60)


def test_a_function_that_is_not_there_is_named_with_the_nearest(tmp_path: Path) -> None:
    found = product(tmp_path, "gcc -O2", "k.c", BETWEEN)
    library = found.load(found.build(None, tmp_path / "out", timeout_s=60), set())
    with pytest.raises(AttributeError, match=r"kernel\.so has no function 'kernl' \(did you mean 'kernel'\?\)"):
        _ = library.kernl


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            "ld: k.o: relocation R_X86_64_PC32 against undefined symbol `v' can not be used when making a shared "
            "object; recompile with -fPIC",
            "R_X86_64_PC32 against v",
        ),
        ("ld: k.o: warning: relocation\nld: read-only segment has dynamic relocations", None),
        (
            "ld.lld: error: relocation R_X86_64_PC32 cannot be used against symbol 'v'; recompile with -fPIC",
            "R_X86_64_PC32 against v",
        ),
        (
            "k.o: requires dynamic R_X86_64_PC32 reloc against 'v' which may overflow at runtime; recompile with -fPIC",
            "R_X86_64_PC32 against v",
        ),
        ("ld: cannot find -lmissing", ""),
    ],
    ids=["ld", "ld without a name", "lld", "gold", "another error"],
)
def test_a_refusal_is_known_by_what_each_linker_says(said: str, why: str | None) -> None:
    error = explained(BuildError("the link failed", kind="compile", log=said), ())
    assert error.refused == ("read-only segment has dynamic relocations" if why is None else why)
    assert bool(error.refused) is ("cannot be loaded" in str(error))


VARIABLES = """\
int step = 1; static int hidden; __attribute__((visibility("hidden"))) int internal; const int limits[2] = {3, 4};
int kernel(int x) { hidden += x; internal += x; return x + step + limits[0] - 3; }
"""


@pytest.mark.parametrize("flags", ["-O2", "-O2 -fno-pie", "-O1 -fPIC", "-O2 -fcommon -mcmodel=large"])
def test_global_variables_are_loaded_each_arm_s_own(tmp_path: Path, flags: str) -> None:
    found = product(tmp_path, f"gcc {flags}", "k.c", VARIABLES)
    arms = [
        found.load(found.build(controls, tmp_path / f"out{number}", timeout_s=60), set())
        for number, controls in enumerate((None, found.render(Candidate({"-O": 3}))))
    ]
    ctypes.c_int.in_dll(arms[0], "step").value = 10
    assert [arm.kernel(4) for arm in arms] == [14, 5]
    assert list((ctypes.c_int * 2).in_dll(arms[1], "limits")) == [3, 4]
    with pytest.raises(ValueError, match="internal"):
        ctypes.c_int.in_dll(arms[0], "internal")


@needs.gxx
def test_variables_of_a_namespace_are_loaded_and_no_table_of_a_class(tmp_path: Path) -> None:
    source = (
        f"{VIRTUAL}namespace ns {{ int step = 1; }} inline int shared_step = 2; int of_all() {{ return shared_step; }}"
    )
    found = product(tmp_path, "g++ -O2 -std=c++17", "k.cpp", source)
    library = found.load(found.build(None, tmp_path / "out", timeout_s=60), set())
    assert ctypes.c_int.in_dll(library, "_ZN2ns4stepE").value == 1
    with pytest.raises(ValueError, match="undefined symbol"):
        ctypes.c_int.in_dll(library, "shared_step")
