"""The ``acf`` command. Each verb imports what it needs when it runs, so that ``acf --help`` is fast."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from pytest_compileiq import __version__, rooms
from pytest_compileiq.cli import begin, inspect, maintain, ship
from pytest_compileiq.errors import CompileIQError, fault_of
from pytest_compileiq.spelling import did_you_mean
from pytest_compileiq.system.printing import complain, flush, give_up_printing, harmless

VERBS = {
    "begin": {
        "init": "set up a project and write a first benchmark",
        "doctor": "check the compilers and devices of this machine",
        "capture": "record the kernels that a Python program calls",
        "import": "import a booster pack or a store as candidates",
    },
    "read and check": {
        "list": "list artifacts",
        "show": "show one artifact",
        "check": "verify the store and recompute every claim",
        "history": "show timings over time and the cause of each shift",
        "report": "write all artifacts as one HTML page",
    },
    "review": {
        "diff": "summarise artifact changes between two commits",
        "textconv": "print one file of an artifact as text, for git diff",
    },
    "build and ship": {
        "flags": "print the options that apply an artifact",
        "export": "export proven controls for a JIT",
        "verify-binary": "check built files for the proven machine code",
        "expect": "fail unless every shipped artifact was applied",
    },
    "maintain": {
        "promote": "put another point of the Pareto front in place",
        "retire": "withdraw an artifact; builds take the baseline",
        "prune": "remove artifacts without a test",
        "cache": "show what the build cache holds",
    },
}
"""Task → verb → its line of help."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``acf``; returns the exit code, as `acf --help` lists them."""
    parser = _parser(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(arguments)
    if options.verb is None:
        parser.print_help()
        return 0
    try:
        code: int = options.verb(options)
        flush()
    except BrokenPipeError:
        give_up_printing()
        return 1
    except CompileIQError as error:
        complain(str(error))
        return 2
    except OSError as error:
        complain(fault_of(error))
        return 2
    except KeyboardInterrupt:
        return 130
    return code


class _Parser(argparse.ArgumentParser):
    """A parser whose errors show arguments harmlessly: a build may pass untrusted ones."""

    def error(self, message: str) -> NoReturn:
        super().error(harmless(message))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        # argparse would list all verbs for a wrong one, and not say which is near.
        if action.dest == "verb_name" and value not in (known := list(action.choices or ())):
            meant = did_you_mean(value, known)
            raise argparse.ArgumentError(None, f"no verb {value!r}{meant}; acf --help lists them")
        super()._check_value(action, value)


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = _Parser(
        prog="acf",
        usage="acf [-h] [--version] [--acf-dir DIR] VERB ...",
        description="Read, check and ship the committed artifacts of compiler tuning.",
        epilog=_epilog(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"acf {__version__}")
    parser.add_argument("--acf-dir", type=Path, metavar="DIR", help="the artifacts (default: acf_dir of this project)")
    parser.set_defaults(verb=None)
    verbs = parser.add_subparsers(dest="verb_name", prog="acf", metavar="VERB", help=argparse.SUPPRESS)
    for family in (begin, inspect, ship, maintain):
        family.add_verbs(verbs)
    for verb in rooms.verbs():
        if verb in arguments:
            rooms.verb(verb).add_verbs(verbs)
        else:
            verbs.add_parser(verb)  # a name that --help and a misspelt verb need
    for task in VERBS.values():
        for verb, does in task.items():
            verbs.choices[verb].description = verbs.choices[verb].description or f"{does[0].upper()}{does[1:]}."
    return parser


def _epilog() -> str:
    """The verbs by task, which argparse cannot group, and the exit codes."""
    tasks = [
        "\n".join([f"{task}:", *(f"  {verb:14} {does}" for verb, does in verbs.items())])
        for task, verbs in VERBS.items()
    ]
    codes = "exit codes: 0 healthy, 1 unhealthy, 2 wrong call, 3 stale artifact (flags, export), 130 interrupted"
    return "\n\n".join([*tasks, "acf VERB --help shows the options of a verb", codes])
