"""``acf diff`` on real git repositories: what a reviewer is told, from objects alone."""

from __future__ import annotations

import ast
import json
import re
import shutil
import tomllib
from pathlib import Path

import pytest

from pytest_compileiq.artifact import LicenceTable
from pytest_compileiq.cli.main import main
from pytest_compileiq.model import sha256_hex
from pytest_compileiq.review import compare as review
from pytest_compileiq.rules.fingerprint import definition_digest
from pytest_compileiq.store.metadata import controls_file_name, render
from pytest_compileiq.store.store import Store
from tests.examples import EXACT_PY, NAMED, SUM_C
from tests.projects import ACF
from tests.repository import git
from tests.unit.artifacts import CONTROLS, TARGET, make_artifact, make_rows, measured_claim

OTHER = b"-O2\n"


class Repository:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.store = Store(home / "acf")

    def commit(self) -> str:
        git(self.home, "add", "-A")
        git(self.home, "commit", "-qm", "x")
        return git(self.home, "rev-parse", "HEAD")

    def tune(self, name="kernel", controls=CONTROLS, target=TARGET, **changes) -> None:
        told = make_artifact().controls.model_copy(
            update={
                "file": controls_file_name(target, controls),
                "sha256": sha256_hex(controls),
                "size_bytes": len(controls),
            }
        )
        artifact = make_artifact(**{"controls": told, "target": target, "claims": (measured_claim("cpu"),), **changes})
        self.store.write(name, artifact, controls=[controls], samples=make_rows())

    def one(self, pattern: str) -> Path:
        (path,) = self.store.root.glob(pattern)
        return path


@pytest.fixture
def repository(tmp_path, monkeypatch):
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    repository = Repository(tmp_path)
    repository.tune()
    repository.commit()
    monkeypatch.chdir(tmp_path)
    return repository


@pytest.fixture
def diff(capsys):
    def run(*arguments, code=0):
        assert main(["diff", *arguments]) == code
        captured = capsys.readouterr()
        return captured.out if code == 0 else captured.err

    return run


@pytest.fixture
def told(diff):
    """The one change, as the JSON format tells it."""

    def run(*arguments):
        content = json.loads(diff(*arguments, "--format", "json"))
        (change,) = content["changes"]
        return change

    return run


def faster():
    return measured_claim("cpu").model_copy(update={"speedup": 1.5, "speedup_low": 1.4, "speedup_high": 1.6})


def test_nothing_changed_is_said_and_ends_with_0(repository, diff):
    assert "no artifact changed" in diff("HEAD")


def test_a_retuned_kernel_shows_both_gains_the_knobs_and_what_was_not_checked(repository, diff):
    repository.tune(controls=OTHER, claims=(faster(),))
    repository.commit()
    text = diff("HEAD~..HEAD")
    for said in (
        "RETUNED",
        "runtime 1.100x faster, 1.050 to 1.200 → runtime 1.500x faster, 1.400 to 1.600",
        "a larger gain",
        "on        cpu, w; proven gain: p = 0.001",
        "Recorded values",
    ):
        assert said in text
    assert text.count("!") == 0


@pytest.mark.parametrize("least", [1, 100], ids=["in several processes", "in one"])
def test_every_kind_of_change_in_one_range(repository, diff, monkeypatch, least):
    monkeypatch.setattr(review, "_LEAST_FOLDERS", least)
    for name in ("goes", "moves", "breaks", "rests", "other-compiler"):
        repository.tune(name, benchmark=f"test_{name}.py::test")
    repository.commit()
    acf = repository.store.root
    shutil.rmtree(acf / "goes")
    (acf / "moves").rename(acf / "moved")
    repository.one("breaks/*.toml").write_text("schema = 1\nnonsense")
    repository.tune("rests", benchmark="test_rests.py::test", outcome="retired", reason="wrong on NaN")
    shutil.rmtree(acf / "other-compiler")
    repository.tune("other-compiler", target="x86-64-v3-gcc13", benchmark="test_other-compiler.py::test")
    repository.tune("comes", benchmark="test_comes.py::test", code={})
    repository.commit()
    content = json.loads(diff("HEAD~..HEAD", "--format", "json"))
    kinds = {change["name"]: (change["kind"], change["was"]) for change in content["changes"]}
    assert kinds == {
        "breaks": ("corrupt", ""),
        "goes": ("removed", ""),
        "comes": ("added", ""),
        "rests": ("retired", ""),
        "other-compiler": ("retargeted", f"other-compiler/{TARGET}"),
        "moved": ("renamed", f"moves/{TARGET}"),
    }
    assert [change["kind"] for change in content["changes"]][:2] == ["corrupt", "removed"]
    assert content["schema"] == 1 and content["strays"] == []


def test_the_work_tree_counts_with_what_git_does_not_track(repository, told):
    repository.tune("new", benchmark="n.py::n")
    assert (told("HEAD")["kind"], told("main")["name"]) == ("added", "new")


def test_no_checkout_is_touched_and_no_index_is_needed(repository, diff):
    repository.tune(controls=OTHER)
    repository.commit()
    shutil.rmtree(repository.store.root)
    before = git(repository.home, "status", "--porcelain")
    assert "1 retuned" in diff("HEAD~..HEAD")
    assert git(repository.home, "status", "--porcelain") == before
    assert "1 removed" in diff("HEAD")


def test_by_default_a_branch_is_compared_with_where_it_left_main(repository, diff):
    git(repository.home, "checkout", "-qb", "topic")
    repository.tune("new", benchmark="n.py::n")
    repository.commit()
    git(repository.home, "checkout", "-q", "main")
    repository.tune("mains-own", benchmark="m.py::m")
    repository.commit()
    assert diff().startswith("HEAD~ (")  # main itself
    git(repository.home, "checkout", "-q", "topic")
    text = diff()
    assert text.startswith("where this branch left main (") and "1 added" in text and "mains-own" not in text


def test_a_shallow_clone_that_has_both_commits_will_do(repository, tmp_path, monkeypatch, diff):
    repository.tune(controls=OTHER)
    head = repository.commit()
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{repository.home}", str(clone))
    monkeypatch.chdir(clone)
    assert "this clone is shallow: git fetch --depth=1 origin" in diff("HEAD~..HEAD", code=2)
    base = git(repository.home, "rev-parse", "HEAD~")
    git(clone, "fetch", "-q", "--depth=1", "origin", base)
    assert "1 retuned" in diff(f"{base}..{head}")


def test_controls_that_are_not_the_recorded_ones_make_it_corrupt_on_one_side(repository, told):
    repository.one("kernel/*.acf").write_bytes(b"-fplugin=evil.so\n")
    repository.commit()
    change = told("HEAD~..HEAD")
    assert (
        change["kind"] == "corrupt"
        and "is not the controls recorded" in change["problem"]
        and change["lead"]["old"]["speedup"] == 1.1
    )
    git(repository.home, "checkout", "-q", "HEAD~", "--", "acf")
    repository.commit()
    change = told("HEAD~..HEAD")
    assert change["kind"] == "repaired" and change["problem"].startswith("before: ")


def test_samples_that_are_not_the_recorded_ones_are_a_warning_though_the_metadata_is_untouched(repository, told, diff):
    samples = repository.one("kernel/*.csv")
    samples.write_bytes(samples.read_bytes() + b"\n")
    change = told("HEAD")
    assert change["kind"] == "unchanged" and "is not the samples file recorded" in change["warnings"][0]
    samples.unlink()
    assert "is missing: the claim cannot be recomputed" in diff("HEAD")


def test_a_file_that_belongs_to_no_artifact_is_told(repository, diff):
    (repository.store.root / "kernel" / "evil.so").write_bytes(b"x")
    assert "! stray     kernel/evil.so belongs to no artifact" in diff("HEAD")


def test_links_oversized_files_and_newer_schemas_are_sentences(repository, told):
    metadata = repository.one("kernel/*.toml")
    text = metadata.read_text()
    metadata.unlink()
    metadata.symlink_to("/etc/passwd")
    assert "is a link" in told("HEAD")["problem"]
    repository.commit()
    assert "is a link" in told("HEAD~..HEAD")["problem"]
    metadata.unlink()
    metadata.write_text("#" * (1 << 20) + "\n")
    repository.commit()
    assert "at most 1048576 are read" in told("HEAD~2..HEAD")["problem"]
    metadata.write_text(text.replace("schema = 1", "schema = 2"))
    assert "pip install -U pytest-compileiq" in told("HEAD~2")["problem"]


HOSTILE = "a|b`c``d<img src=x>@octocat #1 [x](https://evil.example) www.evil.example \x1b[31m\u202e\n# h"


def test_hostile_texts_are_neither_obeyed_by_a_terminal_nor_markup_mention_or_link_in_a_comment(repository, diff):
    claim = faster().model_copy(update={"device": HOSTILE, "driver": HOSTILE})
    artifact = repository.store.read("kernel", TARGET)
    sources = {HOSTILE: "1" * 64}
    hostile = artifact.model_copy(
        update={
            "claims": (claim,),
            "benchmark": HOSTILE,
            "fingerprint": artifact.fingerprint.model_copy(update={"sources": sources}),
            "controls": artifact.controls.model_copy(update={"knobs": {f"-f{HOSTILE}": ""}}),
            "licences": (LicenceTable(name=HOSTILE, allows="relaxed-maths", where=HOSTILE, remedy=HOSTILE),),
        }
    )
    repository.store.metadata_path("kernel", TARGET).write_bytes(render(hostile))
    text = diff("HEAD")
    assert "\x1b" not in text and "\u202e" not in text and "\n#" not in text
    comment = diff("HEAD", "--format", "markdown")
    assert "\x1b" not in comment and "\u202e" not in comment
    outside = outside_of_code(comment)
    for markup in ("<img", "@octocat", "evil.example", "# h", "a|b"):
        assert markup not in outside
    rows = [line for line in comment.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in rows} == {7}


def test_a_class_that_an_artifact_gained_is_the_first_thing_that_the_comment_says(repository, diff):
    controls = b"-O3\n-fassociative-math\n-fno-math-errno\n"
    knobs = {"-O": 3, "-fassociative-math": "", "-fno-math-errno": ""}
    told = make_artifact().controls.model_copy(
        update={"file": controls_file_name(TARGET, controls), "sha256": sha256_hex(controls),
                "size_bytes": len(controls), "knobs": knobs}
    )  # fmt: skip
    classes = ("value-safe", "environment", "relaxed-maths")
    widened = make_artifact(controls=told, classes=classes, claims=(measured_claim("cpu"),))
    repository.store.write("kernel", widened, controls=[controls], samples=make_rows())
    gained = "now environment (-fno-math-errno), relaxed-maths (-fassociative-math)"
    comment = diff("HEAD", "--format", "markdown")
    assert comment.startswith(f"- `kernel` `{TARGET}`: **{gained}**\n")
    assert f"! classes   {gained}" in diff("HEAD")
    repository.commit()
    assert diff("HEAD~..HEAD", "--format", "json").count('"relaxed-maths"') >= 2
    assert not diff("HEAD", "--format", "markdown").startswith("-")


def test_an_artifact_that_says_other_classes_than_its_controls_have_is_corrupt(repository, diff):
    repository.tune(classes=("opaque",))
    assert "! problem   the metadata of x86-64-v3-gcc12 says classes opaque, and its controls have value-safe" in diff(
        "HEAD"
    )


def outside_of_code(markdown: str) -> str:
    """What CommonMark does not take as a code span: a run of backticks, up to the next run of the same length."""
    return re.sub(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", "", markdown)


def test_the_markdown_comment_says_which_kernel_by_how_much_where_how_surely_and_what_was_not_checked(repository, diff):
    repository.tune(
        controls=OTHER,
        claims=(
            faster(),
            measured_claim("cpu").model_copy(
                update={"workload": "odd", "speedup": 0.98, "speedup_low": 0.97, "speedup_high": 0.99}
            ),
        ),
    )
    comment = diff("HEAD", "--format", "markdown")
    row = next(line for line in comment.splitlines() if line.startswith("| **retuned**"))
    for said in (
        "`kernel`",
        f"`{TARGET}`",
        "runtime 1.100x faster, 1.050 to 1.200 → runtime 1.500x faster, 1.400 to 1.600",
        "`cpu, w`",
        "proven gain: p = 0.001",
        "**worse**",
    ):
        assert said in row
    said = "cpu, odd: worse: runtime 1.020x slower, 1.010 to 1.031: slower than the defaults"
    assert f"- **worse**: {said}" in comment
    assert "nothing was compiled, run or measured" in comment and "proven on: cpu, commit 111111111111" in comment


def test_a_long_comment_keeps_within_github_s_limit_and_counts_what_it_leaves_out(repository, diff):
    for number in range(60):
        repository.tune(f"kernel-{number}", benchmark=f"t.py::t{number}", reason="x" * 1900)
    comment = diff("HEAD", "--format", "markdown")
    assert len(comment) < 65_536 and "60 added" in comment and "more do not fit here: run acf diff" in comment


WRONG = {
    "an unknown commit": ("nowhere", "is no commit that is here"),
    "an option in disguise": ("--output=x", "unrecognized"),
    "an option behind a range": ("main..--output=x", "is no commit that is here"),
    "three dots": ("main...HEAD", "expected BASE or BASE..HEAD"),
    "no base": ("..HEAD", "expected BASE or BASE..HEAD"),
}


@pytest.mark.parametrize(("span", "said"), WRONG.values(), ids=WRONG)
def test_a_wrong_range_is_a_sentence_and_ends_with_2(repository, capsys, span, said):
    try:
        code = main(["diff", span])
    except SystemExit as left:
        code = left.code
    assert code == 2 and said in capsys.readouterr().err
    assert not (repository.home / "x").exists()


def test_in_a_repository_without_a_commit_it_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    git(tmp_path, "init", "-q")
    (tmp_path / "acf").mkdir()
    for span in ([], ["HEAD"], ["main..HEAD"]):
        assert main(["diff", *span]) == 2
        assert "the repository of acf has no commit yet: git add :/acf && git commit" in capsys.readouterr().err


def test_outside_of_a_repository_it_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    (tmp_path / "acf").mkdir()
    monkeypatch.chdir(tmp_path)
    assert main(["diff"]) == 2
    assert "is in no git repository" in capsys.readouterr().err


def test_a_store_below_the_repository_s_root_is_found_in_every_commit(repository, monkeypatch, diff):
    inner = repository.home / "sub" / "project"
    shutil.copytree(repository.store.root, inner / "tuned")
    (inner / "pytest.ini").write_text("[pytest]\nacf_dir = tuned\n")
    repository.commit()
    monkeypatch.chdir(inner)
    text = diff("HEAD~..HEAD")
    assert "1 added" in text and "stray" not in text


# ── tuned before it was committed ────────────────────────────────────────────────────────────────────────────────

SOURCES = {"k.c": "int k(void) { return 1; }\n", "../common/k.h": "#define K 1\n"}
TEST = "import helper\n\ndef other():\n    pass\n\ndef test_k(acf):\n    helper.check(acf.build())\n"
HELPER = "def check(built):\n    assert built\n"


@pytest.fixture
def edited(repository, tmp_path, monkeypatch):
    """A project below the repository's root, edited and then tuned: nothing of it is committed yet."""
    home = tmp_path / "project"
    files = {**SOURCES, "tests/test_k.py": TEST, "helper.py": HELPER}
    for name, text in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).resolve().write_text(text)
    (home / "pytest.ini").write_text("[pytest]\nacf_dir = tuned/acf\n")
    digests = {name: sha256_hex(text.encode()) for name, text in SOURCES.items()}
    parts = {
        "test tests/test_k.py::test_k": definition_digest(ast.parse(TEST), "test_k"),
        "helper helper.py::check": definition_digest(ast.parse(HELPER), "check"),
        "objectives": "0" * 64,
    }
    covered = make_artifact().fingerprint.model_copy(update={"sources": digests, "parts": parts})
    made = Repository(repository.home)
    made.store = Store(home / "tuned" / "acf")
    made.home = home
    dirty = make_artifact().provenance.model_copy(update={"dirty": True})
    made.tune("edited", fingerprint=covered, provenance=dirty)
    monkeypatch.chdir(home)
    return made


def test_edit_tune_commit_is_nothing_to_warn_of(edited, told):
    assert told("HEAD")["warnings"] == []
    edited.commit()
    assert told("HEAD~..HEAD")["warnings"] == []


ELSEWHERE = {
    "a source": ("k.c", "return 1", "return 2"),
    "a header beside the project": ("../common/k.h", "K 1", "K 2"),
    "a helper": ("helper.py", "assert built", "assert built is not None"),
    "the test": ("tests/test_k.py", "helper.check(", "helper.check(0 or "),
    "a test that is no Python any more": ("tests/test_k.py", "def test_k(", "def test_k(("),
}


@pytest.mark.parametrize("what", ELSEWHERE)
def test_what_is_committed_otherwise_than_it_was_tuned_is_a_warning(edited, told, what):
    name, old, new = ELSEWHERE[what]
    path = edited.home / name
    path.write_text(path.read_text().replace(old, new))
    said = [f"tuned with uncommitted changes, and not here as it was tuned: {name}"]
    assert told("HEAD")["warnings"] == said
    edited.commit()
    assert told("HEAD~..HEAD")["warnings"] == said


def test_what_was_left_out_of_the_commit_is_a_warning(edited, told):
    git(edited.home, "add", "tuned", "pytest.ini", "tests")
    git(edited.home, "commit", "-qm", "x")
    (warning,) = told("HEAD~..HEAD")["warnings"]
    assert warning.endswith("not here as it was tuned: ../common/k.h, helper.py, k.c")
    assert told("HEAD~")["warnings"] == []  # the work tree still has them


def test_what_the_fingerprint_does_not_cover_is_no_warning(edited, told):
    path = edited.home / "tests" / "test_k.py"
    path.write_text(path.read_text().replace("def other():\n    pass", "def other():  # anew\n    return 1"))
    edited.commit()
    assert told("HEAD~..HEAD")["warnings"] == []


def test_a_fingerprint_that_names_what_no_project_has_reads_nothing_and_fails_nothing(edited, told):
    artifact = edited.store.read("edited", TARGET)
    names = ("/etc/passwd", "../../../../etc/passwd", "k blob", "a\nb", "..", "tuned", "x" * 1500)
    covered = artifact.fingerprint.model_copy(update={"sources": dict.fromkeys(names, "1" * 64), "parts": {}})
    hostile = artifact.model_copy(update={"fingerprint": covered})
    edited.store.metadata_path("edited", TARGET).write_bytes(render(hostile))
    edited.commit()
    for span in ("HEAD~", "HEAD~..HEAD"):
        (warning,) = told(span)["warnings"]
        assert "k blob" in warning and "passwd" not in warning


@pytest.mark.slow
def test_a_tuning_looks_at_what_the_fingerprint_covers_and_the_natural_order_leaves_nothing_to_warn_of(
    project, monkeypatch, diff, capsys
):
    made = project(NAMED | {"sum.c": SUM_C, "test_sum.py": EXACT_PY, ".gitignore": ".compileiq\n__pycache__\n"})
    monkeypatch.chdir(made.root)
    git(made.root, "init", "-q", "-b", "main")

    def commit() -> None:
        git(made.root, "add", "-A")
        git(made.root, "commit", "-qm", "x")

    def tuned_dirty(name: str, old: str, new: str) -> bool:
        made.edit(name, old, new)
        made.pytest("--tune", "--tune-engine=random", "--tune-budget=3", code=0)
        return tomllib.loads(made.one("acf/total/*.toml").read_text())["provenance"]["dirty"]

    commit()
    assert not tuned_dirty("test_sum.py", "import pytest\n", "import pytest  # anew\n\ndef test_other():\n    pass\n")
    commit()
    assert tuned_dirty("test_sum.py", "-O1 -funroll-loops", "-O1")  # a flag, in the marker
    commit()
    assert tuned_dirty("sum.c", "sum += x", "sum -= x")
    commit()
    assert "uncommitted" not in diff("HEAD~..HEAD")
    assert main(["show", "total"]) == 0
    shown = capsys.readouterr().out
    assert f"on top of commit {git(made.root, 'rev-parse', 'HEAD~')[:12]}" in shown and "dirty" not in shown


def test_textconv_makes_plain_git_diff_readable(repository):
    (repository.home / ".gitattributes").write_text("acf/** -text diff=acf\n")
    repository.tune(controls=OTHER, claims=(faster(),))
    git(repository.home, "add", "-A")
    text = git(repository.home, "-c", f"diff.acf.textconv={ACF} textconv", "diff", "--cached", "--no-renames")
    assert "+claim cpu / w / runtime: speedup = 1.5" in text and "--O3" in text and "+-O2" in text
