"""The canonical text of Python source, in full and in its corners; what a digest of it sees is in test_benchmark.py."""

from __future__ import annotations

import ast
import hashlib

import pytest

from pytest_compileiq.model import Fingerprint
from pytest_compileiq.rules.fingerprint import (
    are_moved,
    canonical_text,
    changed_benchmark,
    covered_files,
    defined_in,
    digest,
    holds,
    is_gone,
    path_within,
    undecorated,
)


def expression(source: str) -> str:
    return canonical_text(ast.parse(source, mode="eval").body)


def test_the_text_holds_names_constants_with_their_type_and_no_empty_field():
    # Committed artifacts hold digests of this text: another text makes all of them stale.
    assert canonical_text(ast.parse("def f(x=1):\n    '''Doc.'''\n    return x.y\n")) == (
        '["Module",["body",[["FunctionDef",["name","f"],["args",["arguments",["args",[["arg",["arg","x"]]]],'
        '["defaults",[["Constant",["value",["int","1"]]]]]]],'
        '["body",[["Return",["value",["Attribute",["value",["Name",["id","x"]]],["attr","y"]]]]]]]]]]'
    )
    assert expression("None") == '["Constant"]'
    assert expression("'1'") == '["Constant",["value","1"]]'


def test_constants_of_different_types_are_told_apart():
    texts = [expression(source) for source in ("1", "1.0", "True", "'1'", "b'1'", "1j", "None", "...")]
    assert len(set(texts)) == len(texts)


def test_only_a_string_that_stands_first_in_a_body_is_a_docstring():
    def text(*lines: str) -> str:
        return canonical_text(ast.parse("\n".join(lines)))

    assert text("'a'", "x") == text("'b'", "x") == text("x")
    for first, second in (("x = 'a'", "x = 'b'"), ("f('a')", "f('b')"), ("1", "2")):
        assert text(first, "x") != text(second, "x")
    assert text("x", "'a'") != text("x", "'b'")
    assert text("if x:", "    'a'", "    y") != text("if x:", "    'b'", "    y")


def test_an_f_string_is_the_same_however_its_constants_are_split():
    def joined(*parts: ast.expr) -> str:
        return canonical_text(ast.JoinedStr([*parts]))

    a, b, c, ab = (ast.Constant(text) for text in ("a", "b", "c", "ab"))
    value = ast.FormattedValue(ast.Name("x", ast.Load()), -1)
    assert joined(value, c, value, a, b) == joined(value, c, value, ab)
    assert joined(a, b, value) == joined(ab, value)
    assert joined(a, value, b) != joined(value, a, b)


def test_a_decorator_is_left_out_and_the_node_kept_as_it_was():
    for source in ("@d\ndef f():\n    x", "@d\nasync def f():\n    x", "@d\nclass F:\n    x"):
        node = ast.parse(source).body[0]
        plain = ast.parse(source.removeprefix("@d\n")).body[0]
        assert canonical_text(undecorated(node)) == canonical_text(plain) != canonical_text(node)
    name = ast.Name("x", ast.Load())
    assert undecorated(name) is name


def test_no_two_lists_of_parts_have_one_digest():
    assert len({digest(parts) for parts in ([], [""], ["ab"], ["a", "b"], ["b", "a"], ['a","b'])}) == 6


# ── what it covers of a file ─────────────────────────────────────────────────────────────────────────────────────

FILE = b"LIMIT = 1\n\n@tuned(flags='-O2')\ndef test_it(acf):\n    assert acf\n\nclass Box:\n    def get(self):\n        return 1\n"
PARTS = {
    "test t.py::test_it": defined_in(FILE, ["test_it"])["test_it"],
    "helper t.py::Box.get": defined_in(FILE, ["Box.get"])["Box.get"],
    "fixture t.py::LIMIT": defined_in(FILE, ["LIMIT"])["LIMIT"],
    "workload t.py::big": "0",
    "objectives": "0",
}
SOURCES = {"k.c": hashlib.sha256(b"one").hexdigest()}


def test_files_are_those_of_sources_and_of_parts_that_stand_in_files():
    assert covered_files(["k.c", "b.h"], [*PARTS, "helper a.py::h"]) == ["a.py", "b.h", "k.c", "t.py"]


HOLDS = {
    "the same": ("t.py", FILE, True),
    "a comment": ("t.py", FILE + b"# anew\n", True),
    "another function": ("t.py", FILE + b"def other():\n    pass\n", True),
    "a decorator": ("t.py", FILE.replace(b"-O2", b"-O3"), True),
    "the test": ("t.py", FILE.replace(b"assert acf", b"assert not acf"), False),
    "a method": ("t.py", FILE.replace(b"return 1", b"return 2"), False),
    "a constant that is gone": ("t.py", FILE.replace(b"LIMIT", b"LIMITS"), False),
    "no Python": ("t.py", b"def test_it(:", False),
    "a zero byte": ("t.py", FILE + b"\0", False),
    "no file": ("t.py", None, False),
    "a source": ("k.c", b"one", True),
    "another source": ("k.c", b"two", False),
    "a file that it does not look into": ("other.py", b"(", True),
}


@pytest.mark.parametrize(("file", "content", "held"), HOLDS.values(), ids=HOLDS)
def test_a_file_holds_what_is_covered_of_it_or_does_not(file, content, held):
    assert holds(content, file, SOURCES, PARTS) is held


def test_a_source_that_is_python_too_is_covered_as_a_whole():
    sources = {"t.py": hashlib.sha256(FILE).hexdigest()}
    assert holds(FILE, "t.py", sources, PARTS)
    assert not holds(FILE + b"\n", "t.py", sources, PARTS)


def test_decorators_are_seen_where_they_are_asked_for():
    other = FILE.replace(b"-O2", b"-O3")
    assert defined_in(FILE, ["test_it"]) == defined_in(other, ["test_it"])
    assert defined_in(FILE, ["test_it"], decorated=True) != defined_in(other, ["test_it"], decorated=True)
    assert defined_in(FILE, ["nothing"]) == {"nothing": None}


def changed_text(before, now):
    return changed_benchmark(Fingerprint("0", "0", {}, before), Fingerprint("0", "0", {}, now))


@pytest.mark.parametrize(
    ("count", "said"), [(5, "helper h.py::f4 (added)"), (6, "helper h.py::f4 (added), and 1 more")]
)
def test_changed_parts_are_named_up_to_five(count, said):
    assert changed_text(
        {"objectives": "0"}, {"objectives": "0"} | {f"helper h.py::f{n}": "0" for n in range(count)}
    ).endswith(said)


def test_parts_that_came_and_went_are_called_so_and_a_record_without_parts_tells_none():
    before, now = {"workload a": "0", "workload b": "0"}, {"workload b": "1", "workload c": "0"}
    assert changed_text(before, now) == "workload a (gone), workload b, workload c (added)"
    for pair in ((before, {}), ({}, now)):
        assert changed_text(*pair) == "the test's code, a fixture or helper it uses, a workload or an objective"


def test_a_definition_is_looked_for_in_its_own_scope():
    nested = b"if 1:\n    def f():\n        def g():\n            x = 1\n        y = 2\n"
    found = defined_in(nested, ["f", "g", "x", "y", "f.g", "f.y", "f.g.x"])
    assert [name for name, sha in found.items() if sha] == ["f", "f.g", "f.y", "f.g.x"]


BEFORE = {
    "test a/t.py::T::test_k": "1", "fixture a/conftest.py::f": "2", "helper a/h.py::g": "3", "workload x": "4",
    "workload y": "5", "objectives": "6", "data a/k.bin": "7",
}  # fmt: skip
MOVED = {
    "helper b/x.py::g": "3", "fixture b/conftest.py::f": "2", "test b/t.py::U::test_l": "1", "workload x": "4",
    "workload y": "5", "objectives": "6", "data b/k.bin": "7",
}  # fmt: skip


def test_parts_that_lie_in_other_files_are_moved_and_any_other_part_is_not():
    assert are_moved(BEFORE, BEFORE) and are_moved(BEFORE, MOVED)
    assert not are_moved({}, {}), "an older record has no parts"
    for name in MOVED:
        assert not are_moved(BEFORE, {**MOVED, name: "9"})
        assert not are_moved(BEFORE, {other: sha for other, sha in MOVED.items() if other != name})
    renamed = {"helper b/x.py::other" if name == "helper b/x.py::g" else name: sha for name, sha in MOVED.items()}
    assert not are_moved(BEFORE, renamed)
    assert not are_moved(BEFORE, dict(sorted(MOVED.items(), key=lambda part: part[1], reverse=True))), "order counts"


# ── whether a test still exists ──────────────────────────────────────────────────────────────────────────────────

TESTS = b"""\
from shared import test_imported

if HAVE_GPU:
    def test_guarded(acf): ...

class Base:
    def test_own(self, acf): ...

class TestHeir(Base):
    pass

test_made = make()
"""


@pytest.mark.parametrize("nodeid", [
    "test_guarded", "test_guarded[a::b]", "Base::test_own", "TestHeir::test_own", "test_made", "test_imported",
])  # fmt: skip
def test_a_test_that_the_text_may_hold_is_there(nodeid):
    file, names = path_within(f"a/test_k.py::{nodeid}")
    assert file == "a/test_k.py" and not is_gone(TESTS, names)


@pytest.mark.parametrize("nodeid", ["test_k", "Base::test_k", "TestK::test_own", "test_own"])
def test_a_test_that_no_statement_defines_is_gone(nodeid):
    assert is_gone(TESTS, path_within(f"a/test_k.py::{nodeid}")[1])


def test_a_file_that_is_gone_has_no_test_and_an_unreadable_text_may_have_it():
    assert (
        is_gone(None, ["test_k"]) and not is_gone(b"def (", ["test_k"]) and not is_gone(b"from x import *", ["test_k"])
    )
