"""``-march=native`` where what is built runs on another machine: what it means there, in words that are checked."""

from __future__ import annotations

import pytest

from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc.marker import Cc
from pytest_compileiq.tuning.baseline import lay_out

NATIVE = Cc("k.c", flags="-O2 -march=native")


@pytest.fixture
def root(tmp_path):
    (tmp_path / "k.c").write_text("int k(void) { return 1; }")
    return tmp_path


def test_it_means_what_the_other_machine_says(root):
    there = {"-march=native": ("-march=x86-64-v4", "-mno-avx512cd")}
    builder = NATIVE.resolve(Place(root, root, there))
    assert builder.compiler.command[2:4] == there["-march=native"]
    assert builder.architecture == "x86-64-v4"
    assert builder.build(None, root / "out", timeout_s=60).code


def test_it_means_this_processor_where_that_runs_it_and_says_so(root):
    builder = NATIVE.resolve(Place(root, root))
    assert builder.host_flags.keys() == {"-march=native"}
    assert NATIVE.resolve(Place(root, root, builder.host_flags)).compiler == builder.compiler
    assert Cc("k.c", flags="-O2").resolve(Place(root, root)).host_flags == {}


def test_a_machine_that_does_not_say_it_is_not_taken_for_this_one(root):
    with pytest.raises(EnvironmentFault, match="does not say what -march=native means there"):
        NATIVE.resolve(Place(root, root, {}))


@pytest.mark.parametrize("meant", ["-fplugin=evil.so", "-march=$(id)", "@file", "-m", "-mcpu=a -o x", ""])
def test_what_it_says_is_a_choice_of_a_processor_and_nothing_else(root, meant):
    with pytest.raises(EnvironmentFault, match="chooses no processor"):
        NATIVE.resolve(Place(root, root, {"-march=native": ("-march=x86-64", meant)}))
    with pytest.raises(EnvironmentFault, match="chooses no processor"):
        NATIVE.resolve(Place(root, root, {"-O2": ("-march=x86-64",)}))


def test_a_copy_of_the_project_is_built_for_the_same_machine(root):
    place = Place(root, root, {"-march=native": ("-march=x86-64-v2",)})
    moved = lay_out(place, ["k.c"], ["gcc"], root.parent / "home")
    assert NATIVE.resolve(moved).architecture == "x86-64-v2"
