"""The conformance suite for third-party toolchains: subclass it, and pytest runs its tests on yours.

::

    from pytest_compileiq.testing import ToolchainConformance

    class TestMyCompiler(ToolchainConformance):
        files = {"kernels/k.src": "…"}
        test_dir = "kernels"
        knobs = ({"-O": 2}, {"-fast": ""})

        def make(self):
            return MyCompiler("k.src")

Each test is one promise of ``pytest_compileiq.toolchains.base.Builder``, and says which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from pydantic import TypeAdapter

from pytest_compileiq.errors import BuildError, StoreError
from pytest_compileiq.model import BuildResult, Candidate, ControlsFile, Knobs, sha256_hex
from pytest_compileiq.table import Name
from pytest_compileiq.toolchains.base import Builder, Place, Toolchain


class ToolchainConformance:
    """What every toolchain promises, on one small kernel.

    Attributes:
        files: the project: path relative to its root → text.
        test_dir: the test file's directory in the project, to which toolchain paths are relative.
        knobs: sets of knobs that the compiler takes; at least one of them changes the machine code.
        broken: files written over ``files`` so that the baseline does not compile. By default every source is
            overwritten with text that no compiler takes.
        timeout_s: enough for one build.
    """

    files: ClassVar[Mapping[str, str]]
    test_dir: ClassVar[str] = "."
    knobs: ClassVar[Sequence[Knobs]]
    broken: ClassVar[Mapping[str, str] | None] = None
    timeout_s: ClassVar[float] = 120.0

    def make(self) -> Toolchain:
        """The toolchain under test, with the same arguments each time."""
        raise NotImplementedError(f"{type(self).__name__}.make(): give your toolchain")

    def place(self, root: Path) -> Place:
        """The project, written under ``root``."""
        _write(root, self.files)
        return Place((root / self.test_dir).resolve(), root.resolve())

    @pytest.fixture(scope="class")
    @classmethod
    def builder(cls, tmp_path_factory: pytest.TempPathFactory) -> Builder:
        """The toolchain, resolved on a copy of the project."""
        return cls().make().resolve(cls().place(tmp_path_factory.mktemp("project") / "checkout"))

    @pytest.fixture(scope="class")
    @classmethod
    def baseline(cls, builder: Builder, tmp_path_factory: pytest.TempPathFactory) -> BuildResult:
        """The baseline's build, which the tests share."""
        return builder.build(None, tmp_path_factory.mktemp("baseline"), timeout_s=cls.timeout_s)

    def controls(self, builder: Builder) -> list[ControlsFile]:
        """The controls of every set of knobs."""
        return [builder.render(Candidate(knobs)) for knobs in self.knobs]

    def test_equal_arguments_give_equal_toolchains(self) -> None:
        assert isinstance(self.make(), Toolchain)
        assert self.make() == self.make()

    def test_the_target_names_the_architecture_and_can_name_a_file(self, builder: Builder) -> None:
        TypeAdapter(Name).validate_python(builder.target)
        assert builder.target.startswith(f"{builder.architecture}-"), "expected ARCHITECTURE-COMPILERLINE"
        assert builder.clock, "the target is timed by a clock"
        assert builder.native is None or builder.native.strip(), "a reason in words, or None"

    def test_the_recorded_command_holds_no_place_of_a_checkout(self, builder: Builder, tmp_path: Path) -> None:
        other = self.make().resolve(self.place(tmp_path / "other place"))
        assert builder.compiler == other.compiler
        assert not [word for word in other.compiler.command if str(tmp_path) in word]

    def test_sources_are_files_under_rootdir_with_their_digests(self, builder: Builder, tmp_path: Path) -> None:
        place = self.place(tmp_path / "elsewhere")
        sources = self.make().resolve(place).sources()
        assert sources == builder.sources(), "sources differ between two checkouts"
        assert sources, "a kernel has a source"
        for name, digest in sources.items():
            assert not Path(name).is_absolute() and ".." not in Path(name).parts, f"{name}: relative to rootdir"
            assert digest == sha256_hex((place.rootdir / name).read_bytes()), f"{name}: not its SHA-256"

    def test_the_baseline_has_equal_machine_code_in_two_checkouts(self, baseline: BuildResult, tmp_path: Path) -> None:
        out_dir = tmp_path / "not" / "made yet"
        elsewhere = self.make().resolve(self.place(tmp_path / "elsewhere"))
        again = elsewhere.build(None, out_dir, timeout_s=self.timeout_s)
        assert again.digest == baseline.digest
        assert again.metrics == baseline.metrics
        assert again.path.is_file() and again.path.resolve().is_relative_to(out_dir.resolve())

    def test_a_build_says_what_it_made(self, baseline: BuildResult) -> None:
        assert baseline.code, "a kernel has an entry function"
        every = [baseline.metrics, *(code.metrics for code in baseline.code.values())]
        assert all(type(value) is int and value >= 0 for metrics in every for value in metrics.values())
        assert baseline.seconds > 0

    def test_controls_reach_the_compiler(self, builder: Builder, baseline: BuildResult, tmp_path: Path) -> None:
        built = [
            builder.build(controls, tmp_path / str(number), timeout_s=self.timeout_s)
            for number, controls in enumerate(self.controls(builder))
        ]
        assert all(build.code.keys() == baseline.code.keys() for build in built)
        assert any(build.digest != baseline.digest for build in built), "no set of knobs changes the machine code"

    def test_builds_together_make_the_machine_code_of_builds_by_themselves(
        self, builder: Builder, tmp_path: Path
    ) -> None:
        if type(builder).build_together is Builder.build_together:
            pytest.skip("this builder makes every build by itself")
        for number, controls in enumerate(self.controls(builder)):
            alone = builder.build(controls, tmp_path / f"{number}", timeout_s=self.timeout_s)
            for again in range(5):  # the first few may be made by themselves as well
                out_dir = tmp_path / f"{number}-together-{again}"
                built = builder.build_together(controls, out_dir, timeout_s=self.timeout_s)
                assert (built.code, built.metrics) == (alone.code, alone.metrics)

    def test_controls_are_read_back_as_they_were_written(self, builder: Builder) -> None:
        for knobs, controls in zip(self.knobs, self.controls(builder), strict=True):
            assert controls == builder.render(Candidate(dict(reversed(list(knobs.items()))))), (
                "the order of knobs counts"
            )
            assert dict(controls.knobs) == dict(knobs)
            assert builder.parse(controls.kind, controls.data, controls.knobs) == controls

    @pytest.mark.parametrize("foreign", [b"\n", b"-o /tmp/elsewhere\n", b"\xff\xfe\x00"])
    def test_foreign_bytes_are_refused(self, builder: Builder, foreign: bytes) -> None:
        for controls in self.controls(builder):
            for data in (controls.data + foreign, foreign + controls.data, foreign):
                with pytest.raises(StoreError):
                    builder.parse("options", data, controls.knobs)

    def test_an_opaque_file_is_taken_where_the_compiler_applies_one_and_refused_elsewhere(
        self, builder: Builder
    ) -> None:
        blob = ControlsFile("blob", b"controls", {})
        if builder.acf_line is None:
            with pytest.raises(StoreError):
                builder.parse("blob", blob.data, {})
        else:
            assert builder.parse("blob", blob.data, {}) == blob == builder.render(Candidate({}, blob.data))
            assert any("k.acf" in word for word in builder.options(blob, Path("k.acf"))), "nothing applies the file"

    def test_options_apply_the_controls_for_others(self, builder: Builder) -> None:
        for controls in self.controls(builder):
            fragment = builder.options(controls, Path("k.acf"))
            assert isinstance(fragment, tuple) and all(isinstance(word, str) and word for word in fragment)
            told = any(name.startswith("-") for name in controls.knobs)
            assert not told or fragment, f"{dict(controls.knobs)}: no option applies them"

    def test_its_own_spaces_hold_what_it_can_render(self, builder: Builder) -> None:
        rng = np.random.default_rng(3)
        for space in (builder.default_space(), builder.option_space()):
            for _ in range(20 if space is not None and space.genes else 0):
                assert space is not None
                controls = builder.render(Candidate(space.knobs(space.sample(rng))))
                assert builder.parse(controls.kind, controls.data, controls.knobs) == controls

    def test_a_broken_source_is_a_compile_error_in_one_line(self, tmp_path: Path) -> None:
        place = self.place(tmp_path / "broken")
        toolchain = self.make().resolve(place)
        _write(place.rootdir, self.broken or dict.fromkeys(toolchain.sources(), "} no compiler takes this {\n"))
        with pytest.raises(BuildError) as refused:
            self.make().resolve(place).build(None, tmp_path / "out", timeout_s=self.timeout_s)
        assert refused.value.kind == "compile"
        assert len(str(refused.value).splitlines()) == 1, "expected one sentence; the rest belongs into the log"

    def test_a_build_that_takes_too_long_is_a_timeout(self, builder: Builder, tmp_path: Path) -> None:
        with pytest.raises(BuildError) as late:
            builder.build(None, tmp_path / "out", timeout_s=1e-6)
        assert late.value.kind == "timeout"


def _write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
