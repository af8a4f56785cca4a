"""Triton kernels that a program launched: read from its account, ranked, stored, compared with an earlier capture.

::

    acf-capture/
      softmax/launches.json   the kernel, what it was specialised for, and how often it was launched so
      data/3f/3f9c….z         PTX, by the SHA-256 of the text, deflated

Launches are asynchronous, so nothing here knows how long a kernel takes. All that is read is untrusted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from pytest_compileiq.capture.bundle import AGAIN, Bundle, Content, Count, StoredKernel, free_name, read_kernel
from pytest_compileiq.capture.inside.triton_hook import SCHEMA as ACCOUNT_SCHEMA
from pytest_compileiq.capture.inside.values import at_path
from pytest_compileiq.capture.program import NotWatched, contents, launches_file
from pytest_compileiq.capture.ranking import Compared
from pytest_compileiq.errors import StoreError
from pytest_compileiq.store.packs import LARGEST_PTX
from pytest_compileiq.system.files import Unfit, read_regular

SCHEMA = 1
LAUNCHES_FILE = "launches.json"
_LARGEST_KERNEL = 16 << 20
_LARGEST_ACCOUNT = 64 << 20
_DEEPEST = 8  # of a tuple in a tuple
_LONGEST = 1 << 12  # of a text
_Text = Annotated[str, Meta(max_length=_LONGEST)]
_Named = Annotated[dict[_Text, Any], Meta(max_length=1 << 10)]


class Ptx(Struct, frozen=True):
    """A PTX text by its digest; ``size`` in bytes."""

    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    size: Annotated[int, Meta(ge=0, le=LARGEST_PTX)]


class Launch(Struct, frozen=True):
    """Launches of one grid on arguments of one shape: of integers the values, of tensors type and extents."""

    grid: Annotated[tuple[int, ...], Meta(max_length=3)]
    arguments: Annotated[tuple[int | _Text, ...], Meta(max_length=1 << 10)]
    calls: Annotated[int, Meta(ge=1, le=1 << 62)]


class Specialisation(Struct, frozen=True):
    """What a kernel was compiled for, as ``Triton(…)`` takes it, and its launches; ``others`` are in no ``Launch``."""

    signature: _Named  # argument → type with ``:16`` or ``:1``, None, or a list of these
    constexprs: _Named  # argument → value; a tuple is a list, a dtype ``"tl.float16"``
    options: _Named  # the launch options that are not Triton's defaults, and the warps and stages
    capability: Annotated[int, Meta(ge=10, le=999)]  # of the architecture, such as 90
    ptx_options: _Text | None  # what ptxas was given besides: put back controls, which are no part of what a kernel is
    ptx: Ptx
    others: Count
    calls: Annotated[tuple[Launch, ...], Meta(max_length=1 << 12)]
    # why no ``Triton(…)`` can say it, so that it is its PTX alone; words that continue after ``it``
    why: _Text | None = None

    @property
    def launches(self) -> int:
        return self.others + sum(each.calls for each in self.calls)

    @property
    def calls_by_frequency(self) -> list[Launch]:
        return sorted(self.calls, key=lambda launch: -launch.calls)

    @property
    def architecture(self) -> str:
        """As Triton names its target: from capability 90 on the ``a`` variant."""
        return f"sm_{self.capability}{'a' if self.capability >= 90 else ''}"

    def identity(self, ptx_digest: str) -> bytes:
        """A key among the specialisations of a kernel; of its PTX, by a digest, where that is all there is."""
        parts = [self.signature, self.constexprs, self.options, self.capability, ptx_digest if self.why else None]
        return msgspec.json.encode(parts, order="sorted")


class LaunchedKernel(StoredKernel, frozen=True):
    """A ``@triton.jit`` function as a program launched it; ``share`` is of all launches."""

    function: Annotated[str, Meta(min_length=1, max_length=_LONGEST)]
    file: _Text  # the absolute path of the file that defines it
    module: _Text  # the name that the program had for that
    triton: _Text  # the version that compiled it
    share: float
    specialisations: tuple[Specialisation, ...]

    @property
    def launches(self) -> int:
        return sum(each.launches for each in self.specialisations)


def write_launched(bundle: Bundle, kernels: Mapping[str, LaunchedKernel], texts: Path) -> None:
    """Write ``kernels`` by their names into ``bundle``, which may exist; their PTX is in files of ``texts``."""
    if kernels:
        bundle.create()
    for name, kernel in kernels.items():
        for each in kernel.specialisations:
            try:
                bundle.add_content(each.ptx.sha256, texts, LARGEST_PTX)
            except Unfit as why:
                raise StoreError(f"the PTX {each.ptx.sha256} of the program {why}: run it again") from why
        bundle.add_kernel(bundle.root / name / LAUNCHES_FILE, kernel)


def launched_names(bundle: Bundle) -> list[str]:
    """List the Triton kernels of a capture; none where there is no capture."""
    return sorted(path.parent.name for path in bundle.root.glob(f"*/{LAUNCHES_FILE}"))


def read_launched(bundle: Bundle, name: str) -> LaunchedKernel:
    """Read a kernel."""
    path = bundle.root / name / LAUNCHES_FILE
    kernel = read_kernel(path, LaunchedKernel, _LARGEST_KERNEL, SCHEMA)
    if fault := next((fault for each in kernel.specialisations if (fault := _fault_in(each))), None):
        raise StoreError(f"{path} is no captured kernel: {fault}; {AGAIN}")
    return kernel


def ptx_of(bundle: Bundle, ptx: Ptx) -> str:
    """Read a PTX text."""
    text = bundle.content(Content(kind="integers", sha256=ptx.sha256, sample=None), ptx.size)
    return text.decode(errors="replace")


def _fault_in(each: Specialisation) -> str | None:
    """What no marker could say of a specialisation that has the right types, or None."""
    for what in (each.signature, each.constexprs, each.options):
        for name, value in what.items():
            if not name.isidentifier():
                return f"{name!r:.100} is no name"
            if not _is_plain(value, _DEEPEST):
                return f"{name} is {value!r:.100}"
    return None


def _is_plain(value: Any, deepest: int) -> bool:
    if isinstance(value, list):
        return deepest > 0 and len(value) <= _LONGEST and all(_is_plain(inner, deepest - 1) for inner in value)
    return isinstance(value, bool | int | float | None) or (isinstance(value, str) and len(value) <= _LONGEST)


class Compiled(Struct, frozen=True):
    """A compiled kernel that was launched; one without PTX cannot be recorded, and ``why`` says the reason."""

    file: str
    function: str
    module: str
    why: str | None
    ptx: Ptx | None
    others: Count
    calls: tuple[Launch, ...]
    signature: dict[str, object] = {}
    constexprs: dict[str, object] = {}
    options: dict[str, object] = {}
    capability: int = 0
    ptx_options: str | None = None

    @property
    def launches(self) -> int:
        return self.others + sum(each.calls for each in self.calls)


class LaunchAccount(Struct, frozen=True):
    """What Triton's JIT launched."""

    schema: int
    triton: str
    failure: str | None
    timed: Count  # launches by which ``@triton.autotune`` chose a config; they are counted nowhere else
    unseen: tuple[str, ...]  # kernels that were loaded, and that something else than the JIT launches
    compiled: tuple[Compiled, ...]


NOTHING = LaunchAccount(ACCOUNT_SCHEMA, "", None, 0, (), ())


def read_account(folder: Path) -> LaunchAccount:
    """Read the account of a program that ``program.watch`` ran in ``folder``."""
    path = launches_file(folder)
    if not path.exists():
        return NOTHING
    try:
        account = msgspec.json.decode(read_regular(path, _LARGEST_ACCOUNT), type=LaunchAccount)
    except (Unfit, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotWatched(f"the account of the program's Triton kernels cannot be read: {error}") from error
    if account.schema != ACCOUNT_SCHEMA:
        raise NotWatched(
            f"the account of the program's Triton kernels has schema {account.schema}, and {ACCOUNT_SCHEMA} is read"
        )
    compiled = list(account.compiled)
    for at, each in enumerate(account.compiled):
        if each.ptx and (fault := _fault_in(_specialisation([each]))):  # a capture holds its PTX alone
            why = f"cannot be written down: {fault}"
            compiled[at] = msgspec.structs.replace(each, signature={}, constexprs={}, options={}, why=why)
    return msgspec.structs.replace(account, compiled=tuple(compiled))


def ranked(account: LaunchAccount) -> list[LaunchedKernel]:
    """Rank all kernels that can be recorded, and the specialisations of each, by their launches, the most first."""
    total = max(sum(each.launches for each in account.compiled), 1)
    kernels: defaultdict[tuple[str, str, str], defaultdict[bytes, list[Compiled]]]
    kernels = defaultdict(lambda: defaultdict(list))
    for each in account.compiled:
        if each.ptx is not None:
            identity = _specialisation([each]).identity(each.ptx.sha256)
            kernels[each.function, each.file, each.module][identity].append(each)
    found = []
    for key, alike in kernels.items():
        specialisations = sorted(map(_specialisation, alike.values()), key=lambda each: -each.launches)
        share = sum(each.launches for each in specialisations) / total
        found.append(LaunchedKernel(SCHEMA, *key, account.triton, share, tuple(specialisations)))
    return sorted(found, key=lambda kernel: (-kernel.launches, kernel.file, kernel.function))


def _specialisation(compiled: Sequence[Compiled]) -> Specialisation:
    """One of several that differ in nothing but what ptxas was given; the PTX is that of the first."""
    first = compiled[0]
    assert first.ptx is not None
    calls: defaultdict[tuple[tuple[int, ...], tuple[int | str, ...]], int] = defaultdict(int)
    for launch in (launch for each in compiled for launch in each.calls):
        calls[launch.grid, launch.arguments] += launch.calls
    return Specialisation(
        first.signature, first.constexprs, first.options, first.capability, first.ptx_options, first.ptx,
        sum(each.others for each in compiled), tuple(Launch(*key, count) for key, count in calls.items()), first.why,
    )  # fmt: skip


def named(kernels: Sequence[LaunchedKernel], taken: Collection[str]) -> dict[str, LaunchedKernel]:
    """Name kernels for a capture after their functions, with a digest of the file where that is ``taken``."""
    found: dict[str, LaunchedKernel] = {}
    for kernel in kernels:
        found[free_name(kernel.function, (*taken, *found), f"triton {kernel.file}")] = kernel
    return found


def compared(
    kernels: Mapping[str, LaunchedKernel],
    texts: Mapping[str, str],
    account: LaunchAccount,
    folder: Path,
    digest_of: Callable[[str], str],
) -> list[Compared[Specialisation]]:
    """Compare each captured kernel with what was launched now.

    Args:
        texts: the SHA-256 of captured PTX → the text.
        folder: where the program ran that left ``account``.
        digest_of: what two PTX texts are compared by, leaving out what names their files.
    """
    now = ranked(account)
    digests = {sha256: digest_of(text) for sha256, text in texts.items()}
    for sha256 in {each.ptx.sha256 for kernel in now for each in kernel.specialisations}:
        try:
            text = read_regular(contents(folder) / sha256, LARGEST_PTX).decode(errors="replace")
        except Unfit as why:
            raise NotWatched(f"the PTX {sha256} of the program {why}") from why
        digests[sha256] = digest_of(text)

    def compare(name: str, kernel: LaunchedKernel) -> Compared[Specialisation]:
        alike = [each for each in now if each.function == kernel.function]
        found = [one for each in at_path(alike, kernel.file, lambda each: each.file) for one in each.specialisations]
        then = {each.identity(digests[each.ptx.sha256]): each for each in kernel.specialisations}
        here = {each.identity(digests[each.ptx.sha256]): each for each in found}
        both = [(each, here[identity]) for identity, each in then.items() if identity in here]
        return Compared(
            name=name,
            captured=[(each, each.launches) for each in kernel.specialisations],
            calls=sum(each.launches for each in found),
            gone=[(each, each.launches) for identity, each in then.items() if identity not in here],
            new=[(each, each.launches) for identity, each in here.items() if identity not in then],
            changed=[each for each, other in both if digests[each.ptx.sha256] != digests[other.ptx.sha256]],
        )

    return [compare(name, kernel) for name, kernel in kernels.items()]
