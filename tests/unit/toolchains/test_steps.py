"""Steps of a build: their time, their failures, side by side, and linked once."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import pytest

from pytest_compileiq.errors import BuildError, EnvironmentFault
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc.compiler import find_compiler
from pytest_compileiq.toolchains.steps import Commands, Links, ParallelCommands, ask


@pytest.mark.parametrize(
    ("script", "mend"),
    [
        ("kill -KILL $$", "free some, and run the same again"),
        ("kill -TERM $$", "run the same again"),
        ("kill -XFSZ $$", "ulimit -f unlimited"),
        ("kill -XCPU $$", "ulimit -t unlimited"),
        ("echo 'gcc: fatal error: Killed signal terminated program cc1'; exit 1", "free some"),
        ("echo 'collect2: fatal error: ld terminated with signal 25 [File size limit exceeded]'; exit 1", "ulimit -f"),
    ],
)
def test_ask_of_a_killed_program_says_what_helps(script, mend):
    with pytest.raises(EnvironmentFault, match=rf"sh -c .* was killed before it answered: .*{mend}"):
        ask(["sh", "-c", script])


def test_ask_of_a_program_that_crashes_or_refuses_is_its_answer():
    assert [ask(["sh", "-c", script]).returncode for script in ("kill -SEGV $$", "exit 1")] == [-11, 1]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.parametrize(("number", "mend"), [("KILL", "free some"), ("XFSZ", "ulimit -f"), ("SEGV", "crashes at an")])
def test_find_compiler_that_is_killed_is_no_other_compiler(tmp_path, number, mend):
    wrapper = tmp_path / "cc"
    wrapper.write_text(f'#!/bin/sh\ncase "$*" in *-dM*) kill -{number} $$;; esac\nexec gcc "$@"\n')
    wrapper.chmod(0o755)
    with pytest.raises(EnvironmentFault, match=mend):
        find_compiler(str(wrapper), Place(tmp_path, tmp_path))


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_find_compiler_whose_configuration_file_changed_is_another_build(tmp_path):
    """As clang tells it, whose configuration files hold options that no command shows."""
    builds = []
    for number, text in enumerate(("-ffast-math\n", "-O1\n", "-O1\n")):
        configuration, compiler = tmp_path / f"{number}.cfg", tmp_path / f"cc{number}"
        configuration.write_text(text)
        says = f"echo 'clang version 16.0.6'; echo 'Configuration file: {configuration}'; exit 0"
        compiler.write_text(f'#!/bin/sh\ncase "$*" in --version) {says};; esac\nexec gcc "$@"\n')
        compiler.chmod(0o755)
        builds.append(find_compiler(str(compiler), Place(tmp_path, tmp_path)).build)
    assert builds[0] != builds[1] == builds[2] and builds[0].startswith("clang version 16.0.6, configuration ")


MEETS = "echo {own}; touch {own}; while ! test -e {other}; do sleep 0.01; done"


def commands(root, timeout_s=20.0):
    return Commands("sh", root, root, timeout_s, str.strip)


def shell(script, what="it"):
    return ["sh", "-c", script], what


def test_two_that_wait_for_each_other_end_and_their_output_is_in_order(tmp_path):
    run = commands(tmp_path)
    ParallelCommands(2).run(run, [shell(MEETS.format(own="b", other="a")), shell(MEETS.format(own="a", other="b"))])
    assert run.log == "b\na\n"


@pytest.mark.parametrize("most", [1, 2])
def test_no_more_than_may_run_at_once(tmp_path, most):
    counting = "touch $$.on; set -- *.on; echo $#; sleep 0.05; rm $$.on"
    run = commands(tmp_path)
    ParallelCommands(most).run(run, [shell(counting)] * 6)
    assert max(map(int, run.log.split())) <= most


def test_the_first_that_fails_by_its_order_is_told(tmp_path):
    with pytest.raises(BuildError, match="sh refuses the first"):
        ParallelCommands(3).run(
            commands(tmp_path), [shell("sleep 0.1; exit 1", "the first"), shell("exit 2", "the second"), shell("true")]
        )


def test_the_time_is_that_of_all(tmp_path):
    with pytest.raises(BuildError, match=r"took longer than 0\.2 s, at the (first|second|third)"):
        several = [shell("sleep 9", f"the {name}") for name in ("first", "second", "third")]
        ParallelCommands(2).run(commands(tmp_path, 0.2), several)


class Linker:
    """Links by writing its objects one behind the other."""

    def __init__(self, home: Path) -> None:
        self.home, self.runs = home, 0

    def link(self, links: Links, name: str, *objects: bytes) -> Path:
        folder = self.home / name
        folder.mkdir(parents=True)
        paths = [folder / f"{number}.o" for number in range(len(objects))]
        for path, content in zip(paths, objects, strict=True):
            path.write_bytes(content)

        def run() -> None:
            self.runs += 1
            (folder / "kernel.so").write_bytes(b"".join(objects))
            (folder / "kernel.so").chmod(0o755)

        links.link(paths, folder / "kernel.so", run)
        return folder / "kernel.so"


def test_equal_objects_are_linked_once_and_each_build_has_its_own_file(tmp_path: Path) -> None:
    linker, links = Linker(tmp_path), Links()
    made = [linker.link(links, name, b"a", b"b") for name in ("first", "second")]
    assert linker.runs == 1 and [path.read_bytes() for path in made] == [b"ab"] * 2
    assert made[1].stat().st_mode & 0o777 == 0o755 and not made[0].samefile(made[1])


@pytest.mark.parametrize("others", [(b"b", b"a"), (b"ab",), (b"a",), (b"a", b"c")])
def test_other_objects_are_linked_by_themselves(tmp_path: Path, others: tuple[bytes, ...]) -> None:
    linker, links = Linker(tmp_path), Links()
    linker.link(links, "first", b"a", b"b")
    assert linker.link(links, "second", *others).read_bytes() == b"".join(others) and linker.runs == 2


def test_another_folder_of_builds_and_what_was_removed_are_linked_anew(tmp_path: Path) -> None:
    linker, links = Linker(tmp_path), Links()
    first = linker.link(links, "one/first", b"a")
    linker.link(links, "another/first", b"a")
    first.unlink()
    assert linker.link(links, "one/second", b"a").read_bytes() == b"a" and linker.runs == 3


def test_a_link_that_fails_is_tried_again(tmp_path: Path) -> None:
    links, tried = Links(), []

    def fail() -> None:
        tried.append(1)
        raise OSError

    (tmp_path / "a.o").write_bytes(b"a")
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        with pytest.raises(OSError):
            links.link([tmp_path / "a.o"], tmp_path / name / "kernel.so", fail)
    assert len(tried) == 2


def test_an_object_that_is_missing_is_the_linker_s_to_miss(tmp_path: Path) -> None:
    tried = []
    Links().link([tmp_path / "none.o"], tmp_path / "kernel.so", lambda: tried.append(1))
    assert tried == [1]


def test_another_process_has_its_own() -> None:
    assert isinstance(pickle.loads(pickle.dumps(Links())), Links)
