"""Everything that this package prints goes through here. Untrusted text is shown, and never obeyed.

Text from files under ``acf/``, names, compilers and git is untrusted: a terminal would obey its control characters, its
bidi controls would mislead a reader, and a CI runner takes some lines for commands. So no other module prints, or
raises what pytest prints (``tests/unit/system/test_printing.py`` names the one that does).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import threading
from typing import TYPE_CHECKING, Any, TextIO

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
    # Characters that the stream's encoding lacks become escapes: some streams would raise instead.
    encoding = stream.encoding or "utf-8"
    stream.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")


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

    def __init__(self, config: pytest.Config) -> None:
        self._reporter: Any = config.pluginmanager.get_plugin("terminalreporter")

    @property
    def is_live(self) -> bool:
        """Whether a line can be rewritten."""
        return self._reporter is not None and bool(self._reporter.isatty)

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
                self._reporter.write_line(harmless(line), **markup)

    def rewrite(self, line: str) -> None:
        """Replace the live line."""
        if self._reporter is not None:
            self._reporter.rewrite(harmless(line), erase=True)

    def redraw(self, lines: Sequence[str], above: int) -> None:
        """Print lines over the ``above`` lines that were printed last, each cut to the terminal's width."""
        if self._reporter is not None:
            columns = shutil.get_terminal_size().columns
            up = f"\x1b[{above}A\x1b[J" if above else ""
            self._reporter.write(up + "".join(f"{harmless(line)[: columns - 1]}\n" for line in lines), flush=True)

    def command(self, line: str) -> None:
        """Print a workflow command of our own, which begins with ``::`` and has escaped its data."""
        line = line[:2] + harmless(line[2:])
        if self._reporter is not None:
            self._reporter.write_line(line)
        else:
            _write(line, sys.stdout)
