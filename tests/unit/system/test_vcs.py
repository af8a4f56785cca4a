"""What git knows, from real repositories."""

from __future__ import annotations

from subprocess import CalledProcessError

import pytest

from pytest_compileiq.errors import NotAsked
from pytest_compileiq.system.vcs import Revision, commits_touching, content_at, listed_files, not_asked, revision
from tests.repository import git


@pytest.fixture
def repository(tmp_path):
    git(tmp_path, "init", "-q")
    (tmp_path / "k.c").write_text("1")
    (tmp_path / "other.c").write_text("1")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "First")
    return tmp_path


def test_dirty_looks_at_the_given_files_only(repository):
    head = git(repository, "rev-parse", "HEAD")
    (repository / "other.c").write_text("2")
    assert revision(repository, ["k.c"]) == Revision(head, ())
    assert revision(repository, ["k.c", "other.c"]) == Revision(head, ("other.c",))
    (repository / "new.c").write_text("1")
    assert revision(repository, ["new.c"]).changed == ("new.c",)


def test_names_are_relative_to_rootdir_wherever_the_repository_s_root_is(repository):
    home = repository / "deep" / "project with spaces"
    home.mkdir(parents=True)
    (home / "k ü.c").write_text("1")
    (repository / "other.c").write_text("2")
    found = revision(home, ["k ü.c", "../../other.c", "/usr/include/stdio.h", "../../../outside.h"])
    assert found.changed == ("../../other.c", "k ü.c")
    assert revision(home, ["/usr/include/stdio.h"]).changed == ()


def test_a_file_has_no_content_without_a_repository(tmp_path):
    assert content_at(tmp_path, "HEAD", "k.c") is None


def test_a_file_s_content_is_that_of_the_commit(repository):
    head = git(repository, "rev-parse", "HEAD")
    (repository / "k.c").write_text("2")
    (repository / "inner").mkdir()
    assert content_at(repository, head, "k.c") == content_at(repository / "inner", head, "../k.c") == b"1"
    assert content_at(repository, head, "new.c") is None
    assert content_at(repository, "0" * 40, "k.c") is None
    assert content_at(repository, head, "../outside.c") is None


def test_commits_since_are_told_with_their_author(repository):
    first = git(repository, "rev-parse", "HEAD")
    (repository / "k.c").write_text("2")
    git(repository, "commit", "-qam", "Speed up the loop")
    (repository / "other.c").write_text("2")
    git(repository, "commit", "-qam", "Elsewhere")
    (line,) = commits_touching(repository, ["k.c"], first)
    assert "Speed up the loop (Ada, " in line
    assert commits_touching(repository, ["k.c", "other.c"], first, limit=1)[0].split(" ", 1)[1].startswith("Elsewhere")


@pytest.mark.parametrize("since", [None, "", "HEAD", "--output=x", "main", "0" * 40, "-1234567"])
def test_what_is_no_known_commit_gives_nothing(repository, since):
    assert commits_touching(repository, ["k.c"], since) == []
    assert sorted(path.name for path in repository.iterdir()) == [".git", "k.c", "other.c"]


def test_vcs_where_git_does_not_answer_raises_its_own_sentence(repository, monkeypatch):
    head = git(repository, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    said = (
        f"git cannot be asked about {repository}: detected dubious ownership in repository at '{repository}'; To add an "
        f"exception for this directory, call: git config --global --add safe.directory {repository}"
    )
    assert revision(repository, ["k.c"]) == Revision(None, None, said)
    assert commits_touching(repository, ["k.c"], head) == [said]
    for ask in (lambda: content_at(repository, head, "k.c"), lambda: listed_files(repository)):
        with pytest.raises(NotAsked, match=r"safe\.directory"):
            ask()
    monkeypatch.setenv("PATH", "/nowhere")
    assert "cannot run 'git': No such file or directory; install it" in revision(repository, []).not_asked
    assert revision(repository.parent, []) == Revision(None, None), "no repository, so that nobody need be asked"


def test_no_repository_and_no_commit_are_not_errors(tmp_path):
    assert revision(tmp_path, ["k.c"]) == Revision(None, None)
    assert commits_touching(tmp_path, ["k.c"], "1" * 40) == []
    git(tmp_path, "init", "-q")
    assert revision(tmp_path, ["k.c"]) == Revision(None, None)


def test_an_error_of_git_is_told_in_its_own_words(repository):
    error = CalledProcessError(128, "git log", stderr="stderr: 'fatal: bad object HEAD'")
    assert str(not_asked(repository, error)) == f"git cannot be asked about {repository}: bad object HEAD"
    (repository / ".git/HEAD").write_text("neither a branch nor a commit\n")
    assert "not a git repository" in str(not_asked(repository, error))
