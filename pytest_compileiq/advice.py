"""What to tell of a measurement besides its verdict: whether the test checks what it times.

Advice in the notes of a report, never a failure.
"""

from __future__ import annotations

from pytest_compileiq import assertions
from pytest_compileiq.subject import Subject


def of_the_body(subject: Subject) -> list[str]:
    """What to say of a body that checks nothing of what it times."""
    said = subject.needs_device and assertions.advice(
        subject.function, fixtures=subject.fixtures, rootdir=subject.rootdir
    )
    return [said] if said else []
