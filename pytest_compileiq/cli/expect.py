"""``acf expect``: whether the processes of a run applied what was shipped, by what they counted."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_compileiq.system.printing import complain, json_text, say


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the ``acf`` command."""
    expect = verbs.add_parser(
        "expect",
        description="Judge the counts of several processes together: exit with 0 where every expected artifact was "
        "applied in one of them, with 1 where one never was, and with 2 where the counts cannot be read.",
    )
    expect.add_argument("counts", nargs="+", type=Path, metavar="COUNTS", help="files written under ACF_COUNTS")
    which = expect.add_mutually_exclusive_group()
    which.add_argument("--all", action="store_true", help="expect every shipped artifact (default)")
    which.add_argument("--name", action="append", default=[], help="expect this artifact (repeatable)")
    expect.add_argument("--format", choices=("terminal", "json"), default="terminal")
    expect.set_defaults(verb=_expect)


def _expect(options: argparse.Namespace) -> int:
    from pytest_compileiq.report.artifact import table_lines
    from pytest_compileiq.ship.acf_runtime import unmet
    from pytest_compileiq.ship.usage import headline, read_counts, together

    report = together(counts for path in options.counts for counts in read_counts(path)).as_dict()
    missing = unmet(report, ",".join(options.name) or "all")
    if options.format == "json":
        say(*json_text({**report, "never_applied": missing}).splitlines())
    else:
        if report["artifacts"]:
            rows = [
                (
                    name if counts["shipped"] else f"{name} (not shipped)",
                    str(counts["looked_for"]),
                    str(counts["applied"]),
                    str(counts["looked_for"] - counts["applied"]),
                )
                for name, counts in report["artifacts"].items()
            ]
            say(*table_lines(("artifact", "looked for", "applied", "refused"), rows))
        say(headline(report, ()))
    for sentence in missing:
        complain(sentence)
    return 1 if missing else 0
