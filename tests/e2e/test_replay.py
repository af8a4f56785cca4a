"""Plain ``pytest`` on a committed artifact: what keeps it fresh, and each thing that ends that."""

from __future__ import annotations

import json
import re

import pytest


def test_an_untouched_artifact_is_proven_again_on_its_device(proven_again):
    project, output = proven_again
    report = json.loads((project.root / "report.json").read_text())
    (item,) = report["items"]
    assert report["schema"] == 1
    assert item["verdict"] == "PROVEN"
    assert item["speedup_low"] > 1.005
    assert {check["name"] for check in item["checks"]} == {"integrity", "staleness", "correctness", "claim", "speed"}
    assert "PROVEN" in output and "at least" in output


def test_replay_alone_says_that_speed_was_not_checked(tuned):
    output = tuned.pytest("--acf-check=replay", code=0)
    assert "1 replayed" in output
    assert "speed not checked: --acf-check=replay" in output


def test_a_normal_run_writes_nothing_that_git_sees(tuned):
    def files():
        own = (path for path in tuned.root.rglob("*") if path.is_file())
        return {path: path.read_bytes() for path in own if not {"__pycache__", "builds"} & set(path.parts)}

    before = files()
    tuned.pytest("--acf-check=replay", code=0)
    assert files() == before
    assert (tuned.root / ".compileiq" / ".gitignore").read_text() == "*\n"


def test_a_changed_comment_is_fresh_and_noted(tuned):
    tuned.edit("kernel.c", "The root of a sum", "The square root of a sum")
    output = tuned.pytest("--acf-check=replay", code=0)
    assert "kernel.c" in output


def test_formatting_and_comments_of_the_test_are_fresh(tuned):
    tuned.edit("test_kernel.py", "    x, y = buffers\n", "    # the buffers are shared\n\n    x, y = buffers\n")
    tuned.pytest("--acf-check=replay", code=0)


COSMETIC_FLAGS = {
    "a warning": ("-O1 -march", "-Wall -O1 -march", "(new: -Wall)"),
    "a debugger's": ("-O1 -march", "-g -O1 -march", "(new: -g -g)"),  # it goes to the link, too
    "another order": ("-O1 -march=x86-64-v3", "-march=x86-64-v3 -O1", "(another order)"),
}


@pytest.mark.parametrize("what", COSMETIC_FLAGS)
def test_flags_that_change_no_machine_code_are_fresh_and_noted(tuned, what):
    old, new, said = COSMETIC_FLAGS[what]
    tuned.edit("test_kernel.py", old, new)
    output = tuned.pytest("--acf-check=replay", code=0)
    assert f"    the compiler's command changed {said}: the machine code is the same" in output


STALE = {
    "a constant in an included header": ("kernel.h", "2.0f", "2.0001f", "kernel.h"),
    "a flag": ("test_kernel.py", "-O1 -march", "-O2 -march", "command changed (gone: -O1 -O1; new: -O2 -O2): the machine code is another, in kernel"),
    "a library to link": ("test_kernel.py", "-O1 -march", "-lm -O1 -march", "command changed (new: -lm): something else is linked"),
    "a workload's value": ("test_kernel.py", "dict(n=16384)", "dict(n=16380)", "the benchmark changed: workload whole"),
    "a workload's name": ("test_kernel.py", '"odd"', '"uneven"', "the benchmark changed: workload odd (gone), workload uneven (added)"),
    "an objective": ("test_kernel.py", 'workloads={"whole"', 'objectives=[minimize("runtime", at="p95")], workloads={"whole"', "the benchmark changed: objectives"),
    "one character of the test's logic": ("test_kernel.py", "rtol=1e-5", "rtol=1e-4", "the benchmark changed: test test_kernel.py::test_kernel"),
    "a fixture": ("test_kernel.py", "linspace(-3, 3", "linspace(-3, 4", "the benchmark changed: fixture test_kernel.py::buffers"),
    "a helper that the test uses": ("test_kernel.py", "return 2.0 *", "return 2 *", "the benchmark changed: helper test_kernel.py::expected"),
    "a lower architecture level": ("test_kernel.py", "x86-64-v3", "x86-64-v2", "the test asks for x86-64-v2-gcc"),
    "a higher architecture level": ("test_kernel.py", "x86-64-v3", "x86-64-v4", "the test asks for x86-64-v4-gcc"),
    "a processor": ("test_kernel.py", "x86-64-v3", "znver3", "the test asks for znver3-gcc"),
    "no architecture": ("test_kernel.py", " -march=x86-64-v3", "", "the test asks for x86-64-gcc"),
    "whatever this machine is": ("test_kernel.py", "x86-64-v3", "native", "the artifact is for x86-64-v3-gcc"),
}  # fmt: skip
STILL_APPLY = ("header", "flag", "library", "workload", "objective", "logic", "fixture", "helper")


@pytest.mark.parametrize("what", STALE)
def test_a_change_that_matters_fails_the_test_with_a_remedy(tuned, what):
    name, old, new, said = STALE[what]
    tuned.edit(name, old, new)
    if "minimize" in new:
        tuned.edit(name, "literal\n", "literal, minimize\n")
    output = tuned.pytest("--acf-check=replay", code=1)
    assert "STALE" in output and said in output
    assert "pytest --tune test_kernel.py::test_kernel" in output
    proving = "prove the committed controls anew: pytest --tune --tune-budget=0 test_kernel.py::test_kernel"
    assert (proving in output) is any(word in what for word in STILL_APPLY)
    assert "1 failed" in output


SUM_C = "int kernel(int x) { int sum = 0; for (int i = 0; i < x; i++) sum += i * x; return sum; }\n"
NATIVE_PY = """\
import pytest
from pytest_compileiq import Cc, choice, minimize

@pytest.mark.tune(Cc("kernel.c", flags="-O3 -march=native"), space={"-O": choice(["s", 2])}, objectives=[minimize("code_bytes")])
def test_kernel(acf):
    assert acf.build().load().kernel(3) == 9
"""


@pytest.mark.slow
def test_what_another_machine_chose_is_no_device_here_and_what_the_test_no_longer_asks_for_is_stale(project):
    made = project({"kernel.c": SUM_C, "test_kernel.py": NATIVE_PY})
    made.pytest("--tune", "--tune-budget=2", code=0)
    made.pytest(code=0)
    path = made.one("acf/kernel/*.toml")
    assert 'architecture_from = "machine"' in path.read_text()
    here = path.name.rpartition("-")[0]
    for file in path.parent.iterdir():
        file.rename(file.with_name(file.name.replace(here, "elsewhere")))
    metadata = made.one("acf/kernel/*.toml")
    metadata.write_text(metadata.read_text().replace(f"{here}-gcc", "elsewhere-gcc"))
    assert "1 skipped" in made.pytest(code=0)
    assert "NO DEVICE" in made.pytest("-o", "acf_no_device=fail", code=1)
    made.edit("test_kernel.py", " -march=native", "")
    assert "STALE: the test asks for x86-64-gcc" in made.pytest(code=1)


def test_the_report_names_the_entry_functions_that_moved(tuned):
    tuned.edit("kernel.h", "2.0f", "2.0001f")
    output = tuned.pytest("--acf-check=replay", "--acf-report=report.json", code=1)
    assert "the machine code is another, in kernel" in output
    (item,) = json.loads((tuned.root / "report.json").read_text())["items"]
    assert item["moved"] == [{"entry": "kernel", "architecture": "x86-64-v3", "arms": ["baseline", "tuned"]}]


def test_stale_can_be_a_warning(tuned):
    tuned.edit("test_kernel.py", "rtol=1e-5", "rtol=1e-4")
    output = tuned.pytest("--acf-check=replay", "-o", "acf_stale=warn", code=0)
    assert "STALE" in output


def test_one_byte_of_the_controls_fails(tuned):
    path = tuned.one("acf/kernel/*.acf")
    path.write_bytes(
        path.read_bytes().replace(b"-O", b"-f", 1) if b"-O" in path.read_bytes() else path.read_bytes() + b"x"
    )
    output = tuned.pytest(code=1)
    assert "CORRUPT" in output and path.name in output and "git checkout" in output


def test_one_number_of_the_claim_fails(tuned):
    path = tuned.one("acf/kernel/*.toml")
    text = path.read_text()
    number = re.search(r"^speedup = ([0-9.]+)$", text, re.MULTILINE)
    path.write_text(text.replace(number[0], f"speedup = {float(number[1]) * 1.01}"))
    output = tuned.pytest("--acf-check=replay", code=1)
    assert "CORRUPT" in output and "speedup" in output


def test_a_missing_artifact_fails_and_may_warn(tuned):
    import shutil

    shutil.rmtree(tuned.root / "acf")
    remedy = "run: pytest --tune test_kernel.py::test_kernel"
    for arguments, code, counted in (
        (["-rN"], 1, "1 missing"),  # pytest's own short summary repeats every failure
        (["-rN", "--tb=no"], 1, "1 missing"),
        (["-o", "acf_missing=warn"], 0, "1 missing"),
    ):
        output = tuned.pytest(*arguments, code=code)
        assert (output.count("MISSING"), output.count(remedy), output.count(counted)) == (1, 1, 1), output


def test_check_off_reads_nothing(tuned):
    tuned.one("acf/kernel/*.toml").write_text("not toml at all")
    output = tuned.pytest("--acf-check=off", code=0)
    assert "UNCHECKED" in output and "--acf-check=off" in output


def test_an_orphan_is_named_on_complete_runs_only(tuned):
    (tuned.root / "acf/kernel").rename(tuned.root / "acf/renamed")
    output = tuned.pytest("-o", "acf_missing=warn", "-o", "acf_orphans=fail", code=11)
    assert "renamed" in output
    filtered = tuned.pytest("test_kernel.py", "-o", "acf_missing=warn", "-o", "acf_orphans=fail", code=0)
    assert "renamed" not in filtered


def test_a_wrong_answer_fails_with_the_tests_own_assertion(tuned):
    tuned.edit("test_kernel.py", "return 2.0 *", "return 3.0 *")
    output = tuned.pytest("-o", "acf_stale=warn", code=1)
    assert "Not equal to tolerance" in output
