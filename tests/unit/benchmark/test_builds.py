"""Builds of one run: made once, by whoever is free, here or elsewhere; what is lost with its maker is made again."""

from __future__ import annotations

import shutil
from dataclasses import replace
from threading import Barrier

import pytest

from pytest_compileiq.benchmark.builds import BuildQueue, Builds, MadeElsewhere, MakerLost, collected, put
from pytest_compileiq.errors import BuildError
from pytest_compileiq.model import BuildResult, Candidate, CodeDigest
from pytest_compileiq.testing import FakeBuilder

WAIT_S = 20
CODE = {"kernel": CodeDigest("1" * 64, {"code_bytes": 4})}


class Maker:
    """Makes every build of four bytes, or does what ``act`` does."""

    def __init__(self, act=lambda: None):
        self.act = act
        self.made = []

    def make(self, controls):
        self.made.append(controls)
        self.act()
        return MadeElsewhere("lib/k.so", CODE, {"code_bytes": 4}, "", 0.1, {"lib/k.so": b"code", "lib/k.o": b"o"})


@pytest.fixture
def builder():
    return FakeBuilder()


@pytest.fixture
def several(builder):
    return [builder.render(Candidate({"-O": level})) for level in range(3)]


def builds_of(builder, folder, *makers):
    return Builds(builder, folder, 1.0, frozenset(), makers=lambda builds: makers)


def built_by(queue, several):
    try:
        return [future.result(WAIT_S) for future in [queue.begin(controls) for controls in several]]
    finally:
        queue.close()


def test_a_copy_of_a_builds_folder_is_the_build_elsewhere(builder, tmp_path, several):
    builds = builds_of(builder, tmp_path / "here")
    home = builds.made(several[0])
    assert str(tmp_path) not in (home / "result.json").read_text()
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    there = builds_of(builder, tmp_path / "there").get(several[0])
    assert there == replace(builds.get(several[0]), path=tmp_path / "there" / home.name / "kernel")
    assert len(builder.built) == 1


def test_the_folder_of_a_build_that_fails_says_so_elsewhere(tmp_path, several):
    builder = FakeBuilder(refusals={several[0].data.decode(): "no such option"})
    home = builds_of(builder, tmp_path / "here").made(several[0])
    shutil.copytree(home.parent, tmp_path / "there")
    with pytest.raises(BuildError, match="no such option"):
        builds_of(builder, tmp_path / "there").get(several[0])
    assert len(builder.built) == 1


def test_builds_are_made_here_and_elsewhere_at_once_and_each_once(builder, tmp_path, several):
    meeting = Barrier(3)
    makers = [Maker(lambda: meeting.wait(WAIT_S)) for _ in range(2)]
    code = replace(builder, code=lambda knobs: meeting.wait(WAIT_S) is not None and {"kernel": "here"})
    builds = builds_of(code, tmp_path, *makers)
    results = built_by(BuildQueue(builds, 1), several)
    assert sorted(result.metrics["code_bytes"] for result in results) == [4, 4, 4]
    assert len(builder.built) == 1 and [len(maker.made) for maker in makers] == [1, 1]
    assert [builds.get(controls) for controls in several] == results
    of_a_maker = builds.get(makers[0].made[0])
    assert of_a_maker.path.read_bytes() == b"code" and of_a_maker.path.parent.joinpath("k.o").exists()


def fails(error):
    def fail():
        raise error

    return fail


def test_a_build_that_is_lost_is_made_by_another_one_and_who_lost_it_is_asked_no_more(builder, tmp_path, several):
    lost = Maker(fails(MakerLost("its node went down")))
    results = built_by(BuildQueue(builds_of(builder, tmp_path, lost), 1), several)
    assert all(isinstance(result, BuildResult) for result in results)
    assert len(lost.made) <= 1 and len(builder.built) == 3


def test_a_refusal_elsewhere_is_an_answer_and_is_remembered(builder, tmp_path, several):
    maker = Maker(fails(BuildError("no such option", kind="compile", log="said")))
    builds = builds_of(builder, tmp_path, maker)
    refused = builds.attempt_by(maker, several[0])
    assert isinstance(refused, BuildError) and str(refused) == "no such option"
    again = builds.attempt_by(maker, several[0])
    assert (str(again), again.kind, again.log) == ("no such option", "compile", "said")
    assert len(maker.made) == 1 and builder.built == []


def test_a_mistake_of_ours_takes_no_place_in_the_queue(builder, tmp_path, several):
    maker = Maker(fails(RuntimeError("a bug")))
    queue = BuildQueue(builds_of(builder, tmp_path, maker), 0)
    futures = [queue.begin(controls) for controls in several]
    assert [type(future.exception(WAIT_S)) for future in futures] == [RuntimeError] * 3
    queue.close()


@pytest.mark.parametrize(
    "changes", [{"path": "../k.so"}, {"path": "/bin/true"}, {"path": "k.so"}, {"files": {"../../k": b""}}]
)
def test_what_comes_back_by_other_paths_is_not_taken(tmp_path, changes):
    made = Maker().make(None)
    fields = {name: getattr(made, name) for name in made.__struct_fields__} | changes
    with pytest.raises(MakerLost):
        put(MadeElsewhere(**fields), tmp_path / "builds/home")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_what_is_collected_is_what_is_put(tmp_path):
    first = put(Maker().make(None), tmp_path / "one")
    second = put(collected(first, tmp_path / "one"), tmp_path / "two")
    assert second == replace(first, path=tmp_path / "two/lib/k.so")
    assert (tmp_path / "two/lib/k.o").read_bytes() == b"o"


def test_a_run_builds_together_where_the_builder_can(tmp_path):
    class Together(FakeBuilder):
        def build_together(self, controls, out_dir, *, timeout_s):
            return replace(super().build(controls, out_dir, timeout_s=timeout_s), log="together")

    for builder, log in ((Together(), "together"), (FakeBuilder(), "")):
        assert Builds(builder, tmp_path / log / "builds", 1.0, frozenset()).get(None).log == log
