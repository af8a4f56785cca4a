"""Whether 28 products are loaded as their own commands compile them, both arms beside each other, or by what change.

python bench/like.py [COMPILER ...]      # e.g. gcc clang-14 clang-16; ++ is added for C++
"""

import argparse
import json
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

from machine import describe
from pytest_compileiq.benchmark.builds import Builds, loadable
from pytest_compileiq.errors import CompileIQError
from pytest_compileiq.model import Candidate
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc.builder import resolve
from pytest_compileiq.toolchains.cc.marker import Cc

C = {
    "static data": "static int calls; int kernel(int x) { calls += 1; return x + calls; }",
    "own thread-local": "static _Thread_local int seen; int kernel(int x) { seen += x; return seen + 1; }",
    "functions call each other": "int inner(int x) { return x + 1; }\nint kernel(int x) { return inner(x); }",
    "table of calls": "static int one(int x) { return x + 1; }\nstatic int two(int x) { return x + 2; }\n"
    "static int (*const calls[])(int) = {one, two}; int kernel(int x) { return calls[x & 1](x); }",
    "a library's data": "#include <stdio.h>\nint kernel(int x) { return x + (stderr != 0); }",
    "libm": "#include <math.h>\nint kernel(int x) { return (int)sqrt((double)(x * x)) + 1; }",
    "OpenMP": "int kernel(int x) { int s = 0;\n#pragma omp parallel for reduction(+ : s)\n"
    "for (int i = 0; i < 8; i++) s += x;\n return s / 8 + 1; }",
    "global data": "int step = 1; int many[1000]; int kernel(int x) { many[x] += step; return x + many[x]; }",
}
CXX = {
    "exceptions, virtual calls": '#include <stdexcept>\nstruct Base { virtual ~Base() = default; virtual int at(int x) '
    "const { return x; } };\nstruct Next : Base { int at(int x) const override { return x + 1; } };\n"
    'extern "C" int kernel(int x) { try { if (x > 3) throw std::runtime_error("more"); } '
    "catch (const std::exception &) { const Base *base = new Next; int y = base->at(x); delete base; return y; } "
    "return 0; }",
    "statics of templates": "#include <string>\ntemplate <typename T> T &shared() { static T value{}; return value; }\n"
    "extern \"C\" int kernel(int x) { shared<std::string>() += 'x'; return x + (int)shared<std::string>().size(); }",
}  # fmt: skip
CALLER = "int other(int); int kernel(int x) { return other(x); }"
CALLEE = "int other(int x) { return x + 1; }"
SEVERAL = {"k.c": CALLER, "other.c": CALLEE}
MIXED = {
    "k.c": CALLER,
    "other.cc": '#include <vector>\nextern "C" int other(int x) { return (int)std::vector<int>(x + 1).size(); }',
}
ARCHIVE = {"k.c": CALLER, "helper.c": CALLEE}
WITH_DATA = {"k.c": CALLER, "helper.c": "#include <stdio.h>\nint other(int x) { return x + (stdout != 0); }"}

CASES = [
    *(({"k.c": source}, "", name) for name, source in C.items()),
    *(({"k.c": C[name]}, "-fno-pie", name)
      for name in ("static data", "own thread-local", "table of calls", "a library's data", "global data")),
    *(({"k.c": C[name]}, "-mcmodel=medium", name) for name in ("static data", "table of calls", "a library's data")),
    *(({"k.c": C[name]}, "-mcmodel=large", name) for name in ("static data", "own thread-local", "a library's data")),
    *(({"k.cc": source}, flags, name) for flags in ("", "-fno-pie") for name, source in CXX.items()),
    (SEVERAL, "", "several objects"), (SEVERAL, "-fno-pie", "several objects"), (MIXED, "", "objects of C and C++"),
    (ARCHIVE, "", "an archive"), (WITH_DATA, "", "an archive with a library's data"),
]  # fmt: skip


def tried(compiler: str, sources: dict[str, str], flags: str, name: str, root: Path) -> str:
    """What became of one case."""
    entries = []
    for file, text in sources.items():
        (root / file).write_text(text)
        program = compiler.replace("gcc", "g++").replace("clang", "clang++") if file.endswith(".cc") else compiler
        openmp = "-fopenmp" if name == "OpenMP" else ""
        command = f"{program} -O2 {flags} {openmp} -c {file}"
        entries.append({"directory": str(root), "file": file, "command": command})
        if file == "helper.c":
            subprocess.run(command.split(), cwd=root, check=True)
            subprocess.run(["ar", "rc", "libhelper.a", "helper.o"], cwd=root, check=True)
    (root / "compile_commands.json").write_text(json.dumps(entries))
    linked = "-L. -lhelper" if "helper.c" in sources else "-lm"
    marker = Cc(*(file for file in sources if file != "helper.c"), like=".", flags=linked)
    versions = resolve(marker, Place(root, root)).versions
    builder = loadable([Builds(each, root / f"out{n}", 60, frozenset()) for n, each in enumerate(versions)]).builder
    arms = []
    for controls in (None, builder.render(Candidate({"-O": 3}))):
        arms.append(builder.load(builder.build(controls, root / f"arm{len(arms)}", timeout_s=60), set()))
    answers = [arm.kernel(4) for arm in arms]
    if answers != [5, 5]:
        return f"WRONG: {answers}"
    change = builder.changed(60)
    if change is None:
        return "right"
    return f"right with {' '.join(change.words)} ({change.because}; {change.altered} of {change.functions} functions)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("compilers", nargs="*", default=["gcc"])
    print(describe())
    for compiler in parser.parse_args().compilers:
        kinds = Counter[str]()
        for sources, flags, name in CASES:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    answer = tried(compiler, sources, flags, name, Path(folder))
                except (CompileIQError, subprocess.CalledProcessError) as error:
                    answer = f"REFUSED: {error}"
            kinds["changed" if answer.startswith("right with") else answer.partition(":")[0]] += 1
            print(f"{compiler:9} {name:28} {flags:16} {answer}", flush=True)
        print(f"{compiler}: {sum(kinds.values())} cases: {dict(kinds)}")


if __name__ == "__main__":
    main()
