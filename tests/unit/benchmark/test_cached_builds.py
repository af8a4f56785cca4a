"""A build is taken from the cache only if nothing moved while it was kept, and never against a rebuild's word."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench.build_cache import ToyBuilder, through
from pytest_compileiq.benchmark.builds import Builds
from pytest_compileiq.benchmark.cached_builds import CachedBuilds
from pytest_compileiq.errors import CacheMismatch
from pytest_compileiq.model import BuildResult, CodeDigest, sha256_hex
from pytest_compileiq.rules.build_key import NotModelled
from pytest_compileiq.store.build_cache import BuildCache
from pytest_compileiq.system.seen_files import SeenFiles
from tests.files import write_files


class Toy(ToyBuilder):
    """Counts its builds, and has a secret."""

    builds = 0
    flavour = ""

    def build_together(self, *arguments: object, **named: float) -> BuildResult:
        return self.build(*arguments, **named)

    def build(self, *arguments: object, **named: float) -> BuildResult:
        self.builds += 1
        built = super().build(*arguments, **named)  # type: ignore[arg-type]
        digest = CodeDigest(sha256_hex(self.flavour.encode()))
        return replace(built, code=dict.fromkeys(("kernel", "other"), digest)) if self.flavour else built


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_files(tmp_path, {"kernel.c": "include a.h\n", "second/a.h": "one\n", "first/b.h": ""})
    return tmp_path


@pytest.fixture
def builder(root: Path) -> Toy:
    return Toy(root)


def get(builder: Toy, *, rebuilds: bool = False, seen: SeenFiles | None = None) -> BuildResult:
    """A run of its own."""
    builds = CachedBuilds(BuildCache(builder.root), rebuilds=rebuilds, seen=seen or SeenFiles(settled_ns=0))
    out_dir = builder.root / "out"
    built, _ = through(builds, builder, out_dir, lambda: builder.build(None, out_dir, timeout_s=1.0))
    builds.close()
    return built


def test_the_second_run_builds_nothing(builder):
    first = get(builder)
    first.path.unlink()
    second = get(builder)
    assert builder.builds == 1
    assert (first.cached, second.code, second.path.read_text()) == ("", first.code, "kernel.c:include a.h\na.h:one\n")
    assert second.cached.endswith(" UTC")


def test_what_a_build_depends_on_is_asked_once(builder, root, monkeypatch):
    """For nvcc that is a preprocessing."""
    asked = []
    monkeypatch.setattr(Toy, "cacheable", lambda self, controls: asked.append(id(self)) or Toy(root))
    get(builder)
    assert asked == [id(builder)]


def test_a_build_that_is_only_looked_at_is_not_put_on_disk(builder, root):
    get(builder)

    def builds(number: int) -> Builds:
        cached = CachedBuilds(BuildCache(root), seen=SeenFiles(settled_ns=0))
        return Builds(builder, root.parent / f"{root.name}-run-{number}", 1.0, frozenset(), cached)

    of_a_run = builds(1)
    looked = of_a_run.look(None)
    assert looked.cached and looked.code and not of_a_run.directory.exists()
    assert of_a_run.get(None) == looked
    assert looked.path.read_text() == "kernel.c:include a.h\na.h:one\n"
    assert builder.builds == 1
    (root / "second" / "a.h").write_text("two\n")
    assert builds(2).look(None).path.read_text() == "kernel.c:include a.h\na.h:two\n"
    assert builder.builds == 2


def test_a_header_that_shadows_another_is_built(builder, root):
    get(builder)
    (root / "first" / "a.h").write_text("shadow\n")
    assert "shadow" in get(builder).path.read_text()
    (root / "first" / "a.h").unlink()
    assert "shadow" not in get(builder).path.read_text()
    assert builder.builds == 2


@pytest.mark.parametrize("kind", ["edit", "shadow", "back and forth"])
def test_what_changes_during_a_build_is_not_kept(builder, root, kind):
    def change() -> None:
        builder.during = lambda: None
        if kind == "shadow":
            (root / "first" / "a.h").write_text("shadow\n")
        else:
            (root / "second" / "a.h").write_text("two\n")
        if kind == "back and forth":
            (root / "second" / "a.h").write_text("one\n")

    builder.during = change
    get(builder)
    assert BuildCache(root).stored() == []


def test_what_was_written_a_moment_ago_is_built_and_not_kept(builder, root):
    """A write in the same tick of the file system's clock could not be told from it."""
    (root / "second" / "a.h").write_text("two\n")
    get(builder, seen=SeenFiles(settled_ns=3_600_000_000_000))
    assert BuildCache(root).stored() == []


def test_what_is_not_modelled_is_built_every_time(builder, monkeypatch):
    def refuse(self: object) -> None:
        raise NotModelled("it asks an oracle")

    asked = []
    with monkeypatch.context() as patched:
        patched.setattr(Toy, "cacheable", lambda self, controls: asked.append(self) or refuse(self))
        get(builder)
        assert len(asked) == 1, "a compiler that does not answer is waited for once"
    for method in ("question", "inputs", "cacheable"):
        with monkeypatch.context() as patched:
            patched.setattr(Toy, method, refuse if method != "cacheable" else lambda self, controls: refuse(self))
            assert [get(builder).cached, get(builder).cached] == ["", ""]
    assert builder.builds == 7


def test_a_rebuild_that_agrees_builds_and_leaves_the_cache(builder):
    get(builder)
    assert get(builder, rebuilds=True).cached == ""
    assert builder.builds == 2
    assert get(builder).cached


def test_a_rebuild_that_differs_is_an_error_that_names_both_and_ends_the_entry(builder, root):
    get(builder)
    (entry,) = BuildCache(root).stored()
    builder.flavour = "another"  # which no key holds
    with pytest.raises(CacheMismatch) as told:
        get(builder, rebuilds=True)
    assert str(entry.path) in str(told.value)
    assert "other machine code in kernel, other" in str(told.value)
    assert BuildCache(root).stored() == []


def test_a_build_that_fails_is_not_kept(builder, root):
    (root / "second" / "a.h").unlink()
    for _ in range(2):
        with pytest.raises(Exception, match=r"no a\.h"):
            get(builder)
    assert BuildCache(root).stored() == []
