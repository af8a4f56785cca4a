"""Everything that this package prints goes through here. Untrusted text is shown, and never obeyed.

Text from files under ``acf/``, names, compilers and git is untrusted: a terminal would obey its control characters, its
bidi controls would mislead a reader, and a CI runner takes some lines for commands. So no other module prints, or
raises what pytest prints (``tests/unit/system/test_printing.py`` names the one that does).
"""

from __future__ import annotations

import functools
import json
import os
import re
import sys
import threading
import unicodedata
from typing import TYPE_CHECKING, Any, ClassVar, TextIO

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

# GitHub's runner obeys a line that begins with "::" (blanks aside) or has "##[" anywhere, Azure's one with "##vso[".
_COMMAND = re.compile(r"^( *):(?=:)|#(?=#\w*\[)")


def visible(text: str, keep: str = "") -> str:
    """``text`` with control characters, bidi controls and lone surrogates as escapes, except those in ``keep``.

    The result is one line, unless line ends are kept.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep else repr(char)[1:-1] for char in text)


def harmless(text: str) -> str:
    """``text`` as one line that neither a terminal nor a CI runner takes for anything but text."""
    return _COMMAND.sub(lambda match: "\\x23" if match[1] is None else f"{match[1]}\\x3a", visible(text))


def cells(text: str) -> int:
    """The number of terminal cells that ``text``, which holds no control character, takes up."""
    return len(text) if text.isascii() else sum(map(_cells, text))


@functools.cache
def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, most: int) -> str:
    """``text``, which holds no control character, in at most ``most`` cells; ``…`` ends a text that is cut."""
    if cells(text) <= most:
        return text
    used = 1
    for place, character in enumerate(text):
        used += _cells(character)
        if used > most:
            return f"{text[:place]}…" if most else ""
    return text  # never: the whole is wider


def cut_start(name: str, most: int) -> str:
    """As ``cut``, but it keeps the end of a name, where parametrised tests differ."""
    return cut(name[::-1], most)[::-1]


def json_text(value: Any) -> str:
    """``value`` as JSON in ASCII: every file and stream can hold it, and no line of it is a command."""
    return json.dumps(value, indent=2).replace("##", "#\\u0023")


# ── acf ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def say(*lines: str) -> None:
    """Print lines to standard output."""
    for line in lines:
        _write(harmless(line), sys.stdout)


def complain(sentence: str) -> None:
    """Print what is wrong, or worth knowing, to standard error."""
    _write(harmless(f"acf: {sentence}"), sys.stderr)


def flush() -> None:
    """Flush standard output now, while an error can still be reported."""
    sys.stdout.flush()


def give_up_printing() -> None:
    """Discard all further output, even at exit: the reader (head, less) has gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write(line: str, stream: TextIO) -> None:
    stream.write(_encodable(line, stream) + "\n")


def _encodable(text: str, stream: TextIO) -> str:
    # Characters that the stream's encoding lacks become escapes: some streams would raise instead.
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


# ── pytest ───────────────────────────────────────────────────────────────────────────────────────────────────────


def failure(message: str, remedy: str = "") -> BaseException:
    """A test's failure without a traceback: the message, and the remedy on the line below."""
    import pytest

    text = "\n".join(harmless(part) for part in (message, remedy) if part)
    return pytest.fail.Exception(text, pytrace=False)


def skipped(reason: str) -> BaseException:
    """A test's visible skip."""
    import pytest

    return pytest.skip.Exception(harmless(reason))


def interrupted(reason: str) -> BaseException:
    """The end of a pytest run by Ctrl-C, without the place in the code that it came to."""
    import pytest

    return pytest.exit.Exception(harmless(reason), pytest.ExitCode.INTERRUPTED)


def wrong_usage(message: str) -> BaseException:
    """The end of a pytest run whose options or settings cannot be used."""
    import pytest

    return pytest.UsageError(harmless(message))


_printing = threading.Lock()  # benchmarks that are tuned side by side print from threads


class Terminal:
    """Pytest's terminal. Where pytest has none (``-p no:terminal``) only workflow commands are printed."""

    _rows: ClassVar[int] = 0  # of the live block on the screen: a process has one terminal

    def __init__(self, config: pytest.Config) -> None:
        self._reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        self._config = config

    @property
    def is_silent(self) -> bool:
        return self._reporter is None or self._config.get_verbosity() < 0

    @property
    def is_live(self) -> bool:
        """Whether lines can be redrawn: on a terminal that obeys escapes, while tests print nothing to it (``-s``)."""
        if self._reporter is None or not self._reporter.isatty or os.environ.get("TERM") == "dumb":
            return False
        return bool(self._config.getoption("capture", "no") != "no")

    def begin(self) -> None:
        """End the line of dots that pytest may be printing."""
        if self._reporter is not None:
            self._reporter.ensure_newline()

    def section(self, title: str) -> None:
        """Print a heading as wide as the terminal."""
        self.begin()
        if self._reporter is not None:
            self._reporter.section(harmless(title), sep="=")

    def say(self, line: str, **markup: bool) -> None:
        """Print one line, with pytest's markup."""
        if self._reporter is not None:
            with _printing:
                self._draw([])
                self._reporter.write_line(harmless(line), **markup)

    def status(self, label: str, text: str) -> None:
        """Show one live line, ``label: text``; on a narrow terminal the label gives way first."""
        columns, _ = self._size()
        room = columns - cells(harmless(text)) - 3  # ": ", and the last column
        self.redraw([f"{cut_start(harmless(label), max(room, columns // 4))}: {text}"])

    def redraw(self, lines: Sequence[str]) -> None:
        """Show live lines in place of those shown before, each cut to the terminal's width; none clears them.

        They stand below the line that pytest is printing, which goes on as if they had never been there.
        """
        if self._reporter is not None:
            with _printing:
                self._draw(lines)

    def _draw(self, lines: Sequence[str]) -> None:
        if not lines and not self._rows:
            return
        writer = self._reporter._tw
        columns, rows = self._size()
        # In the last column a terminal waits with its wrap, and a block as high as the terminal would scroll.
        shown = [cut(_encodable(harmless(line), writer._file), columns - 1) for line in lines[: max(rows - 2, 1)]]
        # After a full line the cursor waits in the last column: that is where the next row begins.
        full_rows, column = divmod(writer.width_of_current_line, columns)
        on_own_row = column > 0 or full_rows > 0
        text = ""
        if self._rows:
            text = "\r" + (f"\x1b[{self._rows - 1}A" if self._rows > 1 else "") + "\x1b[J"
            if not shown and column:
                text += f"\x1b[A\x1b[{column}C"
        elif on_own_row:
            text = "\n"
        # Raw: the reporter counts what it writes, and would take these lines for its own.
        writer.write_raw(_encodable(text + "\n".join(shown), writer._file), flush=True)
        Terminal._rows = len(shown)

    def _size(self) -> tuple[int, int]:
        """Columns and rows. Standard output is no help: while a test runs, pytest's capture has it."""
        try:
            size = os.get_terminal_size(self._reporter._tw._file.fileno())
        except (AttributeError, OSError, ValueError):
            size = os.terminal_size((0, 0))
        return size.columns or self._reporter._tw.fullwidth, size.lines or 24

    def command(self, line: str) -> None:
        """Print a workflow command of our own, which begins with ``::`` and has escaped its data."""
        line = line[:2] + harmless(line[2:])
        if self._reporter is not None:
            self._reporter.write_line(line)
        else:
            _write(line, sys.stdout)
