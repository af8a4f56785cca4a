"""A call of Python is taken apart as Python does, and what a program left is read as untrusted."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from pytest_compileiq.capture.inside import launch
from pytest_compileiq.capture.program import NotWatched, _read, python_program
from pytest_compileiq.errors import UserError

TOLD = {
    "schema": 1, "elapsed_ns": 10, "watching_ns": 0, "threads": 1, "forks": 0, "failure": None, "refused": [],
    "calls": [{"library": "l.so", "name": "f", "door": "ctypes", "shape": [3, "x"], "calls": 1, "own_ns": 2}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("words", "options", "kind", "target", "arguments"),
    [
        ("x.py -m a", "", "script", "x.py", "-m a"),
        ("-u -W error -Xdev x.py", "-u -W error -Xdev", "script", "x.py", ""),
        ("-m pytest -k a", "", "module", "pytest", "-k a"),
        ("-mpytest -c", "", "module", "pytest", "-c"),
        ("-Bc pass x", "-B", "code", "pass", "x"),
        ("-Bu -cpass", "-Bu", "code", "pass", ""),
        ("-X importtime -m a.b", "-X importtime", "module", "a.b", ""),
        ("--check-hash-based-pycs never x.py", "--check-hash-based-pycs never", "script", "x.py", ""),
    ],
)
def test_a_call_of_python_is_taken_apart(words, options, kind, target, arguments):
    program = python_program([sys.executable, *words.split()])
    assert program.options == tuple(options.split())
    assert (program.kind, program.target, program.arguments) == (kind, target, tuple(arguments.split()))


@pytest.mark.parametrize("name", ["python3\n", "python3-config", "ipython"])
def test_a_program_that_is_not_called_python_is_refused(name):
    with pytest.raises(UserError, match="is not called python"):
        python_program([name, "x.py"])


def test_what_the_program_left_is_read():
    (calls,) = _read(json.dumps(TOLD).encode()).calls
    assert (calls.name, calls.shape, calls.own_ns) == ("f", (3, "x"), 2)


@pytest.mark.parametrize(
    "changed",
    [{"schema": 2}, {"elapsed_ns": 0}, {"elapsed_ns": 1 << 80}, {"calls": 3}, {"threads": -1}, {"failure": 1}],
)
def test_what_is_no_account_is_refused_in_a_sentence(changed):
    with pytest.raises(NotWatched, match="the account of the program's calls"):
        _read(json.dumps(TOLD | changed).encode())
    with pytest.raises(NotWatched, match="cannot be read"):
        _read(b'{"schema": \xff')


def test_an_interpreter_that_is_too_old_is_refused_in_a_sentence():
    source = "import runpy, sys; sys.version_info = (3, 8); runpy.run_path(sys.argv[1], run_name='__main__')"
    ended = subprocess.run([sys.executable, "-c", source, launch.__file__], capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stderr.startswith("acf: programs of Python 3.9 and later are watched, and this is ")
    assert ended.stderr.count("\n") == 1
