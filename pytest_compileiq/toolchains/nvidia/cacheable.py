"""The inputs of builds by ptxas and by nvcc, for the build cache.

nvcc says itself what it would run: the host's preprocessor, cicc, and ptxas. The preprocessor is run each time the
cache is asked, and the digest of what it makes is part of the key, as in ccache's preprocessor mode. So no header has
to be modelled, and none that could shadow it, by whatever macro it is included; those of CUDA and of torch ask for
others in every way there is. cicc and ptxas, most of a build's time, read nothing else.

The build cache models the options of NVIDIA's compilers that let ptxas and cicc read no other file. What the host's
preprocessor does with an option shows in what it makes, so those that it alone reads may be any.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from posixpath import join
from typing import Literal

from msgspec.structs import replace

from pytest_compileiq.errors import BuildError
from pytest_compileiq.model import BuildResult, ControlsFile, sha256_hex
from pytest_compileiq.rules.build_key import Inputs, NotModelled
from pytest_compileiq.toolchains.base import CacheableBuild
from pytest_compileiq.toolchains.cc.cacheable import expect_a_binary
from pytest_compileiq.toolchains.cc.includes import expect_modelled
from pytest_compileiq.toolchains.environment import keyed_environment
from pytest_compileiq.toolchains.inputs import listed, loaded, looked_for_in
from pytest_compileiq.toolchains.nvidia.front_end import HERE, LISTS, Dryrun
from pytest_compileiq.toolchains.nvidia.host_half import (
    STAND_IN,
    expect_no_more_read,
    files_of,
    host_inputs,
    is_of_host,
    preprocessing,
    write_stand_ins,
)
from pytest_compileiq.toolchains.nvidia.options import NVCC, PTXAS, in_one_word
from pytest_compileiq.toolchains.steps import Commands, asked_everywhere

# Besides those that a controls file may hold.
_OF_PTXAS = re.compile(
    r"-arch=\w+|-v|--verbose|-w|--disable-warnings|-lineinfo|--generate-line-info|-g|--device-debug"
    r"|-(?:O|-opt-level=)[0-4]|-(?:dlcm|dscm|flcm|fscm)=\w\w|-?-(?:maxrregcount|minnctapersm)=\d+"
    r"|-?-fmad=(?:true|false)|-?-warn-(?:on-)?[a-z-]+|-?-suppress-[a-z-]+"
)
_OF_THE_PREPROCESSOR = re.compile(
    r"-[IDU][^\0]+|-(?:isystem|include|Xcompiler|-compiler-options)=[^\0]+|-x=cu", re.DOTALL
)
_OF_NVCC = re.compile(
    r"-gencode=arch=compute_\w+,code=sm_\w+|-(?:O|-optimize=|O=)[0-3]|-?-std=c\+\+\d\d|-frandom-seed=\w+"
    r"|-lineinfo|--generate-line-info|-[gG]|--debug|--device-debug"
    r"|-?-expt-(?:relaxed-constexpr|extended-lambda)|-?-extended-lambda|-?-use_fast_math|-?-restrict"
    r"|-?-(?:ftz|prec-div|prec-sqrt|fmad)=(?:true|false)|-?-maxrregcount=\d+|-?-extra-device-vectorization"
    r"|-w|--disable-warnings|-?-diag-(?:suppress|warn|error)=[\d,]+|-Wno-[a-z-]+|(?:-t|--threads)=\d+"
)


def expect_modelled_by(compiler: Literal["nvcc", "ptxas"], words: Iterable[str], *, with_host: bool = False) -> None:
    """Have each option among ``words`` of its command be modelled; ``with_host``, also those of the host's compiler."""
    is_modelled, words = (_is_of_nvcc, in_one_word(words)) if compiler == "nvcc" else (_is_of_ptxas, words)
    for word in words:
        if not is_modelled(word):
            raise NotModelled(f"{word[:100]} is not modelled")
        if with_host and (handed_on := re.fullmatch(r"-(?:Xcompiler|-compiler-options)=(.*)", word, re.DOTALL)):
            expect_modelled(handed_on[1].split(","))


def _is_of_nvcc(word: str) -> bool:
    if handed_on := re.fullmatch(r"(?:-Xptxas|--ptxas-options)=(.*)", word):
        return all(map(_is_of_ptxas, handed_on[1].split(",")))
    return any(each.fullmatch(word) for each in (_OF_NVCC, _OF_THE_PREPROCESSOR)) or NVCC.may_hold(word)


def _is_of_ptxas(word: str) -> bool:
    return _OF_PTXAS.fullmatch(word) is not None or PTXAS.may_hold(word)


_LIST_S = 10.0  # it takes a hundredth of a second
_PREPROCESS_S = 60.0
_UNFINISHED = re.compile(rb"^[ \t]*#[ \t]*(?:include|include_next|import|embed)\b", re.MULTILINE)
_RULES = "read-{}.d"
_PREPROCESSES = re.compile(r".* -E -x c\+\+ .* -o ").match
# Programs that read the preprocessed texts and files made of them; nvlink reads libraries too.
_OF_DEVICE = re.compile(r'"\$CICC_PATH/cicc" |(?:cudafe\+\+|ptxas|nvlink|fatbinary|rm) ').match


class PtxasBuild(CacheableBuild, frozen=True):
    """One build of a PTX file."""

    command: tuple[str, ...]  # without the controls and the files
    controls: ControlsFile | None  # None for the baseline
    source: str  # the PTX, relative to rootdir
    rootdir: Path

    def question(self) -> Mapping[str, Sequence[str]]:
        options = PTXAS.words(self.controls.knobs) if self.controls else []
        program, *words = [*self.command, *options]
        expect_modelled_by("ptxas", words)
        return {
            "command": [program, *words, self.source],
            "controls": content_of(self.controls),
            **asked_everywhere(self.rootdir, "nvidia", keyed_environment()),
        }

    def inputs(self) -> tuple[Inputs, Inputs]:
        ptx = Inputs(frozenset({join(self.rootdir, self.source)}))
        return ptx, read_at_the_start([self.command[0]], keyed_environment(), self.rootdir)


class NvccInputs(CacheableBuild, frozen=True):
    """One build by nvcc."""

    program: str  # nvcc
    listing: Dryrun  # what it would run
    texts: Mapping[str, str]  # by the files in a build's folder that the host's preprocessor writes, their digests
    read: frozenset[str]  # the files that the preprocessor read
    names: tuple[str, ...]  # what decides how entries are called
    cubins: tuple[str, ...]  # the files that a test loads
    controls: ControlsFile | None  # None for the baseline
    is_own: Callable[[Path], bool]  # whether a file is the project's
    rootdir: Path

    @classmethod
    def preprocessed(
        cls,
        command: Callable[[Path], Sequence[str]],
        *,
        names: Sequence[str],
        cubins: Sequence[str],
        controls: ControlsFile | None,
        is_own: Callable[[Path], bool],
        rootdir: Path,
    ) -> NvccInputs:
        """Preprocess a source as ``command``, by the folder to build in, would.

        Raises:
            NotModelled: nvcc would run a program that is not modelled, or refuses the source.
        """
        with tempfile.TemporaryDirectory() as directory:
            folder = Path(os.path.realpath(directory))
            argv = list(command(folder))
            try:
                listing = _listing_and_texts(argv, folder, rootdir)
                texts = {path.name: path.read_bytes() for path in folder.glob("*.ii")}
                read = [files_of(path, rootdir) for path in folder.glob(_RULES.format("*"))]
            except (BuildError, OSError) as error:
                raise NotModelled(f"the preprocessor is not understood: {error}") from error
            if len(read) != len(texts):  # another preprocessor than gcc's writes no rules
                raise NotModelled("the preprocessor is not understood: it lists no files")
            if any(map(_UNFINISHED.search, texts.values())):
                raise NotModelled("the preprocessor leaves something for the compiler to read")
            return cls(
                program=argv[0],
                listing=listing,
                texts={name: _digest_of(text, folder, rootdir) for name, text in sorted(texts.items())},
                read=frozenset(path for path in set().union(*read) if not Path(path).is_relative_to(folder)),
                names=tuple(names),
                cubins=tuple(cubins),
                controls=controls,
                is_own=is_own,
                rootdir=rootdir,
            )

    def question(self) -> Mapping[str, Sequence[str]]:
        return {
            "command": self._commands,
            "preprocessed": [word for text in self.texts.items() for word in text],
            "controls": content_of(self.controls),
            "names": self.names,
            **asked_everywhere(self.rootdir, "nvidia", self._environment),
        }

    def inputs(self) -> tuple[Inputs, Inputs]:
        own, others = Inputs(self.read).parted(lambda path: self.is_own(Path(path)))
        directories = [self._environment.get("CICC_PATH", ""), *listed("PATH", self._environment, str(self.rootdir))]
        words = [shlex.split(command) for command in self._commands]
        tools = sorted({Path(shlex.split(line)[0]).name for line in filter(_OF_DEVICE, self._commands)} - {"rm"})
        found = [shutil.which(tool, path=os.pathsep.join(directories)) for tool in tools]
        if None in found:
            raise NotModelled(f"{tools[found.index(None)]}, run by nvcc, is not found")
        programs = [self.program, *filter(None, found)]
        # Files that commands name outside of the build's own folder, such as a library of device functions.
        paths = (join(self.rootdir, word.partition("=")[2] or word) for command in words for word in command)
        named = Inputs(frozenset(path for path in paths if HERE not in path and Path(path).is_file()))
        looked_at = looked_for_in(directories, tools) | read_at_the_start(programs, self._environment, self.rootdir)
        return own, others | named | looked_at | host_inputs(self._commands, self._environment, self.rootdir)

    def also_loaded(self, built: BuildResult) -> Sequence[Path]:
        return [built.path.parent / name for name in self.cubins]

    def is_of(self, built: BuildResult) -> bool:
        folder = built.path.parent
        try:  # a header may have changed since the cache was asked
            is_same = all(
                _digest_of((folder / name).read_bytes(), folder, self.rootdir) == sha256
                for name, sha256 in self.texts.items()
                if not name.endswith(STAND_IN)
            )
            if is_same:
                expect_no_more_read(self.listing, _commands_in(folder, self.rootdir), self.read)
        except (BuildError, OSError):
            return False
        return is_same

    @property
    def _commands(self) -> Sequence[str]:
        """The commands behind the preprocessor."""
        return [command for command in self.listing.commands if not _PREPROCESSES(command)]

    @property
    def _environment(self) -> Mapping[str, str]:
        return {**keyed_environment(), **self.listing.environment}


def _listing_and_texts(argv: Sequence[str], folder: Path, rootdir: Path) -> Dryrun:
    """nvcc's dry run, with its preprocessor run in ``folder``, where rules list the files that each run of it read."""
    commands = _commands_in(folder, rootdir)
    listing = Dryrun.read(replace(commands, timeout_s=_LIST_S).run([*argv, *LISTS], "the source"), folder)
    if listing is None:
        raise NotModelled("nvcc lists no command of ptxas")
    for line in listing.commands:
        if not (_PREPROCESSES(line) or _OF_DEVICE(line) or is_of_host(line)):
            raise NotModelled(f"{line.partition(' ')[0]}, run by nvcc, is not modelled")
    write_stand_ins(listing.commands, folder)
    texts = [text for line in listing.commands if (text := line if _PREPROCESSES(line) else preprocessing(line))]
    listed = [f'{text} -MD -MF "{HERE}/{_RULES.format(number)}"' for number, text in enumerate(texts)]
    script = folder / "preprocess.sh"
    script.write_text(listing.script(listed, folder), encoding="utf-8")
    commands.run(["/bin/sh", "-e", str(script)], "the source")
    return listing


def _commands_in(folder: Path, rootdir: Path) -> Commands:
    return Commands("nvcc", rootdir, folder, _PREPROCESS_S, str.strip)


def _digest_of(text: bytes, folder: Path, rootdir: Path) -> str:
    """The digest of a preprocessed source; the ``folder`` that it lies in, and the project, may lie anywhere."""
    for path, sign in ((folder, HERE), (Path(os.path.realpath(rootdir)), "."), (rootdir, ".")):
        text = text.replace(os.fsencode(path), sign.encode())
    return sha256_hex(text)


def content_of(controls: ControlsFile | None) -> list[str]:
    """The digest of an ACF; empty where the controls are none."""
    return [sha256_hex(controls.data)] if controls and controls.kind == "blob" else []


def read_at_the_start(programs: Sequence[str], environment: Mapping[str, str], rootdir: Path) -> Inputs:
    """The binaries of ``programs``, and what the loader reads for them; NotModelled for one that is a script."""
    return _read_at_the_start(tuple(programs), tuple(sorted(environment.items())), str(rootdir))


@lru_cache(maxsize=16)  # it is asked for with every build
def _read_at_the_start(programs: tuple[str, ...], environment: tuple[tuple[str, str], ...], rootdir: str) -> Inputs:
    paths = {*programs, *map(os.path.realpath, programs)}
    for program in programs:
        expect_a_binary(program)
    return Inputs(frozenset(paths)) | loaded(programs, dict(environment), rootdir)
