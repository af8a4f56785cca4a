"""A search starts from what the other artifacts of the store teach, says so, and is none the worse for a bad store."""

from __future__ import annotations

import itertools

import pytest

from pytest_compileiq import choice, literal
from pytest_compileiq.config import Budget
from pytest_compileiq.model import MOST_LESSONS
from pytest_compileiq.store.status import retire
from pytest_compileiq.store.store import Store
from pytest_compileiq.testing.fakes import (
    FakeBuilder,
    FakePool,
    FakeProgress,
    by_options,
    fake_benchmark,
    fake_settings,
)
from pytest_compileiq.tuning.lessons import lessons_for, taught_text
from pytest_compileiq.tuning.run import tune

FAKE = "fake-fake1"
SPACE = {"-O": choice([2, 3], knockout_prob=0.3), "-fast": literal("", knockout_prob=0.5)}
WIDE = {f"-f{number}": literal("", knockout_prob=0.5) for number in range(40)}
COUNT = itertools.count()


class Project:
    """A repository of fake kernels."""

    def __init__(self, root) -> None:
        self.root, self.store, self.progress = root, Store(root / "acf"), FakeProgress()
        (root / "kernel.src").write_text(FakeBuilder().source)

    def benchmark(self, name: str, space=None):
        builds = self.root / f"builds-{next(COUNT)}"
        return fake_benchmark(self.root, FakeBuilder(), builds_in=builds, name=name, space=space or SPACE)

    def tune(self, name: str, space=None, gain="-fast", pool=None, budget=8, **settings):
        self.progress.said.clear()
        return tune(
            self.benchmark(name, space),
            settings=fake_settings(self.root, budget=Budget(evaluations=budget), **settings),
            store=self.store,
            pool=pool or FakePool(seconds=by_options({gain: 8e-4})),
            progress=self.progress,
        )

    @property
    def taught(self) -> list[str]:
        return [line for line in self.progress.said if line.startswith("starts from")]

    def metadata(self, name: str):
        return self.store.metadata_path(name, FAKE)


@pytest.fixture
def project(tmp_path) -> Project:
    made = Project(tmp_path)
    assert made.tune("lz4").verdict == "TUNED"
    return made


def test_a_search_says_what_it_starts_from_and_its_artifact_names_it(project):
    assert project.tune("xxh64", {**WIDE, **SPACE}).verdict == "TUNED"
    assert project.taught == [f"starts from what 1 artifact taught: lz4/{FAKE}"]
    stored = project.store.read("xxh64", FAKE)
    assert stored.search.transferred == (f"lz4/{FAKE}",)
    assert stored.search.improvements[0][0] <= 2  # the lesson is tried first, of forty knobs


def test_it_starts_cold_where_nothing_is_stored(tmp_path):
    project = Project(tmp_path)
    project.tune("xxh64")
    assert not project.taught
    assert project.store.read("xxh64", FAKE).search.transferred == ()
    assert b"transferred" not in project.metadata("xxh64").read_bytes()


def test_the_own_artifact_of_a_search_is_where_it_goes_on_and_no_lesson(project):
    project.tune("lz4")
    assert not project.taught


def test_what_was_retired_or_gained_nothing_teaches_nothing(project):
    retire(project.store, "lz4", FAKE, "wrong on odd sizes")
    project.tune("plain", pool=FakePool(seconds=lambda controls: 2e-3 if controls else 1e-3))
    assert project.store.read("plain", FAKE).outcome == "baseline"
    project.tune("xxh64")
    assert not project.taught


def test_what_is_stale_teaches_nothing(project):
    (project.root / "kernel.src").write_text("two")
    assert list(lessons_for(project.store, project.benchmark("xxh64"), "ga")[0]) == []


@pytest.mark.parametrize("damage", [b"schema = 1\n", b"\xff", b'schema = 1\nevil = "yes"\n'])
def test_a_damaged_artifact_is_passed_over_with_a_sentence(project, damage):
    project.tune("xxh64")
    project.metadata("lz4").write_bytes(damage)
    report = project.tune("crc32")
    assert report.verdict == "TUNED"
    assert project.taught == [f"starts from what 1 artifact taught: xxh64/{FAKE}"]
    assert any(note.startswith(f"lz4/{FAKE} taught nothing: acf/lz4/{FAKE}.toml") for note in report.notes)


def test_a_store_that_is_damaged_as_a_whole_is_told_in_a_few_sentences(project):
    for number in range(6):
        folder = project.root / "acf" / f"broken{number}"
        folder.mkdir()
        (folder / f"{FAKE}.toml").write_text("schema = 1\n")
    lessons, passed_over = lessons_for(project.store, project.benchmark("xxh64"), "ga")
    assert [lesson.artifact for lesson in lessons] == [f"lz4/{FAKE}"]
    assert len(passed_over) == 4
    assert passed_over[-1] == "3 more taught nothing: acf check says why"


def test_changed_controls_teach_nothing(project):
    artifact = project.store.read("lz4", FAKE)
    project.metadata("lz4").with_name(artifact.controls.file).write_bytes(b"-fplugin=evil.so\n")
    lessons, passed_over = lessons_for(project.store, project.benchmark("xxh64"), "ga")
    assert list(lessons) == []
    assert "was changed" in passed_over[0]


def test_knobs_that_the_space_lacks_are_left_out(project):
    other = {"-O": choice([2, 3], knockout_prob=0.3), "-other": literal("", knockout_prob=0.5)}
    lessons = lessons_for(project.store, project.benchmark("xxh64", other), "ga")[0]
    assert all("-fast" not in lesson.knobs for lesson in lessons)


def test_an_engine_that_tries_what_it_is_given_is_taught_nothing(project):
    assert list(lessons_for(project.store, project.benchmark("xxh64"), "pack")[0]) == []


def test_a_large_store_teaches_a_few(project):
    for number in range(MOST_LESSONS + 2):
        project.tune(f"kernel{number}")
    assert len(lessons_for(project.store, project.benchmark("xxh64"), "ga")[0]) == MOST_LESSONS


def test_many_lessons_are_named_in_one_line(project):
    (lesson,) = lessons_for(project.store, project.benchmark("xxh64"), "ga")[0]
    assert taught_text([lesson] * 8).startswith(f"starts from what 8 artifacts taught: lz4/{FAKE}, ")
    assert len(taught_text([lesson] * 8)) < 200


class Killed(BaseException):
    """Ends a search as a kill does: nothing of it is settled."""


class Dies(FakePool):
    """A pool that dies with the process when it has measured a few blocks, the baseline's own among them."""

    left = 4

    def block(self, *arguments, **named):
        self.left -= 1
        if self.left < 0:
            raise Killed
        return super().block(*arguments, **named)


def test_a_search_that_goes_on_is_taught_what_it_was_taught_when_it_began(project):
    wide = {**WIDE, **SPACE}
    with pytest.raises(Killed):
        project.tune("xxh64", wide, pool=Dies(seconds=by_options({"-fast": 8e-4})))
    assert project.taught
    project.metadata("lz4").unlink()
    assert project.tune("xxh64", wide).verdict == "TUNED"
    assert project.progress.said[0].startswith("resuming: ") and not project.taught  # said once, when it began
    assert project.store.read("xxh64", FAKE).search.transferred == (f"lz4/{FAKE}",)
