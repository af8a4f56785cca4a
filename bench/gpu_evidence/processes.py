"""Commands that are given so many seconds, and files that are read while others write them."""

import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ENOUGH_TO_STOP_S = 10.0


@dataclass(frozen=True)
class Surroundings:
    """What a command runs in. A ``lock`` is handed down, so that it is held until the last of them has ended."""

    environment: Mapping[str, str]
    lock: int | None = None

    def run(self, command: Sequence[str], *, cwd: Path, output: Path, timeout_s: float) -> int | None:
        """The exit status, or None where time ran out: it is interrupted as by Ctrl-C, and killed if it stays.

        It stays in this process's group, so that what ends the group ends it too.
        """
        output.parent.mkdir(parents=True, exist_ok=True)
        handed = () if self.lock is None else (self.lock,)
        with (
            output.open("wb") as log,
            subprocess.Popen(
                command, cwd=cwd, env=self.environment, stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, pass_fds=handed,
            ) as process,
        ):  # fmt: skip
            try:
                return process.wait(max(0.0, timeout_s))
            except subprocess.TimeoutExpired:
                stop(process)
                return None


def stop(process: "subprocess.Popen[bytes]") -> None:
    """End it, gently first: an interrupted search keeps its journal."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(ENOUGH_TO_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()


def reason(output: Path) -> str:
    """What a command's output says of its failure: pytest's failed tests, else its last line."""
    lines = [line.strip() for line in output.read_text(encoding="utf-8", errors="replace").splitlines()]
    said = [line for line in lines if line]
    telling = [line for line in said if line.startswith(("FAILED ", "ERROR "))]
    return "; ".join(telling[:3] or said[-1:] or ["it printed nothing"])[:500]
