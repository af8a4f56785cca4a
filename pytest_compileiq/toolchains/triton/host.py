"""Compiles one Triton kernel in a process of its own, or describes it: ``main`` by ``system.forked``, with JOB.json.

Triton itself runs ptxas, with the flags that it adds, so the cubin is the one that production compiles.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.spelling import did_you_mean
from pytest_compileiq.toolchains.triton.arguments import NOTE, REFUSED, LaunchArguments
from pytest_compileiq.toolchains.triton.definitions import ModuleSlice
from pytest_compileiq.toolchains.triton.front_end import Stopped, digest_modules, digest_triton, watch
from pytest_compileiq.toolchains.triton.launch import (
    DecoratedKernel,
    settle,
    specialised,
    with_sizes,
    written,
)
from pytest_compileiq.toolchains.triton.statements import read_source
from pytest_compileiq.toolchains.triton.torch_stub import (
    WARP,
    TargetDriver,
    Undecided,
    answer_for_the_target,
    answers_of,
    is_installed,
    load_module,
    stand_in,
)

_LAUNCHED_BY = (
    "name", "shared", "num_warps", "num_ctas", "global_scratch_size", "global_scratch_align", "profile_scratch_size",
    "launch_pdl", "launch_cooperative_grid",
)  # fmt: skip
# How the names of answers end.
CUBIN, PTX, LAUNCH, FRONT_END, DESCRIBED = "cubin", "ptx", "json", "front-end.json", "described.json"
_WITHOUT_TORCH = (
    "torch is not installed here, so a stand-in took its place: for CUDA, of this architecture, and for nothing else "
    "that a kernel's file may ask"
)


@dataclass(frozen=True)
class Job:
    """What the process is told, as the file JOB.json."""

    module: str
    path: Path
    function: str
    parts: dict[str, ModuleSlice]  # module → what is executed of it
    capability: tuple[int, int]
    device: str | None
    out_dir: Path
    sys_path: list[Path]
    launch: LaunchArguments | None = None  # what to compile; None to describe the kernel
    ptx_options: tuple[str, ...] = ()
    name: str = "kernel"  # of the files that it writes
    places: tuple[Path, ...] = ()  # where the project and packages lie on this machine
    only_front_end: bool = False

    def write(self) -> Path:
        path = self.out_dir / f"{self.name}.job.json"
        path.write_text(json.dumps(msgspec.to_builtins(self, enc_hook=str)), encoding="utf-8")
        return path

    @staticmethod
    def read(path: Path) -> Job:
        content = json.loads(path.read_text(encoding="utf-8"))  # of Python, which knows infinity
        return msgspec.convert(content, Job, dec_hook=lambda kind, text: kind(text))

    def file(self, kind: str) -> Path:
        """The answer whose name ends in ``kind``."""
        return self.out_dir / f"{self.name}.{kind}"

    def answer(self, kind: str, content: object) -> None:
        self.file(kind).write_text(json.dumps(content), encoding="utf-8")

    @property
    def target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        major, minor = self.capability
        return GPUTarget("cuda", major * 10 + minor, WARP)


def preload() -> None:
    """Import Triton, and have it hash its own files: each takes longer than compiling a small kernel."""
    import triton.backends.nvidia.compiler
    import triton.compiler.code_generator  # noqa: F401

    digest_triton()
    digest_modules()


def main() -> int:
    """Do the job: write the PTX, the cubin, how it is launched and the front end's answer, or the description."""
    job = Job.read(Path(sys.argv[1]))
    sys.path[:0] = map(str, job.sys_path)
    try:
        remarks = _done(job)
    except MarkerError as error:
        print(f"{REFUSED}{_raised_at(error, job)}{error}", file=sys.stderr)
        return 1
    except Exception as error:  # Triton's own errors: the parent turns the last line into a sentence
        text = " ".join(str(error).split())
        where = _raised_at(error, job)
        print(f"error: {type(error).__name__}: {where}{text[-1500:]}", file=sys.stderr)  # the reason follows the source
        return 1
    print("".join(f"{NOTE}{' '.join(remark.split())}\n" for remark in remarks), end="")
    return 0


def _raised_at(error: Exception, job: Job) -> str:
    """``k.py, line 5: ``, where the kernel's files raised it; empty where they did not."""
    files = {str(part.path) for part in job.parts.values()}
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in files]
    return f"{os.path.relpath(frames[-1].filename, job.sys_path[1])}, line {frames[-1].lineno}: " if frames else ""


def _done(job: Job) -> Sequence[str]:
    """Do the job; torch itself is asked only what the target does not answer."""
    assumed = [f"{part.name}.{name}" for part in job.parts.values() for name in part.assumed]
    notes = [f"Triton is installed, so {', '.join(assumed)} is taken to be true"] if assumed else []
    known, has_torch = answers_of(job.capability, job.device), is_installed()
    with stand_in(known) as imported:
        try:
            kernel = _kernel(job)
        except Exception as error:
            refusal = error
        else:
            try:
                remarks = _written(kernel, job)
            except Undecided as error:
                refusal = error
            else:
                without_torch = [_WITHOUT_TORCH] if imported and not has_torch else []
                return [*notes, *without_torch, *remarks]
    of_torch = isinstance(refusal, Undecided) or not isinstance(refusal, MarkerError)
    if not (imported and of_torch and has_torch):
        raise refusal
    is_of_a_gpu = isinstance(refusal, Undecided) and refusal.is_of_a_gpu
    try:
        answer_for_the_target(known)
        remarks = _written(_kernel(job), job)
    except MarkerError:
        raise
    except Exception as error:  # torch's own, where there is no GPU, or a library of its own is missing
        raise (refusal if is_of_a_gpu else error) from None
    return [*notes, *([f"on this machine, whose GPU answered: {refusal}"] if is_of_a_gpu else []), *remarks]


def _kernel(job: Job) -> DecoratedKernel:
    from triton.backends.nvidia.compiler import CUDAOptions
    from triton.runtime import driver

    driver.set_active(TargetDriver(job.target, job.capability))
    loaded, name = load_module(job.module, job.parts), job.function
    kernel = DecoratedKernel.of(getattr(loaded, name, None), list(CUDAOptions.__dataclass_fields__))
    if kernel is None:
        known = {bound for statement in read_source(job.path).statements for bound in statement.binds} - {name}
        raise MarkerError(f"{job.path.name} defines no @triton.jit function {name!r}{did_you_mean(name, known)}")
    if kernel.function.is_gluon():
        raise MarkerError(
            f"{name!r} is a kernel in Gluon, which is not compiled ahead of time here: give its PTX to Ptxas"
        )
    return kernel


def _written(kernel: DecoratedKernel, job: Job) -> Sequence[str]:
    """Write the answer; the remarks are the kernel's and the launch's."""
    if job.launch is not None:
        return [*kernel.remarks(), *_compile(kernel, job, job.launch)]
    described = {
        "arguments": [parameter.name for parameter in kernel.function.params],
        "options": sorted(kernel.options),
        "configs": kernel.configs,
        "is_tuned": kernel.tuner is not None,
    }
    job.answer(DESCRIBED, described)
    return list(kernel.remarks())


def _compile(kernel: DecoratedKernel, job: Job, given: LaunchArguments) -> Sequence[str]:
    import triton
    import triton.language
    from triton.compiler import ASTSource

    launch = settle(kernel, given, triton.language)
    function = kernel.function
    kinds = {name: with_sizes(kind, launch.constexprs) for name, kind in given.kinds.items()}
    source = ASTSource(fn=function, **specialised(function, kinds, launch.constexprs))
    ptx_options = {"ptx_options": " ".join(job.ptx_options)} if job.ptx_options else {}
    # Launches take arguments in the kernel's order, not in the marker's.
    arguments = {name: kinds[name] for name in function.arg_names if name in kinds}
    described = {"arguments": arguments, "meta": written({**launch.options, **launch.constexprs})}
    watch(lambda answer: job.answer(FRONT_END, answer | described), job.places, stops=job.only_front_end)
    try:
        compiled = triton.compile(source, target=job.target, options={**launch.options, **ptx_options})
    except Stopped:
        return launch.remarks
    job.file(PTX).write_text(compiled.asm["ptx"], encoding="utf-8")
    job.file(CUBIN).write_bytes(compiled.asm["cubin"])
    job.answer(LAUNCH, {name: getattr(compiled.metadata, name, None) for name in _LAUNCHED_BY} | described)
    return launch.remarks


if __name__ == "__main__":
    sys.exit(main())
