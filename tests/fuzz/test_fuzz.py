"""A few hundred hostile stores, and all that ever broke something; the long run is ``make fuzz``."""

from __future__ import annotations

import functools
import shutil
import time
import types
from pathlib import Path

import pytest

from tests.fuzz import watch
from tests.fuzz.__main__ import new_room
from tests.fuzz.stores import make
from tests.fuzz.trees import Tree, from_json, to_json
from tests.fuzz.watch import Call, Report, run, wrong_with

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.json"))
pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    return new_room(tmp_path_factory.mktemp("rooms"))


def told(report: Report) -> str:
    return "\n".join(f"store {one.number}, {' '.join(map(ascii, one.argv))}: {one.what}" for one in report.violations)


@pytest.mark.slow
def test_hostile_stores_cost_a_sentence_and_nothing_else(room):
    report = run(room, list(range(80)), lambda number: make(2026, number), cheap=True)
    assert len(report.stores) > 70 and report.calls > 280
    assert not report.violations, told(report)


@pytest.fixture(scope="module")
def looked_at_again(room):
    return run(room, list(range(len(CORPUS))), lambda number: from_json(CORPUS[number].read_text()))


@pytest.mark.parametrize("number", range(len(CORPUS)), ids=[path.stem for path in CORPUS])
def test_what_once_broke_something_breaks_nothing(looked_at_again, number):
    assert not [violation for violation in looked_at_again.violations if violation.number == number]


def test_a_store_is_the_same_for_the_same_number_and_comes_back_from_its_text():
    trees = [make(7, number) for number in range(40)]
    assert [tree.digest for tree in trees] == [make(7, number).digest for number in range(40)]
    assert [from_json(to_json(tree)).digest for tree in trees] == [tree.digest for tree in trees]
    assert len({tree.digest for tree in trees}) > 30


# ── the watcher watches ──────────────────────────────────────────────────────────────────────────────────────────

BROKEN = {
    "a traceback": "raise RuntimeError('oops')",
    "exit code 7": "return 7",
    "a raw": "print('a\\x1b[31mb'); return 0",
    "a command": "print('x\\n  ::error::y'); return 0",
    "took 9": "watched.slow(); return 0",
    "touched open": "open('../outside/canary').read(); return 0",
    "touched run": "import subprocess; subprocess.run(['sh', '-c', 'true']); return 0",
    "touched os.mkdir": "import os; os.mkdir('elsewhere'); return 0",
    "ended the process": "import os; os.kill(os.getpid(), 9)",
    "hung": "import time; time.sleep(600)",
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_must_not_be_is_seen(room, monkeypatch, what):
    clock = time.process_time
    slow = functools.partial(monkeypatch.setattr, watch.time, "process_time", lambda: clock() + 9)
    scope = {"watched": types.SimpleNamespace(slow=slow)}
    exec(f"def main(argv):\n    {BROKEN[what]}", scope)
    monkeypatch.setattr("pytest_compileiq.cli.main.main", scope["main"])
    monkeypatch.setattr(watch, "MOST_WAITING_SECONDS", 1 if what == "hung" else 3)
    monkeypatch.setattr(watch, "calls_of", lambda tree: [["verb"]])
    report = run(room, [0], lambda _: Tree({}))
    assert any(what in one.what for one in report.violations), report


def test_a_call_that_takes_more_than_its_share_of_memory_is_seen():
    assert list(wrong_with(Call(("verb",), 0, "", 0.0, 301))) == ["took 301 MiB"]


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("::error file=test_k.py,line=3,title=kernel STALE::  ::add-mask::a", False),
        ("::warning title=acf::x ##[group]y", True),
        ("::add-mask::a", True),
    ],
)
def test_an_annotation_of_ours_is_one_command_whatever_its_text_begins_with(line, wrong):
    assert bool(list(wrong_with(Call(("pytest",), 0, f"{line}\n", 0.0, 1)))) == wrong
