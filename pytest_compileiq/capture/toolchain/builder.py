"""A captured kernel as a C library of one function, built as ``Cc`` does, and called as recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from pytest_compileiq.capture.bundle import KERNEL_FILE, LARGEST_KERNEL, Bundle, CapturedKernel
from pytest_compileiq.capture.toolchain.marker import Captured
from pytest_compileiq.capture.toolchain.replay import RecordedKernel
from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import BuildResult, ControlsFile, sha256_hex
from pytest_compileiq.system.files import Unfit, inside, read_regular
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc.builder import CcBuilder
from pytest_compileiq.toolchains.cc.builder import resolve as resolve_cc
from pytest_compileiq.toolchains.cc.marker import Cc


def resolve(captured: Captured, place: Place) -> CapturedBuilder:
    """See ``Captured.resolve``."""
    named = place.test_dir / captured.kernel / KERNEL_FILE
    try:
        path = inside(place.rootdir, str(named))
        read_regular(path, LARGEST_KERNEL)
    except Unfit as why:
        raise MarkerError(
            f"Captured({captured.kernel!r}): {named} {why}; make it with acf capture -- python PROGRAM …, or add it to "
            "git: a capture is left out of it"
        ) from why
    record = path.relative_to(place.rootdir.resolve()).as_posix()
    cc = resolve_cc(
        Cc(
            *captured.sources,
            flags=captured.flags,
            compiler=captured.compiler,
            like=captured.like,
            functions=_kernel(place.rootdir / record)[1].function,
            neighbours=captured.neighbours,
        ),
        place,
    )
    return CapturedBuilder(**{each.name: getattr(cc, each.name) for each in fields(cc)}, record=record)


@dataclass(frozen=True)
class CapturedBuilder(CcBuilder):
    """A ``CcBuilder`` whose ``record``, a file relative to rootdir, is a source, and a part of the benchmark."""

    record: str = field(kw_only=True)

    def sources(self) -> Mapping[str, str]:
        return {**super().sources(), **self._recorded}

    def sources_with(self, controls: ControlsFile) -> Mapping[str, str]:
        return {**super().sources_with(controls), **self._recorded}

    @property
    def data(self) -> Mapping[str, str]:
        return {self.record: _kernel(self.rootdir / self.record)[1].data_sha256}

    def load(self, built: BuildResult, used: set[str]) -> RecordedKernel:
        return self.load_beside(built, used, None)

    def load_beside(
        self, built: BuildResult, used: set[str], baseline: Callable[[], BuildResult] | None
    ) -> RecordedKernel:
        bundle, kernel = _kernel(self.rootdir / self.record)

        def function(of: BuildResult, taken: set[str]) -> Any:
            return CcBuilder.load(self, of, taken)[kernel.function]

        beside = (lambda: function(baseline(), set())) if baseline else None
        return RecordedKernel(bundle, kernel, function(built, used), beside)

    @property
    def _recorded(self) -> Mapping[str, str]:
        return {self.record: sha256_hex(read_regular(self.rootdir / self.record, LARGEST_KERNEL))}


def _kernel(record: Path) -> tuple[Bundle, CapturedKernel]:
    bundle = Bundle(record.parent.parent)
    return bundle, bundle.read(record.parent.name)
