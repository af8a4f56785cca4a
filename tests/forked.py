"""Programs in processes of their own, forked from one that has imported what they begin with: a second less for each.

The server is a fresh process of one thread that does nothing but import and fork. What a program does about its imports,
or how it is started, is tested with processes that begin from nothing.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

PRELOADED = (
    "pytest", "pdb", "execnet", "xml.etree.ElementTree", "git", "numpy", "scipy.special", "elftools.elf.elffile",
    "pytest_compileiq.plugin", "pytest_compileiq.options", "pytest_compileiq.expect", "pytest_compileiq.session",
    "pytest_compileiq.toolchains.cc.builder", "pytest_compileiq.tuning.run",
    "pytest_compileiq.workers.worker_plugin", "pytest_compileiq.workers.tasks",
)  # fmt: skip
_ENVIRONMENT = dict(os.environ)
_ASKED: Counter[frozenset[tuple[str, str]]] = Counter()  # programs, by what is read as they start
_MOST_S = 300


def run_module(
    module: str, arguments: Sequence[str], *, cwd: Path, environment: Mapping[str, str], forked: bool = True
) -> tuple[int, str]:
    """The exit code of ``python -m module``, negative if a signal ended it, and its stdout and then its stderr.

    Args:
        module: its name.
        arguments: after it.
        cwd: where it runs.
        environment: all of it.
        forked: False for a process from nothing in any case.
    """
    with TemporaryDirectory() as home:
        streams = [Path(home, name) for name in ("stdout", "stderr")]
        read_at_start = _read_at_start(environment)
        _ASKED[read_at_start] += 1
        if forked and _ASKED[read_at_start] > 1:  # for a single program a server is no gain
            request = [module, [*arguments], str(cwd), dict(environment), [*map(str, streams)]]
            code = _asked(_server(read_at_start), request)
        else:
            with streams[0].open("wb") as stdout, streams[1].open("wb") as stderr:
                argv = [sys.executable, "-m", module, *arguments]
                done = subprocess.run(
                    argv, cwd=cwd, env=environment, stdout=stdout, stderr=stderr, timeout=_MOST_S, check=False
                )
            code = done.returncode
        return code, "".join(stream.read_bytes().decode() for stream in streams)  # each \r as it is


def _read_at_start(environment: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """What an interpreter or the loader reads as it starts: a forked process has it of its server."""
    return frozenset((name, value) for name, value in environment.items() if name.startswith(("PYTHON", "LD_")))


@cache
def _server(read_at_start: frozenset[tuple[str, str]]) -> subprocess.Popen[str]:
    others = dict(_ENVIRONMENT.items() - _read_at_start(_ENVIRONMENT))
    # A process of several threads is not to be forked.
    alone = others | dict(read_at_start) | {"OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, __file__],
        env=alone,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,  # read once it is dead; a program that it forked has streams of its own
        text=True,
    )


def _asked(server: subprocess.Popen[str], request: list[object]) -> int:
    assert server.stdin and server.stdout and server.stderr
    with suppress(BrokenPipeError):  # the server's own words follow
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
    answer = server.stdout.readline()
    if not answer:
        raise RuntimeError(f"the server of forked test programs ended with {server.wait()}: {server.stderr.read()}")
    return int(answer)


def serve() -> list[Any] | None:
    """Fork a process for each request on stdin, one after another, and print its exit code.

    Returns:
        In a forked process the request, in the server None at the end of stdin.
    """
    for name in PRELOADED:
        import_module(name)
    sys.modules["pytest_compileiq.artifact"].Artifact.model_rebuild()  # which the first that is read does, in 30 ms
    # Else pytest warns that it could not rewrite the assertions of a plugin that is imported already: it has none.
    sys.modules["pytest_compileiq"].__doc__ = "PYTEST_DONT_REWRITE"
    gc.freeze()  # what is here now is no garbage of the programs to come
    with suppress(KeyboardInterrupt):
        for line in sys.stdin:
            if (child := os.fork()) == 0:
                request: list[Any] = json.loads(line)
                return request
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    return None


def skip_waits() -> None:
    """Have time pass at once where this process waits between two samples of a proof, on a machine that is at rest.

    A process from nothing waits, as a user's does.
    """
    timer: Any = import_module("pytest_compileiq.system.wait").Timer
    fake: Any = import_module("pytest_compileiq.testing.fakes").FakeTimer
    timer.now, timer.wait_until, timer.waited = fake.now, fake.wait_until, 0.0
    os.getloadavg = lambda: (0.0, 0.0, 0.0)  # a busy machine says so, in lines that no test is about


def become(module: str, arguments: list[str], cwd: str, environment: dict[str, str], streams: list[str]) -> None:
    """Be ``python -m module``; the interpreter then ends as any does, and tells of what was left open."""
    signal.alarm(_MOST_S)
    for number, path in enumerate([os.devnull, *streams]):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), number)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    sys.argv[1:], sys.path[0] = arguments, cwd
    if module == "pytest":
        zygote = Zygote()
        if zygote.worker is not None:
            sys.exit(become_worker(zygote.worker))
        fork_workers_from(zygote)
    skip_waits()
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[1]))
    from tests.zygote import Zygote, become_worker, fork_workers_from

    sys.path.pop()
    asked = serve()
    if asked is not None:
        become(*asked)
