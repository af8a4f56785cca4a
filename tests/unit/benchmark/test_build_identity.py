"""What tells a machine that builds the same from one that does not, wherever the project lies."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from pytest_compileiq.benchmark.cached_builds import identity_of, why_other
from pytest_compileiq.rules.build_key import Inputs, NotModelled
from pytest_compileiq.testing import FakeBuilder


@dataclass(frozen=True)
class Telling(FakeBuilder):
    """A fake compiler that tells its inputs: one source, and a header that is looked for in vain."""

    root: str = ""
    headers: str = ""
    option: str = "-O2"
    not_modelled: str = ""
    path: str = "/usr/bin"
    language: str = "C"

    def cacheable(self, controls):
        if self.not_modelled:
            raise NotModelled(self.not_modelled)
        return self

    @property
    def is_modelled(self):
        return True

    def question(self):
        return {"compile": [self.option, f"-I{self.root}/include"], "directory": [self.root],
                "environment": [f"LC_ALL={self.language}", f"PATH={self.path}"]}  # fmt: skip

    def inputs(self):
        own = Inputs(frozenset({f"{self.root}/k.c"}), {f"{self.root}/include": frozenset({"k.h"})})
        return own, Inputs(frozenset({self.headers}))


@pytest.fixture
def at(tmp_path):
    def make(place, text="int k;", **changes):
        root = tmp_path / place
        root.mkdir(exist_ok=True)
        (root / "k.c").write_text(text)
        header = tmp_path / "stdio.h"
        header.touch()
        return identity_of(Telling(root=str(root), **{"headers": str(header), **changes}), root)

    return make


def test_a_project_that_lies_elsewhere_is_built_alike(at):
    assert why_other(at("here"), at("there", path="/opt/bin:/usr/bin")) is None


def test_each_thing_that_a_build_depends_on_tells_machines_apart(at, tmp_path):
    here = at("here")
    (tmp_path / "other.h").write_text("changed")
    for changes, said in {
        "text": "project's files", "headers": "content of the compiler's files", "option": "another compile",
        "language": "its environment: LC_ALL=other (here LC_ALL=C)",
        "not_modelled": "its inputs: other (here modelled)",
    }.items():  # fmt: skip
        value = str(tmp_path / "other.h") if changes == "headers" else "other"
        assert said in why_other(at("there", **{changes: value}), here)


def test_another_compiler_is_told_with_both_and_so_is_one_that_tells_no_inputs(tmp_path):
    here = FakeBuilder()
    there = replace(here, compiler=replace(here.compiler, version="2.0"))
    said = why_other(identity_of(there, tmp_path), identity_of(here, tmp_path))
    assert said.startswith("its compiler: fake 2.0") and f"(here fake {here.compiler.version}" in said
    assert why_other(identity_of(here, tmp_path), identity_of(here, tmp_path)) is None
