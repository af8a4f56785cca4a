"""An artifact's metadata as text, ``acf/<name>/<target>.toml``. Everything read is untrusted."""

from __future__ import annotations

import re

import tomli
import tomli_w
from pydantic import ValidationError

from pytest_compileiq.artifact import SCHEMA, Artifact
from pytest_compileiq.claim import ConditionsTable
from pytest_compileiq.errors import SchemaTooNew, StoreError, contained
from pytest_compileiq.model import sha256_hex
from pytest_compileiq.spelling import for_shell
from pytest_compileiq.table import first_problem

MAX_METADATA_BYTES = 1 << 20
MOST_MARKS = 60_000  # dots and brackets: each may be a table, and a parsed table takes a thousand bytes
MAX_SAMPLES_BYTES = 64 << 20
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")


def controls_file_name(target: str, data: bytes) -> str:
    """The name of a controls file, e.g. ``x86-64-v3-gcc12-3f9c1a2e.acf``."""
    return f"{target}-{sha256_hex(data)[:8]}.acf"


def samples_file_name(target: str, data: bytes) -> str:
    """The name of a samples file, e.g. ``x86-64-v3-gcc12-77ab01ce.csv``."""
    return f"{target}-{sha256_hex(data)[:8]}.csv"


def render(artifact: Artifact) -> bytes:
    """The metadata as TOML, in the model's order; fields that are None, or as they are by default, are left out."""
    dumped = artifact.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
    content = {"schema": artifact.schema_, **dumped}
    # These four are written in any case, as ever: a rewrite touches no byte.
    for holder in (content, *content.get("front", ())):
        if "controls" in holder:
            holder["controls"].setdefault("knobs", {})
    for code in (code for pair in content["code"].values() for code in pair.values()):
        code.setdefault("metrics", {})
    for claim in content.get("claims", ()):
        if "conditions" in claim:
            given = {"all_streams": False, "diluted": False, **claim["conditions"]}
            claim["conditions"] = {field: given[field] for field in ConditionsTable.model_fields if field in given}
    return tomli_w.dumps(content).encode()


def restored(shown: str) -> str:
    """The command that restores a file of the store."""
    return f"restore it with git checkout -- {for_shell(shown)}"


def parse(data: bytes, shown: str, mend: str) -> Artifact:
    """The artifact that ``data`` holds, strictly parsed.

    Args:
        shown: the file as a user would type it, for messages.
        mend: the remedy for a file that cannot be read, for messages.

    Raises:
        SchemaTooNew: a later version wrote it.
        StoreError: it is invalid.
    """
    if len(data) > MAX_METADATA_BYTES:  # a parsed document takes fifty times the memory of its text
        raise StoreError(f"{shown} has {len(data)} bytes, and at most {MAX_METADATA_BYTES} are read", mend)
    if (marks := sum(map(data.count, (b".", b"[", b"{")))) > MOST_MARKS:
        raise StoreError(f"{shown} has {marks} dots and brackets, and at most {MOST_MARKS} are read", mend)
    with contained(shown, mend):
        try:
            content = tomli.loads(data.decode("utf-8"))
        except (ValueError, RecursionError) as error:  # bytes that are not text, text that is not TOML, endless digits
            raise StoreError(f"{shown} is not TOML: {error!s:.300}", mend) from error
        schema = content.get("schema")
        if type(schema) is not int:
            raise StoreError(f"{shown}: schema = {schema!r:.80}: expected a whole number", mend)
        if schema > SCHEMA:
            raise SchemaTooNew(
                f"{shown} has schema {schema!s:.40}, and this version reads up to {SCHEMA}: "
                "pip install -U pytest-compileiq"
            )
        try:
            return Artifact.model_validate(content)
        except ValidationError as error:
            raise StoreError(f"{shown}: {first_problem(error)}", mend) from error


def referenced(artifact: Artifact) -> set[str]:
    """The names of the files beside the metadata that it refers to."""
    controls = {artifact.controls.file} if artifact.controls else set()
    samples = {claim.samples for claim in artifact.claims if claim.samples}
    return controls | samples | {point.controls.file for point in artifact.front}
