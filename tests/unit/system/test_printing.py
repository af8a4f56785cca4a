"""One module prints for all of them, and what it prints is a line of text, whatever it was given."""

from __future__ import annotations

import ast
import io
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pytest_compileiq
from pytest_compileiq.system.printing import Terminal, complain, failure, harmless, json_text, say

PACKAGE = Path(pytest_compileiq.__file__).parent
# Programs of ours whose standard output and error are pipes to this package, which prints none of it as it comes.
PROGRAMS = (
    "cli/orphans.py",
    "engines/compileiq_host.py",
    "system/fork_server.py",
    "timing/clock_keeper.py",
    "toolchains/triton/host.py",
)
# It is exported and imports nothing of ours: tests/unit/ship/test_acf_runtime.py holds its one line to the same.
EXPORTED = ("ship/acf_runtime.py",)
PRINTERS = (
    "print", "sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__", "warnings.warn", "pytest.fail",
    "pytest.fail.Exception", "pytest.skip", "pytest.skip.Exception", "pytest.exit", "pytest.UsageError",
)  # fmt: skip
OF_THE_REPORTER = {"write_line", "rewrite", "section", "write_sep"}
# What GitHub's runner takes for a command: src/Runner.Common/ActionCommand.cs, TryParseV2 and TryParse.
OBEYED = re.compile(r"^\s*::|##\[|##vso\[")


def printers(path: Path):
    """(line, what it calls or names) wherever ``path`` prints anything but a text that stands in the source."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(node.ctx, ast.Load):
            continue
        name, parent = ast.unparse(node), parents[node]
        reporter = isinstance(node, ast.Attribute) and node.attr in OF_THE_REPORTER and "Terminal" not in name
        if name not in PRINTERS and not (reporter and re.search(r"reporter|_tw\b", ast.unparse(node.value))):
            continue
        if isinstance(parent, ast.Call) and all(isinstance(argument, ast.Constant) for argument in parent.args):
            continue
        if isinstance(parent, ast.ExceptHandler) or ast.unparse(parent) in (*PRINTERS, "pytest.exit.Exception"):
            continue  # it is caught, or the longer name is told
        yield node.lineno, name


FILES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("file", [file for file in FILES if file not in ("system/printing.py", *PROGRAMS, *EXPORTED)])
def test_no_other_module_prints(file):
    found = [f"{file}:{line}: {name}" for line, name in printers(PACKAGE / file)]
    assert not found, f"{found}: print through pytest_compileiq.system.printing, which makes every line harmless"


@pytest.mark.parametrize(
    "statement",
    [
        "print(text)",
        "print('a', file=sys.stderr, *texts)",
        "sys.stdout.write(text)",
        "line = sys.stderr",
        "reporter.write_line(text)",
        "LineProgress(name, reporter.write_line)",
        "self._reporter.rewrite(text)",
        "pytest.skip(f'{text}')",
        "raise pytest.fail.Exception(text)",
        "raise pytest.UsageError(text)",
    ],
)
def test_a_module_that_prints_is_named(tmp_path, statement):
    (tmp_path / "it.py").write_text(statement)
    assert list(printers(tmp_path / "it.py"))


@given(st.text())
def test_any_text_becomes_one_line_that_nobody_obeys(text):
    shown = harmless(text)
    assert shown.isprintable() and not OBEYED.search(shown) and harmless(shown) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("test_k.py::test_k: 1.5x → 2x", "test_k.py::test_k: 1.5x → 2x"),
        ("old\n::stop-commands::zz", "old\\n::stop-commands::zz"),
        ("::error::pwn", "\\x3a:error::pwn"),
        ("  ::error::pwn", "  \\x3a:error::pwn"),
        ("x ##[error]pwn", "x \\x23#[error]pwn"),
        ("###[error] ##vso[task.x]", "#\\x23#[error] \\x23#vso[task.x]"),
        ("a\x1b[31m\x9b\r\t\x7f", "a\\x1b[31m\\x9b\\r\\t\\x7f"),
        ("\u202eevil\u2066\u2028", "\\u202eevil\\u2066\\u2028"),
        ("a\udcff", "a\\udcff"),
        ("### Tuned kernels: 1 added", "### Tuned kernels: 1 added"),
    ],
)
def test_what_would_be_obeyed_is_shown_and_the_rest_stays(text, shown):
    assert harmless(text) == shown


def test_a_failure_is_one_line_and_its_remedy_another():
    assert str(failure("k: STALE\n::error::x", "::add-mask::y\n")) == "k: STALE\\n::error::x\n\\x3a:add-mask::y\\n"


def test_a_command_of_ours_holds_none_of_others(capsys):
    nowhere = SimpleNamespace(pluginmanager=SimpleNamespace(get_plugin=lambda name: None))
    Terminal(nowhere).command("::error title=k::x ##[group]y ::add-mask::z\x1b[2J")
    assert capsys.readouterr().out == "::error title=k::x \\x23#[group]y ::add-mask::z\\x1b[2J\n"


@pytest.mark.parametrize(
    ("line_of_pytest", "down", "back"),
    [(0, "", ""), (4, "\n", "\x1b[A\x1b[4C"), (13, "\n", "\x1b[A\x1b[3C"), (20, "\n", "")],
)
def test_live_lines_leave_the_line_above_and_hold_nothing_obeyed(line_of_pytest, down, back):
    written = []
    writer = SimpleNamespace(
        _file=io.TextIOWrapper(io.BytesIO(), encoding="utf-8"),  # no terminal: the width is the writer's
        fullwidth=10,
        width_of_current_line=line_of_pytest,
        write_raw=lambda text, flush: written.append(text),
    )
    reporter = SimpleNamespace(_tw=writer)
    terminal = Terminal(SimpleNamespace(pluginmanager=SimpleNamespace(get_plugin=lambda name: reporter)))
    terminal.redraw([])
    terminal.redraw(["\x1b[2Jx", "long " * 9])
    terminal.status("test_long[3]", "合計 of it")
    terminal.redraw([])
    assert written == [f"{down}\\x1b[2Jx\nlong lon…", "\r\x1b[1A\x1b[J…]: 合計…", f"\r\x1b[J{back}"]


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_json_comes_back_equal_and_holds_nothing_that_is_obeyed(value):
    lines = json_text(value).split("\n")
    assert json.loads("\n".join(lines)) == value
    assert [harmless(line) for line in lines] == lines and "".join(lines).isascii()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
def test_what_a_stream_cannot_hold_is_shown_as_an_escape(monkeypatch, encoding):
    streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict") for _ in range(2)]
    monkeypatch.setattr(sys, "stdout", streams[0])
    monkeypatch.setattr(sys, "stderr", streams[1])
    say("1 → 2 \udcff")
    complain("日本 × \x1b")
    for stream, plain in zip(streams, (b"1 \\u2192 2 \\udcff\n", b"acf: \\u65e5\\u672c \\xd7 \\x1b\n"), strict=True):
        stream.flush()
        held = stream.buffer.getvalue()
        assert held == plain if encoding == "ascii" else held.decode(encoding).endswith(plain[-5:].decode())
