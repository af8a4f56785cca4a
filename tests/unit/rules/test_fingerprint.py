"""The canonical text of Python source, in full and in its corners; what a digest of it sees is in test_benchmark.py."""

from __future__ import annotations

import ast

from pytest_compileiq.rules.fingerprint import canonical_text, digest, undecorated


def expression(source: str) -> str:
    return canonical_text(ast.parse(source, mode="eval").body)


def test_the_text_holds_names_constants_with_their_type_and_no_empty_field():
    # Committed artifacts hold digests of this text: another text makes all of them stale.
    assert canonical_text(ast.parse("def f(x=1):\n    '''Doc.'''\n    return x.y\n")) == (
        '["Module",["body",[["FunctionDef",["name","f"],["args",["arguments",["args",[["arg",["arg","x"]]]],'
        '["defaults",[["Constant",["value",["int","1"]]]]]]],'
        '["body",[["Return",["value",["Attribute",["value",["Name",["id","x"]]],["attr","y"]]]]]]]]]]'
    )
    assert expression("None") == '["Constant"]'
    assert expression("'1'") == '["Constant",["value","1"]]'


def test_constants_of_different_types_are_told_apart():
    texts = [expression(source) for source in ("1", "1.0", "True", "'1'", "b'1'", "1j", "None", "...")]
    assert len(set(texts)) == len(texts)


def test_only_a_string_that_stands_first_in_a_body_is_a_docstring():
    def text(*lines: str) -> str:
        return canonical_text(ast.parse("\n".join(lines)))

    assert text("'a'", "x") == text("'b'", "x") == text("x")
    for first, second in (("x = 'a'", "x = 'b'"), ("f('a')", "f('b')"), ("1", "2")):
        assert text(first, "x") != text(second, "x")
    assert text("x", "'a'") != text("x", "'b'")
    assert text("if x:", "    'a'", "    y") != text("if x:", "    'b'", "    y")


def test_an_f_string_is_the_same_however_its_constants_are_split():
    def joined(*parts: ast.expr) -> str:
        return canonical_text(ast.JoinedStr([*parts]))

    a, b, c, ab = (ast.Constant(text) for text in ("a", "b", "c", "ab"))
    value = ast.FormattedValue(ast.Name("x", ast.Load()), -1)
    assert joined(value, c, value, a, b) == joined(value, c, value, ab)
    assert joined(a, b, value) == joined(ab, value)
    assert joined(a, value, b) != joined(value, a, b)


def test_a_decorator_is_left_out_and_the_node_kept_as_it_was():
    for source in ("@d\ndef f():\n    x", "@d\nasync def f():\n    x", "@d\nclass F:\n    x"):
        node = ast.parse(source).body[0]
        plain = ast.parse(source.removeprefix("@d\n")).body[0]
        assert canonical_text(undecorated(node)) == canonical_text(plain) != canonical_text(node)
    name = ast.Name("x", ast.Load())
    assert undecorated(name) is name


def test_no_two_lists_of_parts_have_one_digest():
    assert len({digest(parts) for parts in ([], [""], ["ab"], ["a", "b"], ["b", "a"], ['a","b'])}) == 6
