"""The ground a claim stands on: a machine that can run the kernel, or not, and builds that come out the same."""

from __future__ import annotations

import json
import platform
import shutil
import tomllib
from functools import partial
from pathlib import Path

import pytest

from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc.compiler import find_compiler
from tests.projects import Project, make_project

FOREIGN = ("bdver4", "knl", "sapphirerapids")
KERNEL_C = "int kernel(int x) { int sum = 0; for (int i = 0; i < x; i++) sum += i * x; return sum; }\n"
TEST_PY = """\
import pytest
from pytest_compileiq import Cc, choice, minimize


@pytest.mark.tune(Cc("kernel.c", flags="{flags}"), space={{"-O": choice(["s", 2])}}, objectives=[minimize("code_bytes")])
def test_kernel(acf):
    {body}
"""
LOADS = "assert acf.build().load().kernel(3) == 9"


@pytest.fixture(scope="module")
def foreign() -> str:
    """A processor that gcc compiles for and that this machine is not."""
    if platform.machine() != "x86_64":
        pytest.skip(f"the processors known to be foreign are x86-64 ones, and this machine is {platform.machine()}")
    gcc = find_compiler("gcc", Place(Path.cwd(), Path.cwd()))
    for march in FOREIGN:
        if gcc.unrunnable([f"-march={march}"]):
            return march
    pytest.skip(f"this processor runs all of {', '.join(FOREIGN)}")


def make(project, flags: str, body: str = LOADS, kernel: str = KERNEL_C) -> Project:
    return project({"kernel.c": kernel, "test_kernel.py": TEST_PY.format(flags=flags, body=body)})


def item_of(made: Project) -> dict:
    (item,) = json.loads((made.root / "report.json").read_text())["items"]
    return item


# ── acf_no_device ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def _tuned_elsewhere_once(tmp_path_factory, foreign) -> Path:
    made = make(partial(make_project, tmp_path_factory.mktemp("elsewhere") / "project"), f"-O3 -march={foreign}")
    output = made.pytest("--tune", "--tune-budget=2", code=0)
    assert "correctness was not checked beyond the build: it needs " in output
    return made.root


@pytest.fixture
def tuned_elsewhere(_tuned_elsewhere_once, tmp_path) -> Project:
    """A project whose kernel was tuned for a processor that this machine is not."""
    shutil.copytree(_tuned_elsewhere_once, tmp_path / "project")
    return Project(tmp_path / "project")


@pytest.mark.slow
def test_code_for_another_processor_is_tuned_replayed_skipped_or_failed(tuned_elsewhere, foreign):
    (claim,) = tomllib.loads(tuned_elsewhere.one(f"acf/kernel/{foreign}-gcc*.toml").read_text())["claims"]
    assert claim["kind"] == "exact" and claim["tuned_value"] < claim["baseline_value"]

    output = tuned_elsewhere.pytest("--acf-report=report.json", code=0)
    item = item_of(tuned_elsewhere)
    assert item["verdict"] == "PROVEN" and "1 passed" in output
    assert "1 × correctness not checked: it needs " in output
    status = {check["name"]: check["status"] for check in item["checks"]}
    assert status == {"integrity": "passed", "staleness": "passed", "correctness": "not run", "claim": "passed"}

    output = tuned_elsewhere.pytest("-o", "acf_no_device=skip", "-rs", "--acf-report=report.json", code=0)
    assert "1 skipped" in output and "which this processor lacks" in output
    assert item_of(tuned_elsewhere)["verdict"] == "NO DEVICE"

    output = tuned_elsewhere.pytest("-o", "acf_no_device=fail", "--acf-report=report.json", code=1)
    assert "NO DEVICE: it needs " in output and "run on a machine that can run the kernel" in output
    assert item_of(tuned_elsewhere)["failed"]


def test_what_is_stale_is_stale_without_the_device_too(tuned_elsewhere):
    tuned_elsewhere.edit("kernel.c", "i * x", "i + x")
    assert "STALE" in tuned_elsewhere.pytest("-o", "acf_no_device=skip", code=1)


def test_a_benchmark_that_only_compiles_needs_no_device(project, foreign):
    made = make(project, f"-O3 -march={foreign}", body="acf.build()")
    made.pytest("--tune", "--tune-budget=2", code=0)
    assert "1 proven" in made.pytest("-o", "acf_no_device=fail", code=0)


def test_speed_is_not_tuned_where_the_kernel_cannot_run(project, foreign):
    made = make(project, f"-O3 -march={foreign}")
    made.edit("test_kernel.py", 'objectives=[minimize("code_bytes")]', 'objectives=[minimize("runtime")]')
    output = made.pytest("--tune", "--tune-budget=2", code=1)
    assert "which this processor lacks, so its speed cannot be measured on this machine" in output
    assert not (made.root / "acf").exists()


# ── builds that come out the same ─────────────────────────────────────────────────────────────────────────────────

PLACED_C = 'const char *source(void) { return __FILE__; }\n#include "kernel.h"\n' + KERNEL_C
PLACED_H = "const char *header(void) { return __FILE__; }\n"
PLACED_BODY = """library = acf.build().load()
    assert library.kernel(3) == 9
    library.source.restype = library.header.restype = ctypes.c_char_p
    assert (library.source(), library.header()) == (b"sub/kernel.c", b"sub/include/kernel.h")"""


def test_the_place_of_a_checkout_is_not_in_the_code(project, tmp_path):
    test_py = "import ctypes\n\n" + TEST_PY.format(flags="-O3 -Iinclude", body=PLACED_BODY)
    made = project({"sub/kernel.c": PLACED_C, "sub/include/kernel.h": PLACED_H, "sub/test_kernel.py": test_py})
    made.pytest("--tune", "--tune-budget=2", code=0)
    shutil.copytree(made.root, tmp_path / "another" / "checkout")
    assert "1 proven" in Project(tmp_path / "another" / "checkout").pytest(code=0)


def test_a_build_that_holds_its_directory_is_refused(project):
    made = make(project, "-O3 --coverage", body="acf.build()")
    output = made.pytest("--tune", "--tune-budget=2", code=1)
    assert "building the baseline twice in two directories gives different machine code in kernel, so" in output
    assert not (made.root / "acf").exists()


COMMAND_PY = """\
from pathlib import Path

import pytest
from pytest_compileiq import Cc, Command, choice, minimize

HERE = Path(__file__).parent


@pytest.mark.tune({toolchain}, space={{"-O": choice(["s", 2])}}, objectives=[minimize("code_bytes")])
def test_kernel(acf):
    assert acf.build().load().kernel(3) == 9
"""
STEPS = """Command(
    ["sh make.sh {out_dir}/kernel.c", "gcc -O3 {options} -fPIC -c {out_dir}/kernel.c -o {out_dir}/kernel.o",
     "gcc -shared {out_dir}/kernel.o -o {out}"],
    sources="make.sh", version="gcc --version")"""
NOT_CHECKED = "whether another checkout gives the same machine code was not checked"


def test_a_build_that_holds_the_place_of_the_checkout_is_refused(project):
    made = project(
        {
            "kernel.c": KERNEL_C,
            "make.sh": 'cp kernel.c "$1"; echo "char *where(void) { return \\"$PWD\\"; }" >> "$1"\n',
            "test_kernel.py": COMMAND_PY.format(toolchain=STEPS),
        }
    )
    output = made.pytest("--tune", "--tune-budget=2", code=1)
    assert "from a copy of the project in another directory gives different machine code in where, so" in output
    assert f"remove what puts the place of this one ({made.root}) into the code" in output
    assert not (made.root / "acf").exists()


def test_a_build_that_reads_more_than_it_says_is_found_the_same_elsewhere(project):
    made = project(
        {
            "parts/kernel.c": KERNEL_C,
            "make.sh": 'cat parts/*.c > "$1"\n',
            "test_kernel.py": COMMAND_PY.format(toolchain=STEPS),
        }
    )
    assert NOT_CHECKED not in made.pytest("--tune", "--tune-budget=2", code=0)


@pytest.mark.slow
def test_a_source_outside_rootdir_by_path_or_link_is_refused(tmp_path):
    """No acf command and no other clone would find it again; within the project a link is a source."""
    for place in ("common", "project/inner"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "kernel.h").write_text("#define FACTOR 1\n")
    test_py = TEST_PY.format(flags="-O3 -I../common", body=LOADS)
    source = '#include "kernel.h"\n' + KERNEL_C.replace("i * x", "i * x * FACTOR")
    made = make_project(tmp_path / "project", {"kernel.c": source, "test_kernel.py": test_py})
    for budget in ("2", "0"):
        output = made.pytest("--tune", f"--tune-budget={budget}", code=1)
        assert "../common/kernel.h lies outside the project, whose rootdir is" in output
        assert f"make {tmp_path} the rootdir" in output and f"pytest --rootdir={tmp_path}" in output
    rooted = (f"--rootdir={tmp_path}", "test_kernel.py")
    assert NOT_CHECKED not in made.pytest(*rooted, "--tune", "--tune-budget=2", code=0)
    assert "@" in made.acf("flags", "kernel", "--compiler", "gcc")

    (made.root / "kernel.h").symlink_to("../common/kernel.h")
    assert " kernel.h lies outside the project" in made.pytest("--tune", "--tune-budget=2", code=1)
    (made.root / "kernel.h").unlink()
    (made.root / "kernel.h").symlink_to("inner/kernel.h")
    made.pytest("--tune", "--tune-budget=2", code=0)
    assert '"inner/kernel.h" = ' in made.one("acf/kernel/*.toml").read_text()


def test_a_build_that_cannot_be_had_elsewhere_is_tuned_and_says_that_it_was_not_checked(project):
    by_place = COMMAND_PY.format(toolchain='Cc(str(HERE / "kernel.c"), flags="-O3")')
    made = project({"kernel.c": KERNEL_C, "test_kernel.py": by_place})
    output = made.pytest("--tune", "--tune-budget=2", code=0)
    assert NOT_CHECKED in output
    assert NOT_CHECKED in made.pytest("--tune", "--tune-budget=0", code=0)


def test_a_command_that_names_the_checkout_is_said_to(project):
    by_place = COMMAND_PY.format(toolchain="""Cc("kernel.c", flags=f"-O3 -DHERE='{HERE}/data'")""")
    made = project({"kernel.c": KERNEL_C, "test_kernel.py": by_place})
    output = made.pytest("--tune", "--tune-budget=2", code=0)
    assert f"the compiler's command names this checkout (-DHERE={made.root}/data)" in output


def with_text(project, macro: str) -> Project:
    """A project whose library holds what ``macro`` expands to."""
    body = "library = acf.build().load()\n    assert library.kernel(3) == 9 and library.text"
    return make(project, "-O3", body, KERNEL_C + f"const char *text(void) {{ return {macro}; }}\n")


@pytest.mark.parametrize("macro", ["__TIMESTAMP__", "__TIME__", "__DATE__"])
def test_a_build_that_would_hold_a_date_or_a_time_is_refused(project, macro):
    output = with_text(project, macro).pytest("--tune", "--tune-budget=2", code=1)
    assert "the baseline does not build" in output
    assert "[-Werror=date-time]" in output
