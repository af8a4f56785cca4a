"""A generated test builds its kernel of a real library: its own source, what it calls, and what the user names."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.files import write_files
from tests.projects import Project

FILES = {
    "pytest.ini": "[pytest]\n",
    "include/scale.h": "double factor(void);\nextern double offset;\n",
    "src/blend.c": """\
#include "scale.h"
#include <complex.h>
double blend(const double *x, long n) {
    double sum = 0 * creal((1.0 + I) * (x[0] + x[1] * I));  // of which the compiler's own library is a part
    for (long i = 0; i < n; i++) sum += x[i] * factor() + offset;
    return sum;
}
""",
    "src/factor.c": """\
#include "scale.h"
__attribute__((visibility("hidden"))) double step(void);
double factor(void) { return step() + 1; }
""",
    "src/step.c": '__attribute__((visibility("hidden"))) double step(void) { return 0.5; }\n',
    "src/offset.c": '#include "scale.h"\n#include "level.h"\ndouble offset = LEVEL;\n',
    "src/private/level.h": "#define LEVEL 2\n",  # of which no debug information tells
    "build/private/level.h": "#define LEVEL 3\n",  # which is farther away
    "src/alone.c": "double alone(const double *x, long n) { return SCALE * x[n - 1]; }\n",
    "program.py": """\
import ctypes
import numpy as np
kernels = ctypes.CDLL("./kernels.so")
ARRAY = np.ctypeslib.ndpointer(np.float64)
for name in ("blend", "alone"):
    function = getattr(kernels, name)
    function.argtypes, function.restype = [ARRAY, ctypes.c_long], ctypes.c_double
    print(function(np.arange(1000.0), 1000))
""",
}
SOURCES = ("blend", "factor", "step", "offset", "alone")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc: apt-get install gcc")]


def made(root: Path, *options: str) -> Project:
    """A library of five sources, which is compiled with these options."""
    write_files(root, FILES)
    commands = [
        ["gcc", "-O2", "-fPIC", "-Iinclude", "-Isrc/private", "-DSCALE=3.0", *options, "-c", f"src/{name}.c"]
        for name in SOURCES
    ]
    for name, command in zip(SOURCES, commands, strict=True):
        subprocess.run([*command, "-o", f"{name}.o"], cwd=root, check=True)
    subprocess.run(["gcc", "-shared", *(f"{name}.o" for name in SOURCES), "-o", "kernels.so"], cwd=root, check=True)
    entries = [{"directory": str(root), "file": command[-1], "arguments": command} for command in commands]
    (root / "compile_commands.json").write_text(json.dumps(entries))
    return Project(root)


def capture(project: Project, *options: str, code: int = 0) -> str:
    shutil.rmtree(project.root / "acf-capture", ignore_errors=True)
    return project.acf("capture", "--tests", "tests", *options, "--", sys.executable, "program.py", code=code)


def named(project: Project, test: str) -> list[str]:
    return re.findall(r'"\.\./src/(\w+)\.c"', (project.root / f"tests/test_{test}.py").read_text())


def test_a_function_is_built_with_the_sources_and_headers_of_what_it_calls(tmp_path):
    project = made(tmp_path, "-g")
    said = capture(project)
    assert named(project, "blend") == ["blend", "factor", "offset", "step"]
    assert "-I../include -I../src/private" in (tmp_path / "tests/test_blend.py").read_text()
    assert re.search("the test of alone will not do as it is: it cannot be built as far as is known: .*SCALE", said)
    assert "macros (-D) are not known from a library" in said
    assert "1 passed" in project.pytest("--acf-check=off", "tests/test_blend.py", code=0)


def test_the_commands_of_the_build_bring_macros_and_sources_of_a_library_that_tells_nothing(tmp_path):
    project = made(tmp_path)
    said = capture(project)
    assert "no test of blend: kernels.so does not tell its source: compile it with -g, or name it with --source" in said
    said = capture(project, "--like", "compile_commands.json")
    assert "macros" not in said
    assert (named(project, "blend"), named(project, "alone")) == (["blend", "factor", "offset", "step"], ["alone"])
    assert 'like="../compile_commands.json",' in (tmp_path / "tests/test_alone.py").read_text()
    assert "2 passed" in project.pytest("--acf-check=off", code=0)


def test_sources_may_be_named_and_what_is_still_lacking_is_told(tmp_path):
    project = made(tmp_path)
    shutil.rmtree(tmp_path / "include")
    for name in ("blend", "factor"):  # so that no -I is needed
        project.edit(f"src/{name}.c", '#include "scale.h"', "double factor(void); extern double offset;")
    sources = [word for name in ("blend", "factor", "step") for word in ("--source", f"src/{name}.c")]
    said = capture(project, *sources)
    assert "no test of alone: none of the 3 sources that were named defines it" in said
    assert named(project, "blend") == ["blend", "factor", "step"]
    assert "the test of blend will not do as it is: it calls offset, whose source is not known" in said
    assert "how the library was compiled is not known" in (tmp_path / "tests/test_blend.py").read_text()


def test_a_source_that_moved_is_the_named_one_whose_path_is_most_alike(tmp_path):
    project = made(tmp_path, "-g")
    (tmp_path / "src").rename(tmp_path / "moved")
    said = capture(project)
    assert f"no test of blend: its source {tmp_path}/src/blend.c is not here: name it with --source FILE" in said
    write_files(tmp_path, {"other/blend.c": "int x;"})
    sources = [word for name in SOURCES for word in ("--source", f"moved/{name}.c")]
    said = capture(project, *sources)
    text = (tmp_path / "tests/test_blend.py").read_text()
    assert re.findall(r'"\.\./moved/(\w+)\.c"', text) == ["blend", "factor", "offset", "step"]


def test_what_could_not_be_used_is_refused_before_the_program_runs(tmp_path):
    project = made(tmp_path)
    assert "there is no file gone.c" in capture(project, "--source", "gone.c", code=2)
    program = ("--", sys.executable, "program.py")
    said = project.acf("capture", "--like", "compile_commands.json", *program, code=2)
    assert "--source and --like are for the tests that --tests DIR writes" in said
