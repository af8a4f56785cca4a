"""The kernels that a program launched by Triton's JIT: read from its account, ranked, held against an earlier capture.

Nothing here knows how long a kernel takes: launches are asynchronous, and what the host sees of one is the launching.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from pytest_compileiq.capture.bundle import DATA
from pytest_compileiq.capture.bundle_launches import SCHEMA, Launch, LaunchedKernel, Ptx, Specialisation, fault_in
from pytest_compileiq.capture.inside.triton_door import SCHEMA as ACCOUNT_SCHEMA
from pytest_compileiq.capture.program import NotWatched, contents, launches_file
from pytest_compileiq.store.ptx_anneal import LARGEST_PTX
from pytest_compileiq.system.files import Unfit, read_regular

_LARGEST_ACCOUNT = 64 << 20
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]|^[.-]")
_Count = Annotated[int, Meta(ge=0, le=1 << 62)]


class Compiled(Struct, frozen=True):
    """A compiled kernel that was launched; one without PTX cannot be recorded, and ``why`` says the reason."""

    file: str
    function: str
    module: str
    why: str | None
    ptx: Ptx | None
    others: _Count
    calls: tuple[Launch, ...]
    signature: dict[str, object] = {}
    constexprs: dict[str, object] = {}
    options: dict[str, object] = {}
    capability: int = 0
    ptx_options: str | None = None

    @property
    def launches(self) -> int:
        """How often it was launched."""
        return self.others + sum(each.calls for each in self.calls)


class Account(Struct, frozen=True):
    """What Triton's JIT launched.

    Attributes:
        timed: launches by which ``@triton.autotune`` chose a config; they are counted nowhere else.
        unseen: kernels that were loaded, and that something else than the JIT launches.
    """

    schema: int
    triton: str
    failure: str | None
    timed: _Count
    unseen: tuple[str, ...]
    compiled: tuple[Compiled, ...]

    @property
    def refused(self) -> list[Compiled]:
        """What cannot be recorded."""
        return [each for each in self.compiled if each.ptx is None]


NOTHING = Account(ACCOUNT_SCHEMA, "", None, 0, (), ())


def read_account(folder: Path) -> Account:
    """The account of a program that ``program.watch`` ran in ``folder``.

    Raises:
        NotWatched: it cannot be read.
    """
    path = launches_file(folder)
    if not path.exists():
        return NOTHING
    try:
        account = msgspec.json.decode(read_regular(path, _LARGEST_ACCOUNT), type=Account)
    except (Unfit, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotWatched(f"the account of the program's Triton kernels cannot be read: {error}") from error
    if account.schema != ACCOUNT_SCHEMA:
        raise NotWatched(
            f"the account of the program's Triton kernels has schema {account.schema}, and {ACCOUNT_SCHEMA} is read"
        )
    return msgspec.structs.replace(account, compiled=tuple(map(_sayable, account.compiled)))


def _sayable(compiled: Compiled) -> Compiled:
    """``compiled``; its PTX alone, where a capture could not hold what it is specialised for."""
    fault = None if compiled.ptx is None else fault_in(_specialisation([compiled]))
    if fault is None:
        return compiled
    return msgspec.structs.replace(
        compiled, signature={}, constexprs={}, options={}, why=f"cannot be written down: {fault}"
    )


def ranked(account: Account) -> list[LaunchedKernel]:
    """All kernels that can be recorded by their launches, the most first; so are each one's specialisations."""
    total = max(sum(each.launches for each in account.compiled), 1)
    kernels: defaultdict[tuple[str, str, str], list[Compiled]] = defaultdict(list)
    for each in account.compiled:
        if each.ptx is not None:
            kernels[each.function, each.file, each.module].append(each)
    found = [_kernel(*key, compiled, account.triton, total) for key, compiled in kernels.items()]
    return sorted(found, key=lambda kernel: (-kernel.launches, kernel.file, kernel.function))


def _kernel(
    function: str, file: str, module: str, compiled: Sequence[Compiled], triton: str, total: int
) -> LaunchedKernel:
    alike: defaultdict[bytes, list[Compiled]] = defaultdict(list)
    for each in compiled:
        one = _specialisation([each])
        alike[one.identity(one.ptx.sha256)].append(each)
    specialisations = sorted(map(_specialisation, alike.values()), key=lambda each: -each.launches)
    share = sum(each.launches for each in specialisations) / total
    return LaunchedKernel(SCHEMA, function, file, module, triton, share, tuple(specialisations))


def _specialisation(compiled: Sequence[Compiled]) -> Specialisation:
    """One of several that differ in nothing but what ptxas was given; the PTX is that of the first."""
    first = compiled[0]
    assert first.ptx is not None
    return Specialisation(
        first.signature, first.constexprs, first.options, first.capability, first.ptx_options, first.ptx,
        sum(each.others for each in compiled), tuple(_merged(compiled)), first.why,
    )  # fmt: skip


def _merged(compiled: Sequence[Compiled]) -> Iterator[Launch]:
    calls: defaultdict[tuple[tuple[int, ...], tuple[int | str, ...]], int] = defaultdict(int)
    for each in compiled:
        for launch in each.calls:
            calls[launch.grid, launch.arguments] += launch.calls
    yield from (Launch(grid, arguments, count) for (grid, arguments), count in calls.items())


def that_lead(kernels: Sequence[LaunchedKernel], top: int, share: float) -> list[LaunchedKernel]:
    """The first ``top``, or fewer if these already have ``share`` of the launches of all."""
    wanted = share * sum(kernel.launches for kernel in kernels)
    kept: list[LaunchedKernel] = []
    for kernel in kernels[:top]:
        if kept and sum(each.launches for each in kept) >= wanted:
            break
        kept.append(kernel)
    return kept


def named(kernels: Sequence[LaunchedKernel], taken: Collection[str]) -> dict[str, LaunchedKernel]:
    """Name in a capture → kernel: its function's name, with a digest of its file where that is ``taken``."""
    found: dict[str, LaunchedKernel] = {}
    for kernel in kernels:
        name = _UNSAFE.sub("_", kernel.function)[:100]
        if name in (*taken, *found, DATA):
            name = f"{name}-{hashlib.sha256(f'triton {kernel.file}'.encode()).hexdigest()[:8]}"
        found[name] = kernel
    return found


def text_of(folder: Path, ptx: Ptx) -> str:
    """The PTX of a program that ``program.watch`` ran in ``folder``.

    Raises:
        NotWatched: the program did not leave it.
    """
    try:
        return read_regular(contents(folder) / ptx.sha256, LARGEST_PTX).decode(errors="replace")
    except Unfit as why:
        raise NotWatched(f"the PTX {ptx.sha256} of the program {why}") from why


@dataclass(frozen=True)
class ComparedLaunches:
    """A captured kernel, and what the program launches of it now.

    Attributes:
        captured: its specialisations of then.
        launches: of now.
        gone: those of ``captured`` that it is no longer launched for.
        new: those of now that are none of ``captured``.
        changed: those of ``captured`` whose PTX is another now.
    """

    name: str
    captured: tuple[Specialisation, ...]
    launches: int
    gone: tuple[Specialisation, ...]
    new: tuple[Specialisation, ...]
    changed: tuple[Specialisation, ...]

    @property
    def is_as_captured(self) -> bool:
        """Whether nothing changed."""
        return bool(self.launches) and not (self.gone or self.new or self.changed)


def compared(
    kernels: Mapping[str, LaunchedKernel],
    texts: Mapping[str, str],
    account: Account,
    folder: Path,
    digest_of: Callable[[str], str],
) -> list[ComparedLaunches]:
    """Each captured kernel beside what was launched now.

    Args:
        texts: the SHA-256 of captured PTX → the text.
        folder: where the program ran that left ``account``.
        digest_of: what two PTX texts are compared by, leaving out what names their files.

    Raises:
        NotWatched: the program did not leave its PTX.
    """
    now = ranked(account)
    then = {sha256: digest_of(text) for sha256, text in texts.items()}
    here = {each.ptx.sha256: digest_of(text_of(folder, each.ptx)) for kernel in now for each in kernel.specialisations}
    return [_compared(name, kernel, _same(kernel, now), {**then, **here}) for name, kernel in kernels.items()]


def _compared(
    name: str, kernel: LaunchedKernel, now: Sequence[Specialisation], digests: Mapping[str, str]
) -> ComparedLaunches:
    then = {each.identity(digests[each.ptx.sha256]): each for each in kernel.specialisations}
    here = {each.identity(digests[each.ptx.sha256]): each for each in now}
    both = [(each, here[identity]) for identity, each in then.items() if identity in here]
    return ComparedLaunches(
        name=name,
        captured=kernel.specialisations,
        launches=sum(each.launches for each in now),
        gone=tuple(each for identity, each in then.items() if identity not in here),
        new=tuple(each for identity, each in here.items() if identity not in then),
        changed=tuple(each for each, other in both if digests[each.ptx.sha256] != digests[other.ptx.sha256]),
    )


def _same(kernel: LaunchedKernel, now: Sequence[LaunchedKernel]) -> tuple[Specialisation, ...]:
    """What is launched of its function: in the file at its path, else in one of that name, as of another checkout."""
    alike = [each for each in now if each.function == kernel.function]
    found = [each for each in alike if each.file == kernel.file] or [
        each for each in alike if Path(each.file).name == Path(kernel.file).name
    ]
    return tuple(specialisation for each in found for specialisation in each.specialisations)
