"""Compares the machine code in built files, or in a JIT's cache, with the digests that the artifacts recorded.

Every entry function that an artifact names is compared, in each of the artifact's architectures that the files hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, Literal

from pytest_compileiq.artifact import Artifact, CodePair, CodeTable
from pytest_compileiq.errors import UserError
from pytest_compileiq.machine_code.names import listed, readable
from pytest_compileiq.model import HOST, Target
from pytest_compileiq.ship.binaries import UNKNOWN, BuiltEntry, Contents, Linked, read_binaries
from pytest_compileiq.ship.usage import told_of
from pytest_compileiq.spelling import first_of, quantity
from pytest_compileiq.store.store import Store
from pytest_compileiq.toolchains.deployment import deploy

_APPLIED = "apply-controls"  # in ptxas's command where it got an ACF
_MOST_LISTED = 10  # functions listed in one sentence
_SHIPPED = {
    "tuned": "the proven code",
    "retired": "the baseline, as is right for a retired artifact,",
    "promoted": "the baseline, as is right until the promoted point is proven,",
}


class Match(IntEnum):
    """A verdict, which is the command's exit code."""

    RIGHT = 0
    DIFFERS = 1
    CANNOT_TELL = 2


@dataclass(frozen=True)
class Sentence:
    """One sentence of the answer, and its verdict."""

    verdict: Match
    message: str


def verify_files(store: Store, paths: Sequence[Path], names: Sequence[str]) -> list[Sentence]:
    """Compare cubins, fat binaries, host objects, and libraries and programs with device code, all together.

    Args:
        names: the artifacts that the files must hold; () compares with every artifact that names one of their entries.
    """
    artifacts = artifacts_of(store, names)
    recorded = [(one.code.keys() & set(one.functions), one.code.keys(), _sources(one)) for one in artifacts.values()]
    lines, _ = compare(read_binaries(paths, recorded), artifacts, ", ".join(map(str, paths)), bool(names))
    return lines


def verdict(lines: Sequence[Sentence]) -> Match:
    """The verdict of all lines: one difference decides, then one entry that could not be compared."""
    for worst in (Match.DIFFERS, Match.CANNOT_TELL):
        if any(line.verdict is worst for line in lines):
            return worst
    return Match.RIGHT


# ── comparing ────────────────────────────────────────────────────────────────────────────────────────────────────

Standing = Literal["proven", "baseline", "neither", "missing", "linked"]
_Key = tuple[str, str]  # name and target
Artifacts = Mapping[_Key, Artifact]
_Renamed = Mapping[str, Sequence[str]]  # symbol in the files → the entries of an artifact that stand for it


@dataclass(frozen=True)
class EntryFinding:
    """The standing of one entry function among the artifacts ``names`` that name it."""

    path: str
    entry: str
    architecture: str
    what: str
    digests: str = ""  # where they matter
    standing: Standing = "missing"
    names: frozenset[str] = frozenset()
    is_alike: bool = False  # proven code that the baseline has too: it does not show whether controls were applied

    @property
    def verdict(self) -> Match:
        return {"proven": Match.RIGHT, "linked": Match.CANNOT_TELL}.get(self.standing, Match.DIFFERS)


def artifacts_of(store: Store, names: Sequence[str]) -> Artifacts:
    """The artifacts of these names, of all without any."""
    store.require(names)
    return {
        (name, target): store.read(name, target)
        for name in sorted(names or store.names())
        for target in store.targets(name)
    }


def compare(
    contents: Contents, artifacts: Artifacts, shown: str, named: bool
) -> tuple[list[Sentence], list[EntryFinding]]:
    """Compare every entry function with the artifacts that name it: the answer in sentences, and what is behind it.

    Args:
        shown: what ``contents`` was read from, for a reader.
        named: whether every artifact has to be in it.
    """
    lines = [Sentence(Match.CANNOT_TELL, reason) for reason in contents.unreadable]
    findings: list[EntryFinding] = []
    met: set[_Key] = set()
    held = frozenset(kernel.entry for kernel in contents.kernels)
    renamed = {key: _renamed(artifact, held) for key, artifact in artifacts.items()}
    for kernel in contents.kernels:
        if kernel.architecture == UNKNOWN and any(kernel.entry in artifact.code for artifact in artifacts.values()):
            message = (
                f"{kernel.path}: {readable(kernel.entry)} is in a cubin that does not say which architecture it is for"
            )
            lines.append(Sentence(Match.CANNOT_TELL, message))
        entries = {key: _key_in(artifact, kernel, renamed[key]) for key, artifact in artifacts.items()}
        rivals = {key: (artifacts[key], entry) for key, entry in entries.items() if entry is not None}
        if rivals:
            met |= rivals.keys()
            findings.append(_compare_entry(kernel, rivals, len(contents.objects)))
        elif told := _beyond_the_proven(kernel, artifacts):
            lines.append(told)
    findings += _missing(contents, artifacts, renamed, met, shown)
    lines += _sentences(findings)
    for linked in contents.linked:
        concerned = {key: artifact for key, artifact in artifacts.items() if _functions_in(linked, artifact)}
        met |= concerned.keys()
        lines += _of_linked(linked, concerned)
    for name in sorted({name for name, _ in artifacts} - {name for name, _ in met}) if named else ():
        lines.append(Sentence(Match.CANNOT_TELL, f"{shown} holds no entry function of {name}"))
    if not lines:
        named_here = listed(held, _MOST_LISTED) or "no entry function"
        lines.append(Sentence(Match.CANNOT_TELL, f"{shown} holds {named_here}, which no artifact is for"))
    return lines, findings


def _beyond_the_proven(kernel: BuiltEntry, artifacts: Artifacts) -> Sentence | None:
    """What to say of a kernel for an architecture that its artifacts do not cover: it may have their controls.

    Controls reach every architecture of a command. ptxas notes an ACF and its own options, and no option of nvcc's.
    """
    for key, artifact in artifacts.items():
        entries = {entry.partition("@")[0] for entry in artifact.code}
        controls = artifact.controls if artifact.outcome == "tuned" and kernel.architecture != HOST else None
        if controls is None or kernel.entry not in entries:
            continue
        here = f"{kernel.path}: {readable(kernel.entry)} ({kernel.architecture})"
        proven = Target(artifact.target).architecture
        if controls.kind == "blob" and _APPLIED in kernel.command:
            said = f"{here} was compiled with an ACF, and {_label(key)} is proven for {proven} alone"
            return Sentence(Match.DIFFERS, f"{said}: compile other architectures by a command of their own")
        if controls.knobs and deploy(artifact).is_for_several:
            said = f"whether {here} has the controls of {_label(key)}, proven for {proven} alone, cannot be seen"
            return Sentence(Match.CANNOT_TELL, f"{said}: give a file of {proven} alone")
    return None


def _compare_entry(kernel: BuiltEntry, rivals: Mapping[_Key, tuple[Artifact, str]], objects: int) -> EntryFinding:
    """Compare one entry, from one of so many ``objects``, with its artifacts: it is right if any proved this code."""

    def finding(standing: Standing, what: str, digests: str = "", *, is_alike: bool = False) -> EntryFinding:
        names = frozenset(name for name, _ in rivals)
        path, entry, architecture = str(kernel.path), kernel.entry, kernel.architecture
        return EntryFinding(path, entry, architecture, what, digests, standing, names, is_alike)

    own_digests = {kernel.sha256, *kernel.others}
    baselines, expected = [], []
    for key, (artifact, entry) in rivals.items():
        pair = artifact.code[entry]
        proven = _proven(artifact, pair)
        if proven.sha256 in own_digests:
            arm = _SHIPPED.get(artifact.outcome, "the baseline, which was not beaten,")
            is_alike = artifact.outcome == "tuned" and pair.baseline.sha256 == proven.sha256
            return finding("proven", f"{arm} of {_label(key)}", is_alike=is_alike)
        expected.append((proven.sha256[:8], _label(key)))
        if pair.baseline.sha256 in own_digests:
            baselines.append(_label(key))
    if baselines:
        return finding("baseline", f"the baseline of {', '.join(baselines)}: its controls were not applied")
    wanted = ", ".join(f"{sha}…" for sha, _ in expected)
    labels = ", ".join(label for _, label in expected)
    added = dict.fromkeys(deploy(artifact).added_to(artifact.compiler) for artifact, _ in rivals.values())
    proven_with = ", ".join(filter(None, added)) if kernel.architecture == HOST else ""
    separate = [artifact for artifact, _ in rivals.values() if "-rdc=true" in artifact.compiler.command]
    if kernel.is_linked and separate:
        objects_of = ", ".join(sorted({source for artifact in separate for source in _sources(artifact)}))
        why = f"linked by nvlink, which fills in addresses: give the object file of {objects_of} for {labels}"
        return finding("linked", why)
    how = "; other code: -rdc" if kernel.is_separate else f", which is made with {proven_with}" if proven_with else ""
    sources = max(len(_sources(artifact)) for artifact, _ in rivals.values())
    if kernel.architecture == HOST and objects < sources:  # what serves a function may lie in another object
        how += f"; give the objects of its {sources} sources together, not {objects}"
    return finding("neither", f"neither proven arm of {labels}{how}", f"{kernel.sha256[:8]}…, not {wanted}")


def _sources(artifact: Artifact) -> list[str]:
    """The sources that its compiler's command names."""
    return [word for word in artifact.compiler.command if word in artifact.fingerprint.sources]


def _proven(artifact: Artifact, pair: CodePair) -> CodeTable:
    """The arm that ships."""
    return pair.tuned if artifact.outcome == "tuned" and pair.tuned else pair.baseline


def _label(key: _Key) -> str:
    return f"{key[0]} ({key[1]})"


def _missing(
    contents: Contents, artifacts: Artifacts, renamed: Mapping[_Key, _Renamed], met: set[_Key], shown: str
) -> Iterator[EntryFinding]:
    """The entries that the files lack, of artifacts that they hold in part."""
    held = {(kernel.entry, kernel.architecture) for kernel in contents.kernels}
    proven = {sha for kernel in contents.kernels for sha in (kernel.sha256, *kernel.others)}
    for key in sorted(met):
        artifact = artifacts[key]
        codes = {code.sha256 for pair in artifact.code.values() for code in (pair.baseline, pair.tuned) if code}
        if not codes & proven:
            continue  # the files hold entries of the same names from another artifact
        symbols = {entry: symbol for symbol, entries in renamed[key].items() for entry in entries}
        for entry in sorted(artifact.code):
            name, _, architecture = entry.partition("@")
            name = symbols.get(entry, name)
            wanted = (architecture,) if architecture else (*Target(artifact.target).architectures, HOST)
            if name != HOST and not any((name, place) in held for place in wanted):
                yield EntryFinding(shown, name, architecture or HOST, f"missing of those of {_label(key)}")


def _of_linked(linked: Linked, concerned: Artifacts) -> Iterator[Sentence]:
    """Which object files to give instead of linked host code, for each artifact that has functions in it."""
    why = f"{linked.path} is linked, which rewrites what the compiler made"
    for key, artifact in concerned.items():
        sources, count = ", ".join(_sources(artifact)), quantity(len(_functions_in(linked, artifact)), "function")
        yield Sentence(Match.CANNOT_TELL, f"{why}: give the object file of {sources} for the {count} of {_label(key)}")
    if not concerned:
        yield Sentence(Match.CANNOT_TELL, f"{why}, and holds no device code: give the object files")


def _functions_in(linked: Linked, artifact: Artifact) -> frozenset[str]:
    return linked.functions & artifact.code.keys() if _is_host_library(artifact) else frozenset()


def _key_in(artifact: Artifact, kernel: BuiltEntry, renamed: _Renamed) -> str | None:
    """The name of ``kernel`` in ``artifact``; None if the artifact does not cover it."""
    architecture = kernel.architecture
    covered = architecture in Target(artifact.target).architectures
    if not (_is_host_library(artifact) if architecture == HOST else covered):
        return None
    keys = [key for key in (kernel.entry, f"{kernel.entry}@{architecture}") if key in artifact.code]
    keys += [key for key in renamed.get(kernel.entry, ()) if key.partition("@")[2] in ("", architecture)]
    return keys[0] if keys else None


def _renamed(artifact: Artifact, held: frozenset[str]) -> _Renamed:
    """Symbol among ``held`` → the entries of ``artifact`` that its build calls so; the arm that ships comes first."""
    entries: dict[str, list[str]] = {}
    for entry, pair in artifact.code.items():
        for symbol in (_proven(artifact, pair).symbol, pair.baseline.symbol):
            if symbol is not None and symbol in held:
                entries.setdefault(symbol, []).append(entry)
                break
    return entries


def _is_host_library(artifact: Artifact) -> bool:
    """Whether the artifact records a digest for each host function; for a program it records one for all the code."""
    return deploy(artifact).records_functions and "-shared" in artifact.compiler.command


# ── sentences ────────────────────────────────────────────────────────────────────────────────────────────────────


def _sentences(findings: Sequence[EntryFinding]) -> Iterator[Sentence]:
    """One line for all functions with the same result; it lists several functions only if something is wrong."""
    groups: dict[tuple[Match, str], list[EntryFinding]] = {}
    differ = {name for finding in findings if finding.verdict is Match.DIFFERS for name in finding.names}
    for finding in findings:
        if finding.is_alike and finding.names & differ:
            continue
        groups.setdefault((finding.verdict, finding.what), []).append(finding)
    for (verdict, what), group in groups.items():
        paths = sorted({finding.path for finding in group})
        where = paths[0] if len(paths) == 1 else f"{len(paths)} files"
        architectures = sorted({finding.architecture for finding in group} - {HOST})
        on = f" ({', '.join(architectures)})" if architectures else ""
        if len(group) == 1:
            subject, details = f"{readable(group[0].entry)}{on} is", group[0].digests
        else:
            subject = f"{quantity(len(group), 'function')}{on} are"
            differing = [f"{readable(item.entry)}{f' ({item.digests})' if item.digests else ''}" for item in group]
            listed_once = first_of([*dict.fromkeys(differing)], _MOST_LISTED)  # an entry has each architecture's code
            details = "" if verdict is Match.RIGHT else ", ".join(listed_once)
        yield Sentence(verdict, f"{where}: {subject} {what}{f': {details}' if details else ''}")


def verify_triton_cache(
    store: Store, cache: Path, names: Sequence[str], counts: Mapping[str, Any] | None = None
) -> list[Sentence]:
    """Compare every cubin in Triton's cache directory with the artifacts of Triton and ptxas kernels.

    Args:
        names: the artifacts that it must hold; () compares with every artifact that names one of its entries.
        counts: of the processes that filled it; None joins nothing.
    """
    if not cache.is_dir():
        raise UserError(f"--triton-cache: there is no directory {cache}")
    paths = sorted(cache.rglob("*.cubin"))
    contents = read_binaries(paths) if paths else Contents(unreadable=(f"{cache} holds no cubin",))
    artifacts = {
        key: artifact for key, artifact in artifacts_of(store, names).items() if deploy(artifact).caches_cubins
    }
    lines, findings = compare(contents, artifacts, str(cache), bool(names))
    if contents.kernels:
        standings = Counter(finding.standing for finding in findings if finding.standing != "missing")
        parts = ", ".join(f"{standings[standing]} {standing}" for standing in ("proven", "baseline", "neither"))
        unknown = len(contents.kernels) - standings.total()
        told = f"{cache}: of {len(contents.kernels)} kernels {parts}, {unknown} of no artifact"
        lines.append(Sentence(verdict(lines), told))
    return lines if counts is None else [*lines, *_joined(artifacts, findings, counts)]


def _joined(artifacts: Artifacts, findings: Sequence[EntryFinding], counts: Mapping[str, Any]) -> Iterator[Sentence]:
    """For each artifact with controls what was counted of it, and whether the cache bears it out."""
    if counts["problem"]:
        yield Sentence(Match.CANNOT_TELL, counts["problem"])
    for name in sorted({name for (name, _), artifact in artifacts.items() if artifact.outcome == "tuned"}):
        cached = Counter(finding.standing for finding in findings if name in finding.names)
        told = told_of(name, counts)
        is_applied = bool(counts["artifacts"].get(name, {}).get("applied"))
        if is_applied and cached["proven"]:
            yield Sentence(Match.RIGHT, f"{name}: {told}, and the proven code is cached")
        elif is_applied and (cached["baseline"] or cached["neither"]):
            yield Sentence(Match.DIFFERS, f"{name}: {told}, and the compiled code is not the proven code")
        elif is_applied or cached["proven"]:
            why = ", and no kernel of it is cached" if is_applied else "; the proven code is cached all the same"
            yield Sentence(Match.CANNOT_TELL, f"{name}: {told}{why}: is it that process's cache?")
        else:
            yield Sentence(Match.DIFFERS, f"{name}: {told}, so it is not in use")
