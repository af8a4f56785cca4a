import pytest

from pytest_compileiq import Command, choice, minimize

GCC = Command(
    ["gcc -O{level} -fPIC -c {source} {options} -o {out_dir}/sum.o", "gcc -shared {out_dir}/sum.o -o {out}"],
    sources=["sum.c"],
    depends=["scale.h"],
    defaults={"level": "1"},
    version="gcc --version",
)


@pytest.mark.tune(GCC, space={"level": choice(["2", "s"])}, objectives=[minimize("code_bytes")])
def test_pipeline(acf):
    acf.build()
