"""Programs in a real pseudo-terminal, and the screen that a person sees of them."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import unicodedata
from codecs import getincrementaldecoder
from collections.abc import Mapping, Sequence
from pathlib import Path

_ESCAPE = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])|\x1b\][^\x07]*\x07")


class Screen:
    """What a terminal shows, without bound below; a character or an escape that it does not know is an error.

    Attributes:
        rows: of the characters of each; behind a wide character stands an empty one.
        wrapped: the rows that ran over the last column, each with the number of frames before it.
        frames: the whole screen before each time that something of it was erased.
    """

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.rows: list[list[str]] = [[]]
        self.wrapped: list[tuple[int, str]] = []
        self.frames: list[str] = []
        self._row = self._column = 0

    @property
    def lines(self) -> list[str]:
        return ["".join(row).rstrip() for row in self.rows]

    def show(self, text: str) -> None:
        place = 0
        while place < len(text):
            if escape := _ESCAPE.match(text, place):
                place = escape.end()
                self._obey(escape[1] or "", escape[2] or "")
                continue
            self._put(text[place])
            place += 1

    def _put(self, character: str) -> None:
        if character == "\r":
            self._column = 0
        elif character == "\n":
            self._to_row(self._row + 1)
        else:
            assert character.isprintable(), f"{character!r} is no text"
            cells = 2 if unicodedata.east_asian_width(character) in "WF" else 1
            if self._column + cells > self.columns:
                self.wrapped.append((len(self.frames), self.lines[self._row]))
                self._to_row(self._row + 1)
                self._column = 0
            row = self.rows[self._row]
            row.extend(" " * (self._column + cells - len(row)))
            row[self._column : self._column + cells] = [character, *[""] * (cells - 1)]
            self._column += cells

    def _obey(self, numbers: str, what: str) -> None:
        count = int(numbers or 1) if numbers.isdigit() or not numbers else 0
        if what == "A":
            assert count <= self._row
            self._row -= count
        elif what == "C":
            self._column = min(self._column, self.columns - 1) + count
        elif what == "J" and not numbers:
            self.frames.append("\n".join(self.lines))
            del self.rows[self._row + 1 :], self.rows[self._row][self._column :]
        else:
            assert what in ("m", ""), f"an escape that this screen does not know: {numbers}{what}"

    def _to_row(self, number: int) -> None:
        self._row = number
        while len(self.rows) <= number:
            self.rows.append([])


def run_on_screen(argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str], columns: int = 80) -> Screen:
    """Run a program in a terminal of ``columns`` columns and 24 rows; what it showed."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    screen, decoder = Screen(columns), getincrementaldecoder("utf-8")()
    with subprocess.Popen(argv, cwd=cwd, env=environment, stdin=its, stdout=its, stderr=its) as process:
        os.close(its)
        written = ""
        while chunk := _read(ours):
            written += decoder.decode(chunk)
        process.wait(60)
    os.close(ours)
    screen.show(written)
    return screen


def _read(ours: int) -> bytes:
    try:
        return os.read(ours, 65536)
    except OSError:  # EIO: the program has ended, and nobody has its side of the terminal open
        return b""
