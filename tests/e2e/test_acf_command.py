"""The ``acf`` command on a real store."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_compileiq import cli
from pytest_compileiq.cli.main import main
from pytest_compileiq.store.store import Store
from tests.unit.artifacts import CONTROLS, TARGET, make_artifact


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "pytest.ini").write_text("[pytest]\nacf_dir = tuned/acf\n")
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    store = Store(tmp_path / "tuned" / "acf")
    store.write("kernel", make_artifact(), controls=[CONTROLS], samples=())
    return store


def test_acf_alone_lists_every_verb_once_by_task_and_exit_codes(capsys):
    assert main([]) == 0
    said = capsys.readouterr().out
    assert "\nbuild and ship:\n  flags          print the options that apply an artifact\n" in said
    assert "exit codes: 0 healthy, 1 unhealthy, 2 wrong call" in said
    package = Path(cli.__file__).parents[1]
    families = "".join(path.read_text("utf-8") for path in (*package.glob("cli/*.py"), *package.glob("*/verb.py")))
    assert sorted(re.findall(r"^  ([a-z][a-z-]+) +", said, re.MULTILINE)) == sorted(
        re.findall(r'verbs\.add_parser\(\s*"([a-z-]+)"', families)
    )


def test_acf_with_an_unknown_verb_names_the_nearest(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["chek"])
    error = capsys.readouterr().err
    assert "no verb 'chek' (did you mean 'check'?); acf --help lists them" in error
    assert error.startswith("usage: acf [-h] [--version] [--acf-dir DIR] VERB ...")


def test_list_shows_every_artifact_in_a_line_and_finds_the_projects_store(here, capsys):
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    assert "kernel" in out and TARGET in out and "code_bytes 10 → 8" in out


def test_show_tells_knobs_claims_code_and_provenance(here, capsys):
    assert main(["show", "kernel"]) == 0
    out = capsys.readouterr().out
    for said in (
        "-funroll-loops",
        "-O3",
        "exact on w, of the whole build: code_bytes 10 → 8",
        "k, this function alone: eeeeeeee",
        "gcc 12.2.0",
        "k.h dddddddd",
        "eeeeeeee → ffffffff",
        "111111111111",
        "ga, seed 1",
    ):
        assert said in out


def test_an_unknown_name_is_a_sentence_with_close_matches(here, capsys):
    assert main(["show", "kernal"]) == 2
    assert "(did you mean 'kernel'?): acf list shows all of them" in capsys.readouterr().err
    assert main(["show", "kernel", "--target", "x86-64-v3-gcc13"]) == 2
    assert TARGET in capsys.readouterr().err


def test_check_is_silent_about_a_healthy_store_and_names_what_is_wrong(here, capsys):
    assert main(["check"]) == 0
    assert "1 artifact, 0 claims recomputed, 0 problems" in capsys.readouterr().out
    (controls,) = (here.root / "kernel").glob("*.acf")
    controls.write_bytes(b"-fplugin=evil\n")
    assert main(["check"]) == 1
    said = capsys.readouterr().out
    assert f"{controls.name} was changed: " in said and f"/{controls.name}" in said.partition("git checkout -- ")[2]


def test_check_recomputes_every_claim_from_its_samples(tuned, capsys):
    arguments = ["--acf-dir", str(tuned.root / "acf"), "check"]
    assert main(arguments) == 0
    assert "1 claim recomputed" in capsys.readouterr().out
    path = tuned.one("acf/kernel/*.toml")
    path.write_text(path.read_text().replace("cohens_d = ", "cohens_d = 1"))
    assert main(arguments) == 1
    assert "cohens_d" in capsys.readouterr().out


def test_check_recomputes_what_each_control_brings_from_its_losses(tmp_path, capsys):
    committed = Path(__file__).parents[2] / "acf/histogram"
    (path,) = Path(shutil.copytree(committed, tmp_path / "acf/histogram")).glob("*.toml")
    arguments = ["--acf-dir", str(tmp_path / "acf"), "check"]
    assert main(arguments) == 0
    capsys.readouterr()
    before, table, attribution = path.read_text().partition("[attribution]")
    path.write_text(before + table + re.sub(r"(?<=\nloss = )1", "9", attribution, count=1))
    assert main(arguments) == 1
    assert f"{path.name}: the attribution of -O says 9." in capsys.readouterr().out


def test_hostile_text_is_shown_and_not_obeyed(here, capsys):
    here.write("kernel", make_artifact(benchmark="[red]x\x1b[31m\n"), controls=[CONTROLS], samples=())
    assert main(["show", "kernel"]) == 0
    out = capsys.readouterr().out
    assert "[red]x" in out and "\x1b" not in out


def test_a_missing_store_and_a_corrupt_artifact_are_sentences(here, capsys, tmp_path):
    assert main(["--acf-dir", str(tmp_path / "none"), "list"]) == 2
    assert "there is no directory" in capsys.readouterr().err
    here.metadata_path("kernel", TARGET).write_text("x")
    assert main(["list"]) == 1
    assert "is not TOML" in capsys.readouterr().err


def loaded_by(*arguments: str) -> str:
    """Which heavy packages a process of its own loads for ``acf``."""
    code = "import sys\nROOMS = ['pytest_compileiq.' + room for room in ('capture', 'history', 'ray')]\nfrom pytest_compileiq.cli.main import main\ntry:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
    code += "print([name for name in ('numpy', 'scipy', 'rich', 'git', 'pydantic', 'secrets', *ROOMS) if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize("words", [["textconv"], ["history", "add"], ["import", "x", "--ptx"], ["verify-binary"]])
def test_a_file_that_is_a_link_to_itself_is_a_sentence(here, capsys, words):
    Path("loop").symlink_to("loop")
    assert main([*words, "loop"]) == 2
    output = capsys.readouterr()
    assert "loop cannot be read: Too many levels of symbolic links" in output.out + output.err


def test_help_and_version_load_nothing_heavy():
    assert loaded_by("--help") == "[]"


def test_a_check_of_counted_claims_does_no_statistics(here):
    assert loaded_by("check") == "['pydantic', 'secrets']"
