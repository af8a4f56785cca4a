"""A forked program ends as one from nothing does, or tests would not see what a user sees."""

from __future__ import annotations

import os

import pytest

from tests.files import write_files
from tests.forked import run_module

PROGRAMS = {
    "an exception": ("raise KeyError('x')", 1, "KeyError: 'x'"),
    "an exit with a text": ("import sys; sys.exit('told')", 1, "told"),
    "an exit with a code": ("import sys; print(sys.argv[1:]); sys.exit(11)", 11, "['-q']"),
    "a signal": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -9, ""),
    "Ctrl-C": ("raise KeyboardInterrupt", -2, "KeyboardInterrupt"),
    "what is left open": ("class Left:\n    def __del__(self): raise ValueError('late')\nleft = Left()", 0, "ValueError: late"),
    "a thread that is waited for": (
        "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.1), print('waited'))).start()", 0, "waited",
    ),
    "what is done at the end": ("import atexit\natexit.register(print, 'done')", 0, "done"),
    "its environment and directory": ("import os; print(os.environ['KERNELS'], 'program.py' in os.listdir())", 0, "here True"),
}  # fmt: skip


@pytest.mark.parametrize("forked", [True, False])
@pytest.mark.parametrize("what", PROGRAMS)
def test_it_ends_as_any_program_does(tmp_path, what, forked):
    program, code, said = PROGRAMS[what]
    write_files(tmp_path, {"program.py": program})
    environment = {**os.environ, "KERNELS": "here"}
    given, output = run_module("program", ["-q"], cwd=tmp_path, environment=environment, forked=forked)
    assert given == code
    assert said in output and bool(output) == bool(said)


def test_what_an_interpreter_reads_as_it_starts_is_read(tmp_path):
    write_files(tmp_path, {"program.py": "import sys; print(sys.flags.utf8_mode)"})
    _, output = run_module("program", [], cwd=tmp_path, environment={**os.environ, "PYTHONUTF8": "1"})
    assert output == "1\n"
