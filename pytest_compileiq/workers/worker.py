"""A conversation with one worker; ``pytest_compileiq.workers.worker_plugin`` is its other end.

A worker is a pytest of its own, configured as its parent is. It collects the tuned tests, then waits: entering a test
sets up its fixtures once, and tasks run on them until the parent leaves it.
"""

from __future__ import annotations

import contextlib

from pytest_compileiq.workers.messages import (
    Answer,
    BlockAnswer,
    BuildAnswer,
    BuildRefused,
    CheckAnswer,
    DrawAnswer,
    Enter,
    Entered,
    Failed,
    FailureAnswer,
    FirstCallsAnswer,
    IdentityAnswer,
    Leave,
    Left,
    LookAnswer,
    Query,
    Quit,
    Ready,
    Start,
    Task,
    TaskAnswer,
)
from pytest_compileiq.workers.transport import Launches, WorkerDied

START_TIMEOUT_S = 600.0
_EXIT_TIMEOUT_S = 10.0
_TASK_ANSWERS = (CheckAnswer, BlockAnswer, LookAnswer, DrawAnswer, FirstCallsAnswer, FailureAnswer)


class Worker:
    """One worker. Not thread-safe: one conversation at a time.

    Attributes:
        line: how it is reached.
        inside: the node id of the test that it has entered, or None.
    """

    def __init__(self, carrier: Launches, start: Start, number: int) -> None:
        """Start it, without waiting."""
        self.line = carrier.launch(start, number)
        self.inside: str | None = None
        self._ready = False

    def enter(self, nodeid: str, builder: bytes | None) -> Entered:
        """Set up the test's fixtures, leaving the test that the worker was in.

        Args:
            builder: the pickled compiler of the test; None where the worker has to find it.

        Raises:
            WorkerDied: the set-up failed (kind ``wrong``, saying how) or ended the process.
        """
        self.wait_ready()
        self.leave()
        self.line.send(Enter(nodeid, builder))
        answer = self.line.receive(START_TIMEOUT_S)
        if not isinstance(answer, Entered):
            raise WorkerDied("wrong", _reason(answer) or "the test could not be set up")
        self.inside = nodeid
        return answer

    def wait_ready(self) -> None:
        """Wait until it has collected its tests.

        Raises:
            WorkerDied: it could not.
        """
        if not self._ready:
            self._expect(Ready)
            self._ready = True

    def ask(self, task: Task, timeout_s: float) -> TaskAnswer:
        """Have the entered test do ``task``; ``timeout_s`` bounds the time without progress.

        Raises:
            WorkerDied: it crashed, exited, hung, or printed without end.
        """
        self.line.send(task)
        answer = self.line.receive(timeout_s)
        if isinstance(answer, _TASK_ANSWERS):
            return answer
        self.inside = None  # the test is over, which no task ends by itself
        raise WorkerDied("crash", f"the test ended within its task: {_reason(answer) or 'no reason given'}")

    def query(self, query: Query, timeout_s: float) -> IdentityAnswer | BuildAnswer | BuildRefused:
        """Have it answer about a test that it has not entered; ``timeout_s`` bounds the time without progress.

        Raises:
            WorkerDied: it could not answer (kind ``wrong``, saying why), or ended.
        """
        self.wait_ready()
        self.line.send(query)
        answer = self.line.receive(timeout_s)
        if not isinstance(answer, IdentityAnswer | BuildAnswer | BuildRefused):
            raise WorkerDied("wrong", _reason(answer) or f"answered {type(answer).__name__}")
        return answer

    def leave(self) -> None:
        """Tear the entered test's fixtures down.

        Raises:
            WorkerDied: that ended the process.
        """
        if self.inside is not None:
            self.inside = None
            self.line.send(Leave())
            self._expect(Left)

    def dismiss(self) -> None:
        """Ask it to tear its fixtures down and to end, without waiting."""
        with contextlib.suppress(WorkerDied):
            if self.inside is not None:
                self.line.send(Leave())
            self.line.send(Quit())

    def close(self) -> None:
        """Wait for the end of a dismissed worker; kill it if it outlives its last teardown by ten seconds."""
        with contextlib.suppress(WorkerDied):
            if self.inside is not None:
                self._expect(Left)
        self.line.close(_EXIT_TIMEOUT_S)

    def kill(self) -> None:
        """End it now."""
        self.line.kill()

    def _expect(self, event: type[Ready] | type[Left]) -> None:
        answer = self.line.receive(START_TIMEOUT_S)
        if not isinstance(answer, event):
            raise WorkerDied("crash", _reason(answer) or f"answered {type(answer).__name__}")


def _reason(answer: Answer) -> str | None:
    return answer.reason if isinstance(answer, Failed | Left | FailureAnswer) else None
