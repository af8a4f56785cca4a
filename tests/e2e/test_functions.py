"""One function of a C++ library, tuned beside neighbours that its test does not call: from the search to the review."""

from __future__ import annotations

import shutil
import subprocess
import tomllib

import pytest

from pytest_compileiq import Cc
from pytest_compileiq.cli.main import main
from tests import needs
from tests.e2e.shipping import prove
from tests.files import write_files

pytestmark = needs.gxx

VECTORS_CPP = """\
namespace vectors {
template <class T> __attribute__((noinline)) T square(T x) { return x * x; }
float norm(const float *x, int n) { float s = 0; for (int i = 0; i < n; i++) s += square(x[i]); return s; }
template <class T> __attribute__((noinline)) void order(T &x, T &y) { if (y < x) { T z = x; x = y; y = z; } }
float *sorted(float *x, int n) { for (int i = 0; i < n; i++) for (int k = i; k > 0; k--) order(x[k - 1], x[k]); return x; }
}
extern "C" float median(float *x, int n) { return vectors::sorted(x, n)[n / 2]; }
"""
VECTORS_PY = """\
import ctypes
import pytest
from pytest_compileiq import Cc, choice, minimize

TOOLCHAIN = Cc("vectors.cpp", flags="-O3", compiler="g++", functions="vectors::norm", neighbours="allow")

@pytest.mark.tune(TOOLCHAIN, space={"-O": choice(["s"])}, objectives=[minimize("code_bytes")])
def test_norm(acf):
    norm = acf.build().load()["vectors::norm"]
    norm.restype = ctypes.c_float
    assert norm((ctypes.c_float * 3)(1, 2, 3), 3) == 14
"""
ALSO = "also changes: median, vectors::sorted, not exercised by this test"


@pytest.mark.slow
def test_one_function_of_a_cplusplus_library_is_tuned_replayed_elsewhere_and_reviewed(project, tmp_path, capsys):
    made = project({"vectors.cpp": VECTORS_CPP, "test_vectors.py": VECTORS_PY})
    assert ALSO in made.pytest("--tune", "--tune-budget=2", code=0)
    artifact = tomllib.loads(made.one("acf/norm/*.toml").read_text())
    assert artifact["functions"] == ["_ZN7vectors4normEPKfi"]
    assert list(artifact["code"]) == ["_ZN7vectors4normEPKfi", "_ZN7vectors6sortedEPfi", "median"]

    elsewhere = type(made)(shutil.copytree(made.root, tmp_path / "elsewhere" / "checkout"))
    assert ALSO in elsewhere.pytest(code=0)
    assert main(["--acf-dir", str(elsewhere.root / "acf"), "show", "norm"]) == 0
    shown = capsys.readouterr().out
    assert "stands for vectors::norm\n" in shown and "changes median, vectors::sorted, not exercised" in shown
    assert main(["--acf-dir", str(made.root / "acf"), "flags", "norm", "--compiler", "g++"]) == 0
    assert f"norm {ALSO.removesuffix('this test')}its test" in capsys.readouterr().err

    elsewhere.edit("test_vectors.py", '"vectors::norm", neighbours', '["vectors::norm", "sqare*"], neighbours')
    assert "functions='sqare*': this build has no such entry function" in elsewhere.pytest(code=1)


def test_names_of_cplusplus_are_shown_as_their_source_spells_them(project):
    made = project({"vectors.cpp": VECTORS_CPP, "test_vectors.py": VECTORS_PY})
    git = ["git", "-C", str(made.root), "-c", "user.name=n", "-c", "user.email=n@example.invalid"]
    subprocess.run([*git, "init", "-q"], check=True)
    said = [made.pytest("--tune", "--tune-budget=2", code=0)]
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "Tune"], check=True)
    made.edit("vectors.cpp", "s += square(x[i])", "s -= square(x[i])")
    said.append(made.pytest("--acf-html=page.html", code=1))
    assert "the machine code is another, in vectors::norm" in said[-1]
    subprocess.run(["g++", "-O3", "-fPIC", "-c", "vectors.cpp"], cwd=made.root, check=True)
    said.append(made.acf("verify-binary", "vectors.o", code=1))
    assert "vectors::norm is neither proven arm of norm" in said[-1]
    made.edit("test_vectors.py", "== 14", "== -14")
    said.append(made.pytest("--tune", "--tune-budget=2", code=0))
    subprocess.run([*git, "commit", "-qam", "Tune again"], check=True)
    said.append(made.acf("diff", "HEAD~1..HEAD"))
    assert "vectors::norm (tuned) " in said[-1]
    said += [made.acf("diff", "HEAD~1..HEAD", "--format", "markdown"), made.acf("show", "norm"), made.acf("list")]
    said += [made.acf("flags", "norm", "--compiler", "g++"), (made.root / "page.html").read_text()]
    for each in said:
        assert "_Z" not in each, each


INSTANCES_CPP = """\
template <class T> T square(T x) { return x * x; }
template float square(float);
float norm(const float *x, int n) { float s = 0; for (int i = 0; i < n; i++) s += square(x[i]); return s; }
"""


def test_an_object_of_a_named_instantiation_is_verified_as_it_was_proven(tmp_path, capsys):
    write_files(tmp_path, {"k.cpp": INSTANCES_CPP, "test_k.py": ""})
    square = Cc("k.cpp", compiler="g++", functions="square<float>", neighbours="allow")
    artifact = prove(tmp_path, "k", square, {"-O": "s"}, functions=("_Z6squareIfET_S0_",))
    assert list(artifact.code) == ["_Z4normPKfi", "_Z6squareIfET_S0_"]
    verify = ["--acf-dir", str(tmp_path / "acf"), "verify-binary", str(tmp_path / "k.o")]
    for level, verdict in (("-Os", 0), ("-O2", 1), ("-O3", 1)):
        compile_it = ["g++", "-O2", "-fPIC", "-fno-gnu-unique", level, "-c", "k.cpp", "-o", "k.o"]
        subprocess.run(compile_it, cwd=tmp_path, check=True)
        assert main(verify) == verdict
    capsys.readouterr()


OPERATORS_CPP = """\
struct V { float x; };
__attribute__((noipa)) inline V operator*(const V &a, const V &b) { return {a.x * b.x}; }
__attribute__((noipa)) inline V operator/(const V &a, const V &b) { return {a.x / b.x}; }
float norm(const V *v, int n) { V s{0}; for (int i = 0; i < n; i++) s = v[i] * s / v[i]; return s.x; }
"""


def test_what_is_a_name_as_it_stands_names_one_function_in_the_build_and_in_the_verification(tmp_path, capsys):
    write_files(tmp_path, {"k.cpp": OPERATORS_CPP, "test_k.py": ""})
    times = Cc("k.cpp", compiler="g++", functions="operator*", neighbours="allow")
    artifact = prove(tmp_path, "k", times, {"-O": "s"}, functions=("_ZmlRK1VS1_",))
    assert list(artifact.code) == ["_Z4normPK1Vi", "_ZmlRK1VS1_"]  # operator/ serves them
    compile_it = ["g++", "-O2", "-fPIC", "-fno-gnu-unique", "-Os", "-c", "k.cpp", "-o", "k.o"]
    subprocess.run(compile_it, cwd=tmp_path, check=True)
    assert main(["--acf-dir", str(tmp_path / "acf"), "verify-binary", str(tmp_path / "k.o")]) == 0
    capsys.readouterr()
