"""The compilers of one build's sources, side by side: as many at once as all builds of a benchmark may run together."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from msgspec.structs import replace

from pytest_compileiq.toolchains.commands import Commands


class SideBySide:
    """Runs commands of several builds, each in its build's time. Safe to use from several threads."""

    def __init__(self, most: int = 1) -> None:
        self._most = most
        self._turn = threading.BoundedSemaphore(most)

    def __reduce__(self) -> tuple[type[SideBySide], tuple[int]]:
        return SideBySide, (self._most,)  # another process has its own

    def run(self, commands: Commands, several: Sequence[tuple[Sequence[str], str, object]]) -> None:
        """Run ``several``, whose output is in ``commands.log`` in their order.

        Args:
            several: of each the words, what they are for, and what they make.

        Raises:
            BuildError, EnvironmentFault: as ``Commands.run`` does, for the first that fails by their order.
        """
        if self._most == 1 or len(several) == 1:
            for argv, what, _ in several:
                commands.run(argv, what)
            return
        own = [replace(commands, log="") for _ in several]
        with ThreadPoolExecutor(min(self._most, len(several))) as pool:
            begun = zip(own, several, strict=True)
            running = [pool.submit(self._run, each, argv, what) for each, (argv, what, _) in begun]
            try:
                for each in running:
                    each.result()
            finally:
                pool.shutdown(cancel_futures=True)
                commands.log += "".join(each.log for each in own)

    def _run(self, commands: Commands, argv: Sequence[str], what: str) -> None:
        with self._turn:
            commands.run(argv, what)
