"""Whether a test still exists, by the text of its file."""

from __future__ import annotations

import pytest

from pytest_compileiq.rules.fingerprint import is_gone, path_within

TEXT = b"""\
from shared import test_imported

if HAVE_GPU:
    def test_guarded(acf): ...

class Base:
    def test_own(self, acf): ...

class TestHeir(Base):
    pass

test_made = make()
"""


@pytest.mark.parametrize("nodeid", [
    "test_guarded", "test_guarded[a::b]", "Base::test_own", "TestHeir::test_own", "test_made", "test_imported",
])  # fmt: skip
def test_a_test_that_the_text_may_hold_is_there(nodeid):
    file, names = path_within(f"a/test_k.py::{nodeid}")
    assert file == "a/test_k.py" and not is_gone(TEXT, names)


@pytest.mark.parametrize("nodeid", ["test_k", "Base::test_k", "TestK::test_own", "test_own"])
def test_a_test_that_no_statement_defines_is_gone(nodeid):
    assert is_gone(TEXT, path_within(f"a/test_k.py::{nodeid}")[1])


def test_a_file_that_is_gone_has_no_test_and_an_unreadable_text_may_have_it():
    assert (
        is_gone(None, ["test_k"]) and not is_gone(b"def (", ["test_k"]) and not is_gone(b"from x import *", ["test_k"])
    )
