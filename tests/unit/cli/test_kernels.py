"""What ``acf init`` finds in the text of sources."""

from __future__ import annotations

import pytest

from pytest_compileiq.cli.kernels import definitions, look


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("int f(int n) { if (n) { return g(n); } return 0; }\nint h(void);", [("f", False, False)]),
        ("static int f(int n) {}\nstatic inline int g(void) {}\nint main(void) {}", []),
        ("/* int f(void) { */ // {\n#define X { \\\n {\nchar *s = \"{\"; int g(void) { char c = '{'; }", [("g", False, False)]),
        ("API(int) f(const char *s) {}\nAPI int\ng(int n)\n{}", [("f", False, False), ("g", False, False)]),
        ('extern "C" { void f() {} }\nnamespace a { namespace b { void g() {} } struct S { void m() {} }; void h() noexcept {} }',
         [("f", False, False), ("a::b::g", False, False), ("a::h", False, False)]),
        ("namespace { void f() {} }\nA::A() : x(1) {}\nint table[] = {1, 2};\nint after(int n) {}", [("after", False, False)]),
        ("template <class T, class U = v<T>>\n__global__ void __launch_bounds__(128) k(T *x) {}\n__device__ int d(int n) {}",
         [("k", True, True)]),
        ("}}}{{{", []),
    ],
)  # fmt: skip
def test_definitions_of_a_text_are_its_public_functions(text, found):
    assert list(definitions(text)) == found


def test_variables_of_a_text_are_its_global_definitions(tmp_path):
    text = """\
int one = 1;
const char *names[] = {"a"};
unsigned long table[2][3];
std::vector<int> Holder::many{};
_Thread_local int mine, other;
extern int elsewhere;
static int hidden = 1;
struct later;
struct Point { int x; };
using kind = int;
int function(int n) {
    int local = n;
    return local;
}
"""
    (tmp_path / "k.cc").write_text(text)
    found = look(tmp_path, frozenset())
    assert set(found.variables) == {"one", "names", "table", "many", "mine"}


def test_definitions_of_a_hostile_text_end(tmp_path):
    for text in ("int " * 200_000, "a" + " " * 1_000_000, "int a" + "[1]" * 300_000, "a::" * 300_000):
        (tmp_path / "k.c").write_text(text)
        assert not look(tmp_path, frozenset()).variables
    for text in ("/*" * 200_000, "f(" * 200_000 + "{", "{" * 400_000, '"\\' * 200_000, "template <" * 50_000 + "){"):
        assert list(definitions(text)) == []


def test_a_function_that_is_wrapped_later_is_a_kernel_of_triton(tmp_path):
    text = "import triton\ndef k(x): pass\ndef other(x): pass\nk = triton.jit(k)\nk = triton.heuristics({})(k)\n"
    (tmp_path / "k.py").write_text(text)
    assert [each.spelled for each in look(tmp_path, frozenset()).kernels] == ["k.py::k"]
