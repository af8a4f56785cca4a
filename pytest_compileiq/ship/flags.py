"""The options that apply an artifact's controls in a build, or why the build may not have them.

Nothing is compiled, so staleness is decided by reading: the sources are compared with the fingerprint, and the compiler
is asked for its version and for the files that it reads. The machine code is checked by pytest and ``acf
verify-binary``.
"""

from __future__ import annotations

import itertools
import re
import shlex
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_compileiq.artifact import Artifact, Controls
from pytest_compileiq.config import NamedOptions
from pytest_compileiq.errors import BuildError, EnvironmentFault, StoreError, UserError
from pytest_compileiq.machine_code.names import listed
from pytest_compileiq.model import Target
from pytest_compileiq.rules.claims import recorded_neighbours
from pytest_compileiq.rules.fingerprint import changed_environment
from pytest_compileiq.spelling import MOST_NAMED, first_of, for_shell, quantity
from pytest_compileiq.store.status import why_stale, why_unproven
from pytest_compileiq.store.store import Store
from pytest_compileiq.system.files import Unfit, inside
from pytest_compileiq.system.printing import harmless
from pytest_compileiq.system.project_settings import FILES
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc.compiler import CcCompiler, find_compiler
from pytest_compileiq.toolchains.deployment import deploy
from pytest_compileiq.toolchains.environment import deciding, kept_out
from pytest_compileiq.toolchains.inputs import located
from pytest_compileiq.toolchains.macros import macros_of
from pytest_compileiq.toolchains.nvidia.tools import CudaTool, identify
from pytest_compileiq.toolchains.option_classes import check_classes, check_committed, option_list
from pytest_compileiq.toolchains.options import options_of
from pytest_compileiq.toolchains.steps import ask

_PLAIN_PATH = re.compile(r"[\w@+=./~-]+")  # which make, ninja, a shell and nvcc neither split nor change
_DIRECTORY = re.compile(r"-(I|iquote|isystem|idirafter)=?(.+)", re.DOTALL)
_MOST_TRIED = 100  # recorded paths: any one that exists tells the root
_BY_NVIDIA = re.compile(r"^(nvcc|ptxas): NVIDIA", re.MULTILINE)


@dataclass(frozen=True)
class Fragment:
    """The addition to a compile command."""

    words: tuple[str, ...]  # options that apply the controls
    refusal: str | None  # None if they may be applied
    notes: tuple[str, ...]  # what was checked and what was not
    reads: tuple[Path, ...]  # what the answer depends on


_Compiler = CcCompiler | CudaTool  # the one that will take the controls


def fragment(
    store: Store,
    name: str,
    *,
    compiler: str,
    target: str | None,
    named: NamedOptions,
    architectures: Sequence[str] = (),
) -> Fragment:
    """The options that make a command of ``compiler`` apply the controls of ``name``.

    Args:
        compiler: a program on ``PATH``, or a path.
        target: the artifact's target, where there are several; None for the one of this compiler's line.
        named: the options that the project's settings allow in controls files.
        architectures: all that the command compiles for, as artifacts spell them; () leaves them unchecked.

    Raises:
        UserError: there is no such artifact, several fit, or no option of a command applies its controls.
        EnvironmentFault: the compiler is missing or unknown, or the store's path cannot be printed for a build
            or would be split by nvcc.
        StoreError: the metadata or the controls are invalid.
    """
    here = _identify(compiler)
    artifact = store.read(name, _pick(name, store.find(name, target), here.line, architectures))
    root = rootdir_of(store, artifact)
    reads = _reads(store, name, artifact, root)
    if not artifact.compiler.compiles:
        raise UserError(
            f"{name} is given to no compiler: its program reads it, from acf export --runtime DIR or from "
            f"acf show {name} --format json"
        )
    if deploy(artifact).at_launch:
        raise UserError(f"{name} is compiled by Triton, which takes its controls at launch: acf export --runtime DIR")
    if artifact.outcome == "baseline":
        note = f"{name} ({artifact.target}): nothing to apply, the defaults were not beaten"
        return Fragment((), None, (note,), reads)
    refusal = (
        why_unproven(name, artifact)
        or _why_not_here(name, artifact, here, architectures)
        or why_stale(name, artifact, root)
        or why_compiled_otherwise(name, artifact)
        or why_read_otherwise(name, artifact, here.program, root)
    )
    if refusal or artifact.controls is None:
        return Fragment((), refusal, (), reads)
    path = str(reads[1])
    if deploy(artifact).hands_on:
        plain(path, blanks=artifact.controls.kind == "options")
    if harmless(path) != path:
        raise EnvironmentFault(f"{path!r} has a character that cannot be printed for a build: move it elsewhere")
    held_controls(store, name, artifact, named)
    return Fragment(words_of(name, artifact, path), None, _notes(name, artifact, here, architectures), reads)


def why_compiled_otherwise(name: str, artifact: Artifact) -> str | None:
    """Which variables of the environment, set or unset here, make the compiler another than the one proven with."""
    recorded, known = artifact.fingerprint.environment, deciding(artifact.compiler.name)
    # An artifact is untrusted, and may name a variable to have its value shown.
    others = {
        name: value if value == recorded[name] else "another value"
        for name, value in deciding(artifact.compiler.name, recorded).items()
        if name in recorded and name not in known
    }
    changed = changed_environment(recorded, known | others)
    if not changed:
        return None
    return (
        f"{name} ({artifact.target}) is stale: {changed}, which the compiler reads: set it as it was, or prove the "
        f"controls under it: pytest --tune --tune-budget=0 {for_shell(artifact.benchmark)}"
    )


def why_read_otherwise(name: str, artifact: Artifact, program: str, root: Path) -> str | None:
    """Which files of the project the compiler reads here and did not when the controls were proven; None if none.

    A header that was added may lie before the recorded one. What the compiler refuses to read, the build says.
    """
    ask_again = deploy(artifact).read_again
    if ask_again is None or artifact.controls is None:
        return None
    options = options_of(artifact.controls.knobs) if artifact.controls.kind == "options" else ()
    try:
        read = ask_again(tuple(map(located, artifact.compiler.command)), program, options, root)
    except (BuildError, EnvironmentFault):
        return None
    if not (added := sorted(read - artifact.fingerprint.sources.keys())):
        return None
    return (
        f"{name} ({artifact.target}) is stale: {', '.join(first_of(added))}, which the compiler reads now and did not "
        f"when it was proven; if pytest {for_shell(artifact.benchmark)} finds the machine code the same, "
        "--tune --tune-budget=0 refreshes it, else --tune finds another"
    )


def held_controls(store: Store, name: str, artifact: Artifact, named: NamedOptions) -> bytes:
    """The committed controls, checked as pytest checks them, as far as that is possible without the test.

    Where the compiler's options are not known, only the digest is checked.

    Raises:
        StoreError: they differ from the metadata or the recorded knobs, or hold an option that may not be committed.
    """
    data, controls, compiler = store.read_controls(name, artifact), _controls(artifact), artifact.compiler
    try:
        if not compiler.compiles or option_list(compiler.name, compiler.command) is not None:
            check_committed(compiler.name, controls.kind, data, controls.knobs, named)
        check_classes(artifact)
    except StoreError as error:
        raise StoreError(f"{name} ({artifact.target}): {error}") from error
    return data


def words_of(name: str, artifact: Artifact, path: str, *, by_file: bool = True) -> tuple[str, ...]:
    """The options of ``artifact``'s compiler that apply its controls, a file at ``path`` that was checked before.

    With ``by_file`` it reads public options from that file where it can, as no JIT does.
    """
    controls, compiler = _controls(artifact), artifact.compiler
    if option_list(compiler.name, compiler.command) is None:
        raise UserError(
            f"{name} is made by {compiler.name}: its knobs are in acf show {name}, for its own command line"
        )
    return deploy(artifact).words(compiler.command, controls.kind, controls.knobs, path, by_file=by_file)


def depfile(target: str, reads: Sequence[Path]) -> str:
    """A rule by which make and ninja rebuild ``target`` when one of ``reads`` changes or disappears."""
    names = [_escaped(str(path)) for path in reads]
    # A file that is gone (another ACF has another name) means out of date, not "no rule to make it".
    return f"{_escaped(target)}: {' '.join(names)}\n" + "".join(f"{name}:\n" for name in names)


def rootdir_of(store: Store, artifact: Artifact) -> Path:
    """The directory that recorded paths are relative to: the nearest above the store that holds one of them.

    The search ends at the repository's root, or without a repository at the first directory with a settings file.
    """
    above = store.root.absolute().parents
    repository = next((root for root in above if (root / ".git").exists()), None)
    configured = (root for root in above if any((root / name).is_file() for name in FILES))
    last = repository or next(configured, above[0])
    recorded = (artifact.benchmark.partition("::")[0], *itertools.islice(artifact.fingerprint.sources, _MOST_TRIED))
    for root in above[: above.index(last) + 1]:
        for path in recorded:
            with suppress(Unfit, OSError):
                if inside(root, path).is_file():
                    return root
    return store.root.parent


_BY_A_LINK = "link its project to a path without one (ln -s DIR LINK) and name that, as in acf --acf-dir LINK/acf"


def plain(path: str, remedy: str = _BY_A_LINK, *, blanks: bool = False) -> str:
    """``path``; raises ``EnvironmentFault`` if a tool on its way to the compiler would split or change it.

    It may have ``blanks`` where it will be ``quoted``.
    """
    if not _PLAIN_PATH.fullmatch(path.replace(" ", "") if blanks else path):
        raise EnvironmentFault(f"{path!r} has a character that make, a shell or nvcc would split at: {remedy}")
    return path


def quoted(word: str) -> str:
    """``word`` for a shell and for an options file, where nvcc knows double quotes alone."""
    return f'"{word}"' if " " in word and _PLAIN_PATH.fullmatch(word.replace(" ", "")) else shlex.quote(word)


def _escaped(path: str) -> str:
    """``path`` in a rule, as gcc writes it for make and ninja."""
    plain(re.sub(r"[ #$]", "", path))
    return re.sub(r"([ #])", r"\\\1", path).replace("$", "$$")


def _identify(compiler: str) -> _Compiler:
    program = shutil.which(compiler)
    if program is None:
        raise EnvironmentFault(f"no compiler {compiler!r}: --compiler takes a program on PATH, or a path")
    program = str(Path(program).absolute())
    if by_nvidia := _BY_NVIDIA.search(ask([program, "--version"]).output):
        return identify(by_nvidia[1], program, "named by --compiler")
    return find_compiler(program, Place(Path.cwd(), Path.cwd()))


def _pick(name: str, targets: Sequence[str], line: str, architectures: Sequence[str]) -> str:
    if len(targets) == 1:
        return targets[0]
    fitting = [target for target in targets if Target(target).line == line]
    if not fitting:
        return targets[-1]  # the refusal will name its line
    if architectures:
        asked = set(architectures)
        fitting = [target for target in fitting if asked & set(Target(target).architectures)] or fitting
    elif len(fitting) > 1:
        raise UserError(f"{name} has {', '.join(fitting)}: choose one with --target, or say --arch")
    return fitting[0]


def _why_not_here(name: str, artifact: Artifact, here: _Compiler, asked: Sequence[str]) -> str | None:
    """Why this compiler, or a command for these architectures, may not have the controls."""
    line, proven = Target(artifact.target).line, Target(artifact.target).architectures
    if line != here.line:
        return (
            f"{name} is for {line} and {here.program} is {here.line} ({here.version}): compile with {line}, or tune "
            f"with compiler={here.program!r} in its marker: pytest --tune {for_shell(artifact.benchmark)}"
        )
    if foreign := [architecture for architecture in asked if architecture not in proven]:
        mine, theirs = ", ".join(proven), ", ".join(foreign)
        if len(foreign) == len(asked):
            rest = f"and the command compiles for {theirs}: leave it out there, or tune for it"
            return f"{name} was proven for {mine} {rest}"
        rest = f"controls reach every architecture of a command, {theirs} too: compile that by a command of its own"
        return f"{name} was proven for {mine}, and {rest}"
    return None


def _reads(store: Store, name: str, artifact: Artifact, root: Path) -> tuple[Path, ...]:
    metadata = store.metadata_path(name, artifact.target)
    controls = (metadata.with_name(artifact.controls.file),) if artifact.controls else ()
    command, recorded = artifact.compiler.command, artifact.fingerprint.sources
    # The project's directories of headers: one that is added there may lie before a recorded one. A directory with a
    # source is none, since a build may write its objects there, and would make itself out of date.
    busy = {(root / word).resolve().parent for word in command if word in recorded}
    named = dict.fromkeys(root / match[2] for word in command if (match := _DIRECTORY.fullmatch(word)))
    searched = (
        path
        for path in named
        if path.resolve().is_relative_to(root.resolve()) and path.is_dir() and path.resolve() not in busy
    )
    return (metadata, *controls, *(root / path for path in sorted(recorded)), *searched)


def _notes(name: str, artifact: Artifact, here: _Compiler, architectures: Sequence[str]) -> tuple[str, ...]:
    count = len(artifact.fingerprint.sources)
    sources = f"{quantity(count, 'source')} {'has' if count == 1 else 'have'}"
    notes = [
        f"{name} ({artifact.target}) applies: {sources} the content that was proven; nothing was compiled "
        "to compare machine code, which pytest and acf verify-binary do"
    ]
    proven = artifact.compiler
    if _without_name(proven.build) != _without_name(here.build):
        notes.append(f"{name} was proven with {proven.version} ({proven.build}), this is {here.version} ({here.build})")
    if added := deploy(artifact).added_to(proven):
        notes.append(f"{name} was proven with {added}: a command without makes other machine code")
    notes += set_and_kept_out(name, artifact)
    if deploy(artifact).is_for_several and not architectures:
        notes.append(f"{name}: --arch was not given, so that the command compiles for nothing else was not checked")
    if beyond := listed(recorded_neighbours(artifact), MOST_NAMED):
        notes.append(f"{name} also changes: {beyond}, not exercised by its test")
    knobs = _controls(artifact).knobs
    params, macros = {knob: value for knob, value in knobs.items() if not knob.startswith("-")}, macros_of(knobs)
    given, defined = (", ".join(f"{knob} = {value}" for knob, value in each.items()) for each in (params, macros))
    if given:
        notes.append(f"{name} was proven with {given}, which no compiler option gives: the caller must")
    if defined:
        notes.append(f"{name} is compiled with {defined}: its caller launches and calls it accordingly")
    return tuple(notes)


def set_and_kept_out(name: str, artifact: Artifact) -> list[str]:
    """Which variables are set here that the compiler of a product reads, and no build of a proof saw."""
    compiler = artifact.compiler.name
    ignored = ", ".join(kept_out(compiler))
    return [f"{name} was proven without {ignored}, set here, which {compiler} reads: unset it"] if ignored else []


def _without_name(build: str) -> str:
    """``build`` without its first word: gcc begins with the name that it was called by, ``gcc`` or ``cc``."""
    return build.partition(" ")[2] or build


def _controls(artifact: Artifact) -> Controls:
    if artifact.controls is None:
        raise UserError(f"the artifact of {artifact.benchmark} has no controls to apply")
    return artifact.controls
