"""Everything that this package prints goes through here. Text from elsewhere is shown in it, and never obeyed.

Files under ``acf/``, names, compilers and git say what they like: a terminal would obey their control characters, a
reader would be misled by their bidi controls, and a CI runner takes some lines for commands. So no other module prints,
nor raises what pytest prints (``tests/unit/system/test_printing.py`` names the one that does).
"""

from __future__ import annotations

import json
import os
import re
import sys
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    import pytest

# GitHub's runner obeys a line that begins with "::" (blanks aside) or has "##[" anywhere, Azure's one with "##vso[".
_COMMAND = re.compile(r"^( *):(?=:)|#(?=#\w*\[)")


def visible(text: str, keep: str = "") -> str:
    """``text`` with control characters, bidi controls and lone surrogates shown as escapes, but for those to ``keep``.

    One line, unless line ends are kept.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in keep else repr(one)[1:-1] for one in text)


def harmless(text: str) -> str:
    """``text`` as one line that neither a terminal nor a CI runner takes for anything but text."""
    return _COMMAND.sub(lambda found: "\\x23" if found[1] is None else f"{found[1]}\\x3a", visible(text))


def json_text(value: Any) -> str:
    """``value`` as JSON in ASCII, so that every file and stream can hold it, and no line of it is a command."""
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
    """Have everything printed now, while an error can still be told."""
    sys.stdout.flush()


def give_up_printing() -> None:
    """Print nothing any more, not even at exit: the reader (head, less) has what it wanted."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write(line: str, stream: TextIO) -> None:
    # What the stream's encoding lacks is shown as an escape: a stream may raise instead.
    encoding = stream.encoding or "utf-8"
    stream.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")


# ── pytest ───────────────────────────────────────────────────────────────────────────────────────────────────────


def failure(message: str, remedy: str = "") -> BaseException:
    """A test's failure without a traceback: the message is all there is to say, and below it what mends it."""
    import pytest

    text = "\n".join(harmless(part) for part in (message, remedy) if part)
    return pytest.fail.Exception(text, pytrace=False)


def skipped(reason: str) -> BaseException:
    """A test's visible skip."""
    import pytest

    return pytest.skip.Exception(harmless(reason))


def wrong_usage(message: str) -> BaseException:
    """The end of a pytest run whose options or settings cannot be used."""
    import pytest

    return pytest.UsageError(harmless(message))


class Terminal:
    """Pytest's terminal. Where pytest has none (``-p no:terminal``) only workflow commands are printed."""

    def __init__(self, config: pytest.Config) -> None:
        self._reporter: Any = config.pluginmanager.get_plugin("terminalreporter")

    @property
    def is_live(self) -> bool:
        """Whether a line can be rewritten."""
        return self._reporter is not None and bool(self._reporter.isatty)

    def begin(self) -> None:
        """End the line of dots that pytest may be within."""
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
            self._reporter.write_line(harmless(line), **markup)

    def rewrite(self, line: str) -> None:
        """Replace the live line."""
        if self._reporter is not None:
            self._reporter.rewrite(harmless(line), erase=True)

    def command(self, line: str) -> None:
        """Print a workflow command of our own, which begins with ``::`` and has escaped its data."""
        if self._reporter is not None:
            self._reporter.write_line(visible(line))
        else:
            _write(visible(line), sys.stdout)
