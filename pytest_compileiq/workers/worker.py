"""A conversation with one worker; ``pytest_compileiq.workers.worker_plugin`` is its other end.

A worker is a pytest of its own, configured as its parent is. It collects the tuned tests, then waits: entering a test
sets up its fixtures once, and tasks run on them until the parent leaves it.
"""

from __future__ import annotations

import contextlib

from pytest_compileiq.workers import messages
from pytest_compileiq.workers.transport import Connection, WorkerDied

START_TIMEOUT_S = 600.0
_EXIT_TIMEOUT_S = 10.0


class Worker:
    """One worker, which was just started. Not thread-safe: one conversation at a time.

    Raises:
        WorkerDied: of all methods that wait: it could not do it (kind ``wrong``, saying why), or ended.
    """

    def __init__(self, line: Connection) -> None:
        self.line = line
        self.inside: str | None = None  # the node id of the test that it has entered
        self._ready = False

    def enter(self, nodeid: str, builder: bytes | None) -> messages.Entered:
        """Set up the test's fixtures, leaving the test that the worker was in; ``builder`` as in ``Enter``."""
        self.wait_ready()
        self.leave()
        self.line.send(messages.Enter(nodeid, builder))
        answer = self.line.receive(START_TIMEOUT_S)
        if not isinstance(answer, messages.Entered):
            raise WorkerDied("wrong", _reason(answer) or "the test could not be set up")
        self.inside = nodeid
        return answer

    def wait_ready(self) -> None:
        """Wait until it has collected its tests."""
        if not self._ready:
            self._expect(messages.Ready)
            self._ready = True

    def ask(self, task: messages.Task[object], timeout_s: float) -> messages.TaskAnswer:
        """Have the entered test do ``task``; ``timeout_s`` bounds the time without progress."""
        self.line.send(task)
        answer = self.line.receive(timeout_s)
        if isinstance(answer, messages.TaskAnswer):
            return answer
        self.inside = None  # the test is over, which no task ends by itself
        raise WorkerDied("crash", f"the test ended within its task: {_reason(answer) or 'no reason given'}")

    def query(self, query: messages.Query, timeout_s: float) -> messages.QueryAnswer:
        """Have it answer about a test that it has not entered; ``timeout_s`` bounds the time without progress."""
        self.wait_ready()
        self.line.send(query)
        answer = self.line.receive(timeout_s)
        if not isinstance(answer, messages.QueryAnswer):
            raise WorkerDied("wrong", _reason(answer) or f"answered {type(answer).__name__}")
        return answer

    def leave(self) -> None:
        """Tear the entered test's fixtures down."""
        if self.inside is not None:
            self.inside = None
            self.line.send(messages.Leave())
            self._expect(messages.Left)

    def dismiss(self) -> None:
        """Ask it to tear its fixtures down and to end, without waiting."""
        with contextlib.suppress(WorkerDied):
            if self.inside is not None:
                self.line.send(messages.Leave())
            self.line.send(messages.Quit())

    def close(self) -> None:
        """Wait for the end of a dismissed worker; kill it if it outlives its last teardown by ten seconds."""
        with contextlib.suppress(WorkerDied):
            if self.inside is not None:
                self._expect(messages.Left)
        self.line.close(_EXIT_TIMEOUT_S)

    def _expect(self, event: type[messages.Ready] | type[messages.Left]) -> None:
        answer = self.line.receive(START_TIMEOUT_S)
        if not isinstance(answer, event):
            raise WorkerDied("crash", _reason(answer) or f"answered {type(answer).__name__}")


def _reason(answer: messages.Answer) -> str | None:
    return answer.reason if isinstance(answer, messages.Failed | messages.Left | messages.FailureAnswer) else None
