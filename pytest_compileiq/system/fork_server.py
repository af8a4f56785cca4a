"""The server of ``system.forked``: imports one module, and forks a process of it for every request.

``python -P -m pytest_compileiq.system.fork_server CONTROL MODULE``, where CONTROL is the descriptor of a socket. A
request is two descriptors that come over it: a connection, and where the program's output goes. Over the connection
come four bytes of length and the request as JSON; back go the process's id and, at its end, its exit code, four bytes
each.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import selectors
import signal
import socket
import struct
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TypedDict

from pytest_compileiq.system.process import adopt_orphans

READY = b"ready"
NUMBER = struct.Struct("!i")
_CHECK_S = 5.0


class Request(TypedDict):
    """Arguments, directory and whole environment of a process."""

    arguments: list[str]
    cwd: str
    environment: dict[str, str]


class ForkServer:
    """A process of one thread that forks until ``control`` closes. Each child leads a session of its own.

    A child is killed with its group when its connection closes. When it ends, what it leaves of its group is killed
    before it is reaped, since only until then its number means this group and no other.
    """

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._parent = os.getppid()
        self._is_asked = True
        self._children: dict[int, socket.socket] = {}  # process id → its connection
        self._selector = selectors.DefaultSelector()
        self._ended, ending = os.pipe()
        os.set_blocking(self._ended, False)
        os.set_blocking(ending, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(ending)
        self._selector.register(self._ended, selectors.EVENT_READ)
        self._selector.register(control, selectors.EVENT_READ)

    def serve(self) -> Request | None:
        """Serve to the end. Returns in every child its request; in the server, at its own end, None."""
        while self._is_asked and os.getppid() == self._parent:  # a fork of the parent may hold the socket open
            for key, _ in self._selector.select(_CHECK_S):
                if key.fd == self._ended:
                    self._reap()
                elif key.fileobj is self._control:
                    if (request := self._accept()) is not None:
                        return request
                elif key.data in self._children:  # it may have been reaped just now
                    self._kill(key.data)
        self._end()
        return None

    def _accept(self) -> Request | None:
        """Fork for one request, which is returned in the child alone."""
        _, descriptors, _, _ = socket.recv_fds(self._control, 1, 2)
        if len(descriptors) < 2:
            self._is_asked = False
            return None
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        connection, output = socket.socket(fileno=descriptors[0]), descriptors[1]
        request = _request(connection)
        try:
            pid = os.fork() if request else -1
        except OSError:  # who asked sees the connection close
            pid = -1
        if request and pid == 0:
            self._leave(connection, output)
            return request
        os.close(output)
        if pid > 0:
            self._children[pid] = connection
            self._selector.register(connection, selectors.EVENT_READ, pid)
        else:
            connection.close()
        return None

    def _leave(self, connection: socket.socket, output: int) -> None:
        """In a new child: keep nothing of the server's, and send its id once it leads a session."""
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        for other in (self._control, *self._children.values()):
            other.close()
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, descriptor in enumerate((nothing, output, output)):
            os.dup2(descriptor, number)
        os.close(nothing)
        os.close(output)
        connection.sendall(NUMBER.pack(os.getpid()))
        connection.close()

    def _reap(self) -> None:
        with suppress(BlockingIOError):
            while os.read(self._ended, 512):
                pass
        for pid, connection in list(self._children.items()):
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                continue
            self._kill(pid)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            del self._children[pid]
            with suppress(OSError):  # who asked may be gone
                connection.sendall(NUMBER.pack(code))
            connection.close()
        if not self._children:
            self._kill_orphans()

    def _kill(self, pid: int) -> None:
        """Kill a child with its group. Its connection is read no more, and gets its exit code."""
        with suppress(KeyError):  # it was killed before
            self._selector.unregister(self._children[pid])
        for kill in (os.killpg, os.kill):  # it leads no group yet in its first moment
            with suppress(ProcessLookupError, PermissionError):
                kill(pid, signal.SIGKILL)

    def _kill_orphans(self) -> None:
        """Kill processes that programs left behind outside their groups, such as a daemon, which forks twice."""
        with suppress(PermissionError):  # a program of another user's
            while orphans := _children() - self._children.keys():
                for pid in orphans:
                    os.kill(pid, signal.SIGKILL)  # not reaped yet, so there is one
                    os.waitpid(pid, 0)

    def _end(self) -> None:
        for pid in self._children:
            self._kill(pid)
        for pid in list(self._children):
            os.waitpid(pid, 0)
            del self._children[pid]
        self._kill_orphans()


def _children() -> set[int]:
    """The processes whose parent this one is; none where the system does not list them."""
    listed = Path(f"/proc/self/task/{os.getpid()}/children")
    return {int(pid) for pid in listed.read_text().split()} if listed.is_file() else set()


def _request(connection: socket.socket) -> Request | None:
    """The request that comes over a connection; None if its other end has gone."""
    with connection.makefile("rb") as stream:
        header = stream.read(NUMBER.size)
        size = NUMBER.unpack(header)[0] if len(header) == NUMBER.size else 0
        content = stream.read(size)
    if len(content) < size or not content:
        return None
    request: Request = json.loads(content)
    return request


def main() -> int:
    """Serve. A child ends with what the module's ``main`` returns, which leaves no thread behind."""
    control = socket.socket(fileno=int(sys.argv[1]))
    module = import_module(sys.argv[2])
    module.preload()
    tasks = Path("/proc/self/task")  # the threads of libraries included
    if tasks.is_dir() and len(list(tasks.iterdir())) != 1:  # what others hold locked stays locked in a child for ever
        return 1
    adopt_orphans()
    gc.freeze()  # what is here now is no garbage of the processes to come
    server = ForkServer(control)
    control.sendall(READY)
    request = server.serve()
    if request is None:
        return 0
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    sys.argv[1:] = request["arguments"]
    code = int(module.main())
    # As multiprocessing ends a fork: taking apart what the server has loaded would take as long as a small kernel.
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
