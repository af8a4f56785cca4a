"""``acf init`` and ``acf prune``: set up a project, and remove the artifacts that it no longer needs."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_compileiq.cli.locate import acf_dir, configures_pytest, find_project, open_store
from pytest_compileiq.errors import UserError
from pytest_compileiq.system.printing import say


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verbs to the ``acf`` command."""
    init = verbs.add_parser(
        "init",
        description="Looks for C, C++, CUDA and Triton sources, and writes a benchmark of one function; in an empty "
        "directory one of a kernel of its own. Runs no code of the project, and replaces no file.",
    )
    init.add_argument("--function", metavar="NAME", help="the function of the benchmark: NAME or FILE::NAME")
    init.add_argument(
        "--like", type=Path, metavar="BUILD", help="the compile_commands.json of the build, or its directory"
    )
    init.set_defaults(verb=_init)
    prune = verbs.add_parser(
        "prune",
        description="List artifacts without a test; remove the named ones, or all with --yes.",
    )
    prune.add_argument("names", nargs="*", metavar="NAME")
    prune.add_argument("--yes", action="store_true", help="remove all listed artifacts")
    prune.set_defaults(verb=_prune)


def _init(options: argparse.Namespace) -> int:
    from pytest_compileiq.cli.first_tests import look_and_write
    from pytest_compileiq.cli.starter import TEXTCONV, set_up

    here = Path.cwd()
    with_ini = not configures_pytest(here)
    lines = list(look_and_write(here, options.function, options.like))
    for file in set_up(here, acf_dir(here) or "acf", with_ini=with_ini):
        say(f"{file.path.relative_to(here)}: {file.what}")
    say(*lines, "", "Once in every clone, so that git diff shows artifacts as text:", f"  {TEXTCONV}")
    return 0


def _prune(options: argparse.Namespace) -> int:
    from pytest_compileiq.cli.orphans import collect_claims
    from pytest_compileiq.store.owners import orphans as orphans_of

    store = open_store(options)
    store.require(options.names)
    project = find_project(Path.cwd())
    claims = collect_claims(project)
    if claimed := [name for name in options.names if name in claims.tests]:
        raise UserError(f"{claimed[0]} is no orphan: {claims.tests[claimed[0]]} claims it")
    orphans = options.names or orphans_of(store, claims.tests, project, claims.untuned)
    for name in orphans:
        say(f"{name}: {', '.join(store.targets(name)) or 'no targets'}")
    if not orphans:
        say("no artifact is orphaned")
    elif not options.names and claims.left_out:
        missing = ", ".join(claims.left_out[:3])
        raise UserError(f"{missing} could not be collected, and may claim these: mend that, or name what is to go")
    elif options.names or options.yes:
        for name in orphans:
            store.remove(name)
        say(f"{len(orphans)} removed; git checkout brings them back")
    else:
        say("nothing removed: add --yes, or name what is to go")
    return 0
