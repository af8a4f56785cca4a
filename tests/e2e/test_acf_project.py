"""``acf init``, ``acf prune`` and ``acf textconv``, as a user runs them."""

from __future__ import annotations

import json
import shlex
import subprocess

import pytest

from pytest_compileiq.artifact import FrontPoint
from pytest_compileiq.cli.main import main
from pytest_compileiq.store.metadata import render
from pytest_compileiq.store.store import Store
from pytest_compileiq.toolchains.nvidia.tools import installed
from tests import needs
from tests.files import write_files
from tests.projects import Project, make_project
from tests.unit.artifacts import CONTROLS, TARGET, make_artifact, make_rows, measured_claim


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


# ── init ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_init_sets_a_project_up_so_that_its_first_benchmark_builds_and_is_correct(here, capsys):
    assert main(["init"]) == 0
    said = capsys.readouterr().out
    assert 'git config diff.acf.textconv "acf textconv"' in said and "pytest --tune" in said
    assert (here / ".gitattributes").read_text() == "acf/** -text diff=acf\nacf/**/*.csv linguist-generated\n"
    assert "test_acf_starter.py: written" in said
    assert "1 passed" in Project(here).pytest("--acf-check=off", code=0)


SOURCE = """\
#include <math.h>
#include "types.h"

static real square(real x) { return x * x; }

void lengths(const real *x, const real *y, real *length, int n)
{
    for (int i = 0; i < n; i++)
        length[i] = sqrtf(square(x[i]) + square(y[i]));
}

void square_matrix(float *a, int n)
{
    a[n * n - 1] = 0;
}

int of_a_table(const struct table *table) { return table->rows; }
"""
COMMANDS = (
    '[{"directory": "%s/build", "file": "../src/lengths.c", "command": "gcc -O1 -I../include -c ../src/lengths.c"}]'
)


@pytest.fixture
def library(here):
    files = {
        "src/lengths.c": SOURCE,
        "include/types.h": "typedef float real;\nstruct table { int rows; };\n",
        "build/compile_commands.json": COMMANDS % here,
        "tests/conftest.py": "",
    }
    return make_project(here, files)


@pytest.mark.slow
def test_init_of_a_c_library_writes_a_benchmark_that_tunes(library, capsys):
    assert main(["init"]) == 0
    said = capsys.readouterr().out
    assert "3 functions found:\n  src/lengths.c::lengths\n  src/lengths.c::of_a_table" in said
    assert "--like build" in said and not [*library.root.rglob("test_*")], "nothing is chosen for the user"
    assert main(["init", "--like", "build", "--function", "lengths"]) == 0
    said = capsys.readouterr().out
    assert "pytest --acf-check=off tests/test_acf_lengths.py\n  pytest --tune tests/test_acf_lengths.py" in said
    text = library.one("tests/test_acf_*").read_text()
    assert 'like="../build"' in text and 'functions="lengths"' in text and "acf.rng.random" in text
    assert "1 passed" in library.pytest("--acf-check=off", code=0)
    assert "pytest --acf-check=off tests/test_acf_lengths.py::test_lengths" in library.pytest(code=1), "of MISSING"
    tuned = library.pytest("--tune", "--tune-budget=2", code=0)
    assert "1 passed" in tuned and "draws no inputs" not in tuned
    assert "1 passed" in library.pytest(code=0)
    library.edit("tests/test_acf_lengths.py", "N = 1024", "N = 4096")
    (library.root / "tests/speed").mkdir()
    library.one("tests/test_acf_lengths.py").rename(library.root / "tests/speed/test_acf_lengths.py")
    assert main(["init", "--function", "lengths"]) == 0
    assert "tests/speed/test_acf_lengths.py exists and is left as it is" in capsys.readouterr().out
    assert "N = 4096" in library.one("tests/**/test_acf_*.py").read_text(), "and no second one is written"


def test_init_finds_headers_and_says_what_only_the_author_knows(library, capsys):
    assert main(["init", "--function", "src/lengths.c::of_a_table"]) == 0
    sentence = "only its author knows how of_a_table is called: table is neither a number nor an array of numbers"
    output = capsys.readouterr().out
    assert sentence in output and "Next: complete its call, try the body, then tune it:" in output
    assert "-I../include" in library.one("tests/test_acf_of_a_table.py").read_text()
    assert main(["init", "--function", "square_matrix"]) == 0
    assert "Guessed by names: each array has N elements" in library.one("tests/test_acf_square*").read_text()
    output = library.pytest("--acf-check=off", code=1)
    assert f"Failed: {sentence}" in output and "BuildError" not in output
    wrong = "square_matrix writes outside of a, an array of 1024 elements: only its author knows which sizes"
    assert wrong in output, "a wrong guess is no crash"
    assert main(["init", "--function", "squared"]) == main(["init", "--function", "gone.c::f"]) == 2
    assert "no source here defines it" in capsys.readouterr().err


@pytest.fixture
def renamed(here):
    """Two sources of a build, in which a macro renames a function, and one that it leaves out."""
    commands = [{"directory": f"{here}/build", "file": f"../src/{n}.c", "command": f"cc -O1 -c {n}.c"} for n in "ab"]
    files = {
        "src/name.h": "#define next renamed\nint next(int n);\n",
        "src/a.c": '#include "name.h"\nint first(int n) { return next(n); }\n',
        "src/b.c": '#include "name.h"\nint next(int n) { return n + 1; }\n',
        "check/c.c": "int first(int n) { return n; }\nint other(int n) { return n; }\n",
        "build/compile_commands.json": json.dumps(commands),
    }
    return make_project(here, files)


def test_init_like_lists_sources_of_the_build_and_finds_callees_in_its_objects(renamed, capsys):
    assert main(["init", "--like", "build"]) == 0
    said = capsys.readouterr().out
    assert "2 functions found:\n  src/a.c::first\n  src/b.c::next\n" in said
    assert "  acf init --function src/a.c::first --like build\n" in said and "builds found" not in said
    first = ["init", "--like", "build", "--function", "first"]
    assert main(first) == 2 and "run the build of build first, whose objects tell" in capsys.readouterr().err
    subprocess.run(["gcc", "-c", "../src/b.c"], cwd=renamed.root / "build", check=True)
    assert main(first) == 0 and '"src/a.c",\n        "src/b.c"' in renamed.one("test_acf_*").read_text()
    assert main(["init", "--like", "build", "--function", "next"]) == 2
    assert "has no code of its own for it, but for renamed: give one as --fun" in capsys.readouterr().err
    assert main(["init", "--like", "build", "--function", "other"]) == 2
    assert "no source of --like build defines it; acf init --like build lists" in capsys.readouterr().err


def test_init_builds_what_an_interpreter_loads_and_never_fails_for_a_function_nobody_named(here, capsys):
    (here / "shared.h").write_text("int both(int n) { return n; }\n")
    for name in ("a.c", "b.c"):
        (here / name).write_text('#include "shared.h"\n')
    assert main(["init"]) == 0 and "1 function found:\n  shared.h::both" in capsys.readouterr().out
    (here / "module.c").write_text("int Py_IsInitialized(void);\nint runs(int n) { return n + Py_IsInitialized(); }\n")
    assert main(["init", "--function", "runs"]) == 0
    make = "void *Py_GetVersion(void);\nvoid *\nPyInit_fast(void)\n{ return Py_GetVersion(); }\nvoid PyInit_x(void);\n"
    (here / "fast.c").write_text(make)
    assert main(["init"]) == 0 and "1 extension module, of which acf init" in capsys.readouterr().out
    assert main(["init", "--function", "fast.c::PyInit_fast"]) == 0
    assert 'module = module_of(function, "fast")' in (here / "test_acf_PyInit_fast.py").read_text()


@needs.gxx
def test_init_of_cplusplus_in_a_hostile_directory_runs_nothing(here, capsys):
    folder = 'it\'s "a\nb"'
    source = "namespace ns { double sum(const double *x, unsigned long n)\n{ double s = 0; while (n--) s += x[n]; return s; } }"
    ran = "import pathlib; pathlib.Path('ran').touch()"
    project = make_project(here, {f"{folder}/sum.cpp": source, "conftest.py": ran, "setup.py": ran})
    (here / "loop").symlink_to(here)
    assert main(["init"]) == 0
    assert "test_acf_ns__sum.py: written" in capsys.readouterr().out and not (here / "ran").exists()
    assert "outputs=[returned]" in (here / "test_acf_ns__sum.py").read_text(), "what it returns is looked at"
    assert "1 passed" in project.pytest("--acf-check=off", "test_acf_ns__sum.py", code=0)


CLASSES = {
    "reader.h": "namespace ns { struct Reader { virtual ~Reader(); virtual int next(); }; }",
    "reader.cc": '#include "reader.h"\nnamespace ns {\nReader::~Reader() {}\nint Reader::next() { return 1; }\n}',
    "read.cc": """\
#include "reader.h"
namespace ns {
enum Status { OK };
extern __attribute__((always_inline)) inline int twice(int n) { return 2 * n; }
__attribute__((always_inline)) int thrice(int n) { return 3 * n; }
Status read(const char *text, unsigned long size1)
{
    Reader reader;
    return size1 && text[0] == thrice(twice(reader.next())) ? Status(1) : OK;
}
void measure(const char *text, unsigned long *length) { *length = *text; }
}
""",
    "compile_commands.json": '[{"directory": "%s", "file": "%s", "command": "c++ -O2 -c %s"}]',
}


@needs.gxx
def test_init_of_cplusplus_adds_sources_of_classes_and_what_loads_them(here, capsys):
    entry = CLASSES["compile_commands.json"].strip("[]")
    entries = ", ".join(entry % (here, name, name) for name in ("read.cc", "reader.cc"))
    project = make_project(here, {**CLASSES, "compile_commands.json": f"[{entries}]"})
    assert main(["init", "--like", ".", "--function", "ns::read"]) == 0
    text = (here / "test_acf_ns__read.py").read_text()
    assert '"read.cc",\n        "reader.cc",' in text and "-fno-semantic-interposition" not in text
    assert "1 passed" in project.pytest("--acf-check=off", code=0)
    capsys.readouterr()
    assert main(["init", "--like", ".", "--function", "ns::measure"]) == 0
    assert "is called: the value that length points to" in capsys.readouterr().out


@needs.gxx
def test_init_of_cplusplus_finds_a_callee_s_variable_and_a_constant_member_function(here, capsys):
    project = make_project(here, {
        "reader.h": "namespace io { class Reader { int n_; public: Reader(int n); int at(int n) const; }; }\n"
                    "extern int steps[2]; extern const char *name;",
        "reader.cc": '#include "reader.h"\nnamespace io {\nReader::Reader(int n) : n_(n) {}\n'
                     "int Reader::at(int n) const { return n_ + n * steps[1]; }\n}\n"
                     "int far(int n) { return steps[0] * n + (name != 0); }",
        "steps.cc": '#include "reader.h"\nint steps[2] = {3, 4};\nconst char *name = "steps";\n',
        "other.cc": "static int steps = 1;\nextern int steps_too;\nint other(int n) { int steps = n; return steps; }",
    })  # fmt: skip
    assert main(["init", "--function", "far"]) == 0
    assert '"reader.cc",\n        "steps.cc",\n        flags' in (here / "test_acf_far.py").read_text()
    assert "1 passed" in project.pytest("--acf-check=off", code=0)
    capsys.readouterr()
    for name in ("io::Reader::at", "Reader::at"):
        assert main(["init", "--function", name]) == 0
        assert "only its author knows how io::Reader::at is called" in capsys.readouterr().out


CUDA = 'extern "C" __global__ void scale(float *x, int n) { x[threadIdx.x] *= n; }\ntemplate <class T> __global__ void t(T x) {}'


@needs.nvcc
def test_init_of_cuda_asks_for_registers_and_refuses_a_template(here, capsys):
    launched = "template <class T> __global__ void set(T *x) { *x = 1; }\nvoid launch(int *x) { set<<<1, 1>>>(x); set<<<1, 1>>>((float *)x); }"
    project = make_project(
        here,
        {"scale.cu": CUDA, "set.cu": f"{launched}\n__global__ void other() {{}}", "h.cuh": CUDA.replace("t(", "u(")},
    )
    assert main(["init", "--function", "set"]) == 0
    assert 'functions="set<*>",\n        neighbours="allow"' in (here / "test_acf_set.py").read_text()
    assert main(["init", "--function", "u"]) == 2
    assert "h.cuh::u is a template" in capsys.readouterr().err
    assert "1 passed" in project.pytest("--acf-check=off", code=0)
    (here / "test_acf_set.py").unlink()
    assert main(["init", "--function", "scale.cu::scale"]) == 0
    assert "1 passed" in project.pytest("--acf-check=off", code=0)
    assert main(["init", "--function", "t"]) == 2
    assert "scale.cu::t is a template, and only its author knows what to instantiate" in capsys.readouterr().err


@needs.nvcc
def test_init_of_cuda_takes_the_command_and_the_architectures_of_a_build(here, capsys):
    words = (
        f"{shlex.quote(str(next(installed('nvcc')).program))} -DBY=3 -gencode=arch=compute_90,code=sm_90 -c scale.cu"
    )
    project = make_project(here, {"scale.cu": CUDA.replace("= n", "= n * BY")})
    assert main(["init", "--function", "scale"]) == 2
    assert '"BY" is undefined' in capsys.readouterr().err
    built = [
        (words, "b"),
        (words.replace(" -c", " -gencode=arch=compute_80,code=sm_80 -c"), "c"),
        ("nvcc -c scale.cu", "d"),
    ]
    for command, name in built:
        entry = {"directory": str(here), "command": command, "file": "scale.cu"}
        write_files(here, {f"{name}/compile_commands.json": json.dumps([entry])})
    assert main(["init", "--function", "scale", "--like", "d"]) == 2
    assert "scale.cu: its command names no real architecture" in capsys.readouterr().err
    for name, arch in (("c", '["sm_80", "sm_90"]'), ("b", '"sm_90"')):
        assert main(["init", "--function", "scale", "--like", name]) == 0
        text = (here / "test_acf_scale.py").read_text()
        assert f'"scale.cu",\n        arch={arch},\n        like="{name}",\n    )' in text
        assert "1 passed" in project.pytest("--acf-check=off", code=0)
        (here / "test_acf_scale.py").unlink()


TRITON = """\
import triton
import triton.language as tl

@triton.jit
def double(x_ptr, n_elements, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n_elements
    tl.store(x_ptr + at, 2 * tl.load(x_ptr + at, mask=mask), mask=mask)

@triton.jit
def scale(x_ptr, factor):
    tl.store(x_ptr, factor * tl.load(x_ptr))
"""


def test_init_of_triton_says_what_only_the_launch_tells(here, capsys):
    make_project(here, {"kernels.py": TRITON})
    assert main(["init", "--function", "scale"]) == 2
    assert "kernels.py::scale: only its launch tells the type of factor" in capsys.readouterr().err
    assert not [*here.rglob("test_*")]


@needs.triton
@needs.ptxas
def test_init_of_triton_writes_a_benchmark_that_compiles(here):
    project = make_project(here, {"kernels.py": TRITON})
    assert main(["init", "--function", "double"]) == 0
    assert "1 passed" in project.pytest("--acf-check=off", code=0)


def test_init_of_other_projects_says_that_there_is_nothing_to_tune(here, capsys):
    (here / "setup.py").write_text("")
    (here / "fast.pyx").write_text("def f(x): return x")
    assert main(["init"]) == 0
    assert "1 file of Cython" in capsys.readouterr().out and not [*here.glob("*starter*")]
    (here / "fast.pyx").unlink()
    assert main(["init"]) == 0
    assert "no source in C, C++ or CUDA and no kernel of Triton here" in capsys.readouterr().out


def test_init_again_changes_nothing_and_what_is_there_stays(here, capsys):
    (here / "tests").mkdir()
    (here / "pyproject.toml").write_text('[tool.pytest.ini_options]\nacf_dir = "my tuned"\n')
    (here / ".gitattributes").write_text("*.png binary")
    (here / "tests" / "acf_starter.c").write_text("mine")
    assert main(["init"]) == main(["init"]) == 0
    assert (here / ".gitattributes").read_text() == (
        '*.png binary\n"my tuned/**" -text diff=acf\n"my tuned/**/*.csv" linguist-generated\n'
    )
    assert (here / "tests" / "acf_starter.c").read_text() == "mine" and not (here / "pytest.ini").exists()
    assert "left as it is" in capsys.readouterr().out


# ── prune ────────────────────────────────────────────────────────────────────────────────────────────────────────

BENCHMARKS = """\
import pytest
from pytest_compileiq import Cc

@pytest.mark.tune(Cc("k.c"))
@pytest.mark.parametrize("n", [1, 2])
def test_k(acf, n):
    pass
"""


@pytest.fixture
def store(here):
    (here / "pytest.ini").write_text("[pytest]\naddopts = -ra -k nothing\n")
    (here / "test_k.py").write_text(BENCHMARKS)
    store = Store(here / "acf")
    tests = {"k-1": "test_k[1]", "k-2": "test_k[2]", "gone": "test_gone", "lost": "test_lost"}
    for name, test in tests.items():
        store.write(name, make_artifact(benchmark=f"test_k.py::{test}"), controls=[CONTROLS], samples=())
    return store


@pytest.mark.slow
def test_prune_lists_what_no_test_claims_and_removes_it_when_told(store, capsys):
    assert main(["prune"]) == 0
    assert (
        capsys.readouterr().out
        == f"gone: {TARGET}\nlost: {TARGET}\nnothing removed: add --yes, or name what is to go\n"
    )
    assert main(["prune", "gone"]) == 0
    assert store.names() == ["k-1", "k-2", "lost"]
    assert main(["prune", "--yes"]) == 0
    assert store.names() == ["k-1", "k-2"]


def test_prune_collects_where_a_directory_below_has_a_conftest(store, here, capsys):
    (here / "below").mkdir()
    (here / "below" / "conftest.py").write_text("import pytest\n")
    (here / "below" / "test_more.py").write_text(
        BENCHMARKS.replace("test_k", "test_lost").replace('("k.c")', '("k.c"), name="lost"').replace("[1, 2]", "[1]")
    )
    assert main(["prune"]) == 0
    assert capsys.readouterr().out.startswith(f"gone: {TARGET}\nnothing removed")


def test_prune_refuses_what_a_test_claims_and_what_is_not_there(store, capsys):
    assert main(["prune", "gone", "k-1"]) == main(["prune", "nothing"]) == 2
    said = capsys.readouterr().err
    assert "k-1 is no orphan: test_k.py::test_k[1] claims it" in said and "there is no artifact 'nothing'" in said
    assert len(store.names()) == 4


def test_prune_removes_nothing_while_a_module_cannot_be_collected(store, here, capsys):
    (here / "test_broken.py").write_text("import nowhere_to_be_found\n")
    assert main(["prune", "--yes"]) == 2
    assert "test_broken.py could not be collected" in capsys.readouterr().err
    assert len(store.names()) == 4


def test_a_directory_within_an_artifact_is_not_removed(store, here, capsys):
    (here / "acf" / "gone" / "inner").mkdir()
    assert main(["prune", "gone"]) == 2
    assert "acf/gone could not be removed" in capsys.readouterr().err


# ── textconv ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def text(here, capsys):
    def run(name: str, data: bytes) -> str:
        (here / name).write_bytes(data)
        assert main(["textconv", name]) == 0
        return capsys.readouterr().out

    return run


def test_metadata_beyond_what_the_store_reads_is_shown_as_it_is_and_never_parsed(text):
    shown = text("t.toml", b"[a]\n" * (1 << 18) + b"[z]\n")
    assert "this file has 1048580 bytes, and at most 1048576 are read; it is shown as it is" in shown
    assert shown.count("[a]") == 1 << 18


def test_metadata_becomes_a_line_for_every_value_and_hides_none(text):
    artifact = make_artifact(claims=(measured_claim("cpu"),))
    shown = text("t.toml", render(artifact))
    assert shown.startswith(f"test_k.py::test_k for {TARGET}, tuned: runtime 1.100x faster, 1.050 to 1.200, on cpu\n")
    assert (
        "claim cpu / w / runtime: p_value = 0.001\n" in shown
        and f"controls sha256 = '{artifact.controls.sha256}'\n" in shown
    )
    point = FrontPoint(controls=artifact.controls, metrics={"runtime": 0.8468})
    shown_front = text("t.toml", render(artifact.model_copy(update={"front": (point,)})))
    assert "front 0, an estimate of the search: metrics runtime = 0.8468\n" in shown_front
    other = artifact.model_copy(
        update={"fingerprint": artifact.fingerprint.model_copy(update={"benchmark": "a" * 63 + "b"})}
    )
    assert text("t.toml", render(other)) != shown


def test_options_are_shown_as_they_are_and_a_blob_in_hexadecimal(text):
    assert text("t.acf", CONTROLS) == "-O3\n-funroll-loops\n"
    shown = text("t.acf", bytes(range(250, 256)) * 4)
    assert shown.startswith("24 bytes, sha256 ") and "00000010  fe ff fa" in shown


def test_samples_become_distributions_and_the_digest_of_the_whole(text):
    from pytest_compileiq.store.samples import encode_samples

    shown = text("t.csv", encode_samples(make_rows()))
    assert "cpu / w / runtime / tuned: 8 samples of 2 processes, 0 dropped, median 0.000102" in shown
    assert shown.startswith("sha256 ")


@pytest.mark.parametrize("name", ["t.toml", "t.csv", "t.acf"])
def test_what_is_not_what_its_name_says_is_shown_and_not_obeyed(text, name):
    shown = text(name, b"x\x1b[31m \xe2\x80\xae y\nsecond")
    assert "x\\x1b[31m \\u202e y\nsecond" in shown and "\x1b" not in shown
    assert text(name, b"\xff\x00").endswith("00000000  ff 00\n")
