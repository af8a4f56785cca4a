"""What a test stands for, from the search to the replay, on fakes: void, allowed, misspelt, forged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from msgspec import structs

from pytest_compileiq import literal
from pytest_compileiq.config import Budget
from pytest_compileiq.errors import TuneFailed
from pytest_compileiq.testing.fakes import FakeBuilder, FakePool, FakeProgress, fake_settings
from pytest_compileiq.toolchains.functions import FunctionSelection
from pytest_compileiq.tuning.run import tune
from tests.unit.project_on_fakes import FAKE, GAIN, ProjectOnFakes

ALSO = "also changes: other, not exercised by this test"


@dataclass(frozen=True)
class Naming(FakeBuilder):
    """A compiler of two functions, both of which its controls change."""

    functions: FunctionSelection = field(default_factory=FunctionSelection)


def naming(*patterns: str, neighbours="void") -> Naming:
    functions = FunctionSelection.of("Cc", patterns, neighbours)
    return Naming(
        code=lambda knobs: {name: f"{name} {sorted(knobs)}" for name in ("kernel", "other")}, functions=functions
    )


def taking(*names: str):
    def body(acf) -> None:
        acf.build()
        acf.used |= set(names)
        acf.measure(lambda: None)

    return body


class Project(ProjectOnFakes):
    """Its body takes ``kernel`` in a search."""

    def __init__(self, root) -> None:
        super().__init__(root, space={"-fast": literal("", knockout_prob=0.5)})

    def tune(self, builder: FakeBuilder, evaluations=6):
        return super().tune(builder=builder, evaluations=evaluations)

    def replay(self, builder: FakeBuilder, taken: Sequence[str] = ("kernel",)):
        return super().replay(builder=builder, body=taking(*taken))[0]


@pytest.fixture
def project(tmp_path) -> Project:
    return Project(tmp_path)


def test_a_neighbour_voids_a_candidate_by_default_and_the_remedy_names_the_arguments(project):
    for builder in (naming(), naming("kernel")):
        with pytest.raises(TuneFailed) as failed:
            project.tune(builder)
        assert "their controls also change other, which the test does not take from load()" in str(failed.value)
        assert "functions=['kernel'], neighbours=\"allow\"" in str(failed.value)


@pytest.mark.parametrize("builder", [naming("kernel", neighbours="allow"), naming(neighbours="allow")])
def test_an_allowed_neighbour_counts_and_is_listed_when_tuned_and_when_replayed(project, builder):
    tuned = project.tune(builder)
    assert tuned.verdict == "TUNED" and ALSO in tuned.notes
    assert project.store.read("kernel", FAKE).functions == ("kernel",)
    replayed = project.replay(builder)
    assert replayed.verdict == "PROVEN" and ALSO in replayed.notes


@pytest.mark.parametrize("builder", [naming("*"), naming("other"), naming("kernel", "other", neighbours="allow")])
def test_what_is_named_is_stood_for_beside_what_is_taken(project, builder):
    assert project.tune(builder).verdict == "TUNED"
    assert project.store.read("kernel", FAKE).functions == ("kernel", "other")
    replayed = project.replay(builder)
    assert replayed.verdict == "PROVEN" and ALSO not in replayed.notes


def test_a_name_that_the_build_does_not_have_fails_with_the_nearest(project):
    with pytest.raises(TuneFailed, match=r"functions='kernal': .* \(did you mean 'kernel'\?\)"):
        project.tune(naming("kernal"))
    project.tune(naming("*"))
    replayed = project.replay(naming("othr"))
    assert replayed.verdict == "FAILED" and "did you mean 'other'?" in replayed.message


@pytest.mark.parametrize("now", [naming("*"), naming("kernel"), naming()])
def test_other_functions_or_another_say_on_neighbours_make_it_stale(project, now):
    project.tune(naming("kernel", neighbours="allow"))
    replayed = project.replay(now)
    assert replayed.verdict == "STALE" and "functions and neighbours" in replayed.message


def test_controls_that_were_allowed_are_not_proven_again_where_they_no_longer_are(project):
    project.tune(naming("kernel", neighbours="allow"))
    with pytest.raises(TuneFailed, match="the committed controls also change other"):
        project.tune(naming("kernel"), evaluations=0)
    assert project.tune(naming("*"), evaluations=0).verdict == "PROVEN"
    assert project.store.read("kernel", FAKE).functions == ("kernel", "other")


@pytest.mark.parametrize("forged", [(), ("kernel", "other"), ("other",)])
def test_an_artifact_that_says_that_it_stands_for_other_functions_is_corrupt(project, forged):
    builder = naming("kernel", neighbours="allow")
    project.tune(builder)
    artifact = project.store.read("kernel", FAKE)
    samples = [row for _, rows in project.store.read_samples("kernel", artifact) for row in rows]
    data = project.store.read_controls("kernel", artifact)
    changed = artifact.model_copy(update={"functions": forged})
    project.store.write("kernel", changed, controls=[data], samples=samples)
    replayed = project.replay(builder)
    assert replayed.verdict == "CORRUPT" and "this test stands for kernel" in replayed.message


def test_allowing_neighbours_of_nothing_is_refused(project):
    pool = FakePool(seconds=GAIN)
    untaking = replace(pool, touched=structs.replace(pool.touched, used=frozenset()))
    settings = fake_settings(project.root, budget=Budget(evaluations=6))
    with pytest.raises(TuneFailed, match="the test names none of its own"):
        tune(
            project.benchmark(naming(neighbours="allow")),
            settings=settings, store=project.store, pool=untaking, progress=FakeProgress(),
        )  # fmt: skip


def test_a_function_that_only_one_arm_has_is_no_gain(project):
    inlined = replace(
        naming("kernel"), code=lambda knobs: {"kernel": str(sorted(knobs))} | ({} if knobs else {"twice<float>": "x"})
    )
    report = project.tune(inlined)
    assert report.verdict == "BASELINE" and any(
        "only one arm has code for twice<float>" in note for note in report.notes
    )
