"""What ``acf doctor`` says of the lock files and of the disassembler."""

from __future__ import annotations

import pytest

from pytest_compileiq.cli import doctor
from pytest_compileiq.cli.main import main
from pytest_compileiq.timing.gpu_watch import SHARED


def locks() -> doctor.Examined:
    (found,) = (finding for finding in doctor.examine() if finding.name == "locks")
    return found


@pytest.mark.parametrize(
    ("in_container", "has_gpu", "is_given", "warns"),
    [(True, True, False, True), (False, True, False, False), (True, False, False, False), (True, True, True, False)],
)
def test_it_shows_where_locks_lie_and_whom_they_cannot_exclude(
    monkeypatch, tmp_path, in_container, has_gpu, is_given, warns
):
    monkeypatch.setattr(doctor, "is_in_container", lambda: in_container)
    monkeypatch.setattr(doctor, "find_device_or_none", lambda kind: object() if has_gpu else None)
    monkeypatch.setenv("ACF_LOCK_DIR", str(tmp_path) if is_given else "")

    found = locks()

    assert found.found.startswith(f"in {tmp_path}" if is_given else "in /")
    assert (SHARED in found.found) == warns


def test_a_directory_that_cannot_hold_locks_is_nothing_found_and_a_remedy(monkeypatch, tmp_path):
    monkeypatch.setenv("ACF_LOCK_DIR", str(tmp_path / "gone"))

    found = locks()

    assert found.found == ""
    assert "or unset the variable" in found.remedy


def test_a_search_without_objdump_is_not_left_to_guess(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))

    (found,) = (finding for finding in doctor.examine() if finding.name == "objdump")

    assert not found.found
    assert "install binutils" in found.remedy


def test_what_the_project_s_artifacts_are_compiled_with_comes_first_and_says_whether_it_is_here():
    findings = [
        doctor.Examined("compiler", "gcc", "12.2.0 at /usr/bin/gcc"),
        doctor.Examined("compiler", "ptxas", "13.0.88 at /usr/bin/ptxas", "pip install cuda"),
        doctor.Examined("package", "triton", "", "pip install triton"),
    ]
    lines = {"gcc12": 2, "gcc1": 1, "triton3.9.ptxas13.3": 1, "rustc1": 1}
    told = [(one.name, one.found, one.remedy) for one in doctor.of_the_project(lines, findings)]
    assert told == [
        ("gcc1", "1 artifact: not here: gcc 1", ""),
        ("gcc12", "2 artifacts: here", ""),
        ("rustc1", "1 artifact: not known to this command", ""),
        ("triton3.9.ptxas13.3", "1 artifact: not here: triton 3.9, ptxas 13.3", "pip install triton"),
    ]


def test_it_needs_no_store_and_refuses_one_that_is_named_and_not_there(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctor, "examine", lambda: [doctor.Examined("compiler", "gcc", "12.2.0")])
    assert main(["doctor"]) == 0
    assert "gcc" in capsys.readouterr().out
    assert main(["--acf-dir", "gone", "doctor"]) == 2
    assert "there is no directory" in capsys.readouterr().err
