"""``acf capture``: which functions of shared libraries a Python program spends its time in."""

from __future__ import annotations

import argparse

from pytest_compileiq.errors import UserError
from pytest_compileiq.system.printing import complain, say


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the ``acf`` command."""
    capture = verbs.add_parser(
        "capture",
        help="which C functions a Python program spends its time in",
        usage="acf capture --rank-only [--top N] [--share S] -- python PROGRAM ...",
        description="Run a Python program, and rank the functions of shared libraries that it calls through ctypes or "
        "cffi by their share of its time, for each shape of their arguments. Exits with 1 if the program does not end "
        "with 0.",
    )
    capture.add_argument("--rank-only", action="store_true", required=True, help="rank what is called, record no data")
    capture.add_argument("--top", type=int, default=10, metavar="N", help="show at most N functions (default: 10)")
    capture.add_argument(
        "--share", type=float, default=1.0, metavar="S", help="show those that hold this share of the time of all"
    )
    capture.add_argument("program", nargs=argparse.REMAINDER, metavar="-- python PROGRAM ...")
    capture.set_defaults(verb=_capture)


def _capture(options: argparse.Namespace) -> int:
    from pytest_compileiq.capture.program import python_program, watch
    from pytest_compileiq.capture.rank import ranked, that_count
    from pytest_compileiq.report.capture import caveats, ranking_lines

    if options.top < 1 or not 0 < options.share <= 1:
        raise UserError(f"--top {options.top} --share {options.share}: expected a count from 1, and a share up to 1")
    words = options.program
    program = python_program(words[1:] if words[:1] == ["--"] else words)
    status, watched = watch(program)
    functions = ranked(watched)
    say(*ranking_lines(watched, functions, that_count(functions, options.top, options.share)))
    for sentence in caveats(watched):
        complain(sentence)
    if status:
        complain(f"{program.target} ended with status {status}, so this is of what it did until then")
    return 1 if status or watched.failure else 0
