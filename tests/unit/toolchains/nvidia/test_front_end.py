"""What nvcc lists, taken apart before ptxas; which builds are made from there on, and what is done where that fails."""

from __future__ import annotations

import pickle
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_compileiq.errors import BuildError
from pytest_compileiq.model import CodeDigest, sha256_hex
from pytest_compileiq.system.process import TAIL_BYTES, Finished, run
from pytest_compileiq.toolchains.nvidia.front_end import CONTROLS, Dryrun, FrontEnds, NvccBuild
from pytest_compileiq.toolchains.steps import Commands

FOLDER = Path("/tmp/run/0a")
LISTED = f"""\
#$ _SPACE_=\x20
#$ PATH=/cuda/bin:/usr/bin
#$ INCLUDES="-I/cuda/include"\x20\x20
#$ gcc -E -x c++ "k.cu" -o "{FOLDER}/k.cpp1.ii"
#$ "$CICC_PATH/cicc" --module_id_file_name "{FOLDER}/k.module_id" "{FOLDER}/k.cpp1.ii" -o "{FOLDER}/k.ptx"
#$ ptxas -arch=sm_90a --apply-controls={FOLDER}/{CONTROLS} "{FOLDER}/k.ptx"  -o "{FOLDER}/kernel.cubin"\x20
#$ fatbinary --create="{FOLDER}/k.fatbin"
nvcc warning : something
"""


def test_a_listing_is_taken_apart_at_ptxas_and_names_no_folder() -> None:
    listing = Dryrun.read(LISTED, FOLDER)
    elsewhere = Dryrun.read(LISTED.replace(str(FOLDER), "/tmp/run/1b"), Path("/tmp/run/1b"))
    assert listing is not None and listing == elsewhere
    assert listing.environment == {"_SPACE_": " ", "PATH": "/cuda/bin:/usr/bin", "INCLUDES": '"-I/cuda/include"  '}
    assert [command.split()[0] for command in (*listing.before, *listing.behind)] == [
        "gcc", '"$CICC_PATH/cicc"', "ptxas", "fatbinary",
    ]  # fmt: skip
    assert not listing.reads_controls
    script = listing.script(listing.behind, Path("/tmp/run/2c"))
    assert "export INCLUDES='\"-I/cuda/include\"  '\n" in script and '-o "/tmp/run/2c/kernel.cubin"' in script
    assert str(FOLDER) not in script and "gcc" not in script


def test_of_several_architectures_every_ptxas_is_behind() -> None:
    other = [line.replace("sm_90a", "sm_80").replace("k.", "k.80.") for line in LISTED.splitlines()[3:6]]
    listing = Dryrun.read("\n".join([*LISTED.splitlines()[:6], *other, *LISTED.splitlines()[6:]]), FOLDER)
    assert listing is not None
    assert [command.split()[0] for command in listing.before] == ["gcc", '"$CICC_PATH/cicc"'] * 2
    assert [command.split()[0] for command in listing.behind] == ["ptxas", "ptxas", "fatbinary"]


def test_what_is_preprocessed_or_removed_is_no_part_of_a_front_end(tmp_path: Path) -> None:
    listed = LISTED.replace("#$ gcc", f'#$ rm "{FOLDER}/k.reg.c"\n#$ gcc', 1).replace(str(FOLDER), str(tmp_path))
    for name in ("k.cpp1.ii", "k.module_id", "k.ptx", "k.reg.c", "kernel.cubin", "k.fatbin", "other.ptx"):
        (tmp_path / name).touch()
    listing = Dryrun.read(listed, tmp_path)
    assert listing is not None and {path.name for path in listing.left_in(tmp_path)} == {"k.module_id", "k.ptx"}


def test_other_options_before_ptxas_are_another_front_end() -> None:
    plain, other = Dryrun.read(LISTED, FOLDER), Dryrun.read(LISTED.replace("-x c++", "-x c++ -DTILE=8"), FOLDER)
    behind = Dryrun.read(LISTED.replace("-arch=sm_90a", "-arch=sm_90a -O1"), FOLDER)
    assert plain and other and behind
    assert plain.name != other.name and plain.name == behind.name


def test_a_controls_file_that_is_read_before_ptxas_says_nothing_by_its_name() -> None:
    listing = Dryrun.read(LISTED.replace('cicc"', f'cicc" -apply-controls={FOLDER}/{CONTROLS}'), FOLDER)
    assert listing is not None and listing.reads_controls


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nvcc fatal : no",
        LISTED.replace("ptxas", "cat"),
        "x" * TAIL_BYTES + LISTED,
    ],
)
def test_what_is_no_whole_listing_of_ptxas_is_compiled_as_a_whole(text: str) -> None:
    assert Dryrun.read(text, FOLDER) is None


# As nvcc: the preprocessor's and cicc's work is to write the PTX, ptxas's to take it with the controls.
FRONT = 'echo front >> "{folder}/../made"; printf %s "{flags}" > "{folder}/k.ptx"'
PTXAS = 'ptxas() {{ cat "$1" "$2" > "$3" && if grep -q refuse "$2"; then echo error: no >&2; exit 3; fi; }}'
BEHIND = 'ptxas "{folder}/k.ptx" "{folder}/controls.acf" "{folder}/kernel.cubin"'


class FakeNvcc:
    """Runs a shell in nvcc's place. ``lists`` changes what it says that it would run."""

    def __init__(self, home: Path, lists: Callable[[str], str] = lambda text: text) -> None:
        self.home, self.lists, self.scripts = home, lists, 0

    def compilation(self, name: str, controls: str, flags: str = "-O3") -> NvccBuild:
        folder = self.home / name
        folder.mkdir()
        front, ptxas, behind = (part.format(folder=folder, flags=flags) for part in (FRONT, PTXAS, BEHIND))
        listed = self.lists(f"#$ CICC_PATH=/cuda\n#$ {front}\n#$ {behind}\n")

        def command(into: Path) -> list[str]:
            (into / CONTROLS).write_text(controls)
            return ["sh", "-c", f'for word; do [ "$word" = --dryrun ] && printf %s {shlex.quote(listed)} && exit; done\n'
                    f"{ptxas}\n{front}\n{behind}", "nvcc"]  # fmt: skip

        def run_program(argv: list[str], *, timeout_s: float, cwd: Path, env: Mapping[str, str]) -> Finished:
            if "-e" in argv:
                self.scripts += 1
                script = Path(argv[-1])
                script.write_text(f"{PTXAS.format()}\n{script.read_text()}")
            return run(argv, timeout_s=timeout_s, cwd=cwd, env=env)

        commands = Commands("nvcc", self.home, folder, 20.0, str.strip, run_program=run_program)
        return NvccBuild(commands, command, digested, "k.cu")

    @property
    def fronts(self) -> int:
        made = self.home / "made"
        return len(made.read_text().split()) if made.exists() else 0


def digested(folder: Path, _: str) -> dict[str, CodeDigest]:
    return {"k": CodeDigest(sha256_hex((folder / "kernel.cubin").read_bytes()), {})}


def test_from_the_fifth_build_on_a_front_end_is_not_made_again(tmp_path: Path) -> None:
    nvcc, ends = FakeNvcc(tmp_path), FrontEnds()
    codes = [ends.build(nvcc.compilation(str(number), f"controls {number}"))[1]["k"].sha256 for number in range(6)]
    assert codes == [sha256_hex(f"-O3controls {number}".encode()) for number in range(6)]
    assert (nvcc.fronts, nvcc.scripts) == (4, 3)  # the fourth is made both ways


def test_what_nvcc_would_run_is_not_asked_for_the_two_builds_of_a_replay(tmp_path: Path) -> None:
    asked: list[str] = []
    ends = FrontEnds()
    for number in range(3):
        compilation = FakeNvcc(tmp_path).compilation(f"{number}", "same")

        def command(into: Path, whole: Callable[[Path], Sequence[str]] = compilation.command) -> Sequence[str]:
            asked.append(into.name)
            return whole(into)

        ends.build(replace(compilation, command=command))
    assert asked == ["0", "1", "2", "2"]


def test_each_front_end_is_counted_by_itself(tmp_path: Path) -> None:
    nvcc, ends = FakeNvcc(tmp_path), FrontEnds()
    for number in range(8):
        flags = f"-O{number % 7}"
        code = ends.build(nvcc.compilation(str(number), "same", flags))[1]["k"]
        assert code.sha256 == sha256_hex(f"{flags}same".encode())
    assert (nvcc.fronts, nvcc.scripts) == (8, 0)


def test_what_fails_behind_a_front_end_is_compiled_as_a_whole_for_nvcc_s_words(tmp_path: Path) -> None:
    nvcc, ends = FakeNvcc(tmp_path), FrontEnds()
    for number in range(4):
        ends.build(nvcc.compilation(str(number), "fine"))
    with pytest.raises(BuildError, match=r"nvcc refuses k\.cu: error: no") as refused:
        ends.build(nvcc.compilation("refused", "refuse"))
    assert (nvcc.fronts, refused.value.log) == (5, "error: no\n")


def test_the_next_build_tries_a_front_end_whose_fourth_build_fails(tmp_path: Path) -> None:
    nvcc, ends = FakeNvcc(tmp_path), FrontEnds()
    for number in range(3):
        ends.build(nvcc.compilation(str(number), "fine"))
    with pytest.raises(BuildError):
        ends.build(nvcc.compilation("refused", "refuse"))
    for number in range(4, 7):
        ends.build(nvcc.compilation(str(number), "fine"))
    assert (nvcc.fronts, nvcc.scripts) == (5, 3)


def test_a_front_end_from_which_other_code_is_made_is_not_kept(tmp_path: Path) -> None:
    nvcc = FakeNvcc(tmp_path, lambda text: text.replace('/controls.acf" "', '/k.ptx" "'))
    ends = FrontEnds()
    codes = {ends.build(nvcc.compilation(str(number), f"{number}"))[1]["k"].sha256 for number in range(6)}
    assert len(codes) == 6 and (nvcc.fronts, nvcc.scripts) == (6, 1)


def test_a_front_end_that_was_removed_costs_nothing_but_time(tmp_path: Path) -> None:
    nvcc, ends = FakeNvcc(tmp_path), FrontEnds()
    for number in range(4):
        ends.build(nvcc.compilation(str(number), "same"))
    for path in tmp_path.glob("front-end-*/kept/*"):
        path.unlink()
    assert ends.build(nvcc.compilation("after", "same"))[1]["k"].sha256 == sha256_hex(b"-O3same")


def test_builds_of_two_folders_share_nothing(tmp_path: Path) -> None:
    ends = FrontEnds()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        nvcc = FakeNvcc(tmp_path / name)
        for number in range(4):
            ends.build(nvcc.compilation(str(number), "same"))
        assert nvcc.fronts == 4


def test_another_process_has_its_own() -> None:
    assert isinstance(pickle.loads(pickle.dumps(FrontEnds())), FrontEnds)
