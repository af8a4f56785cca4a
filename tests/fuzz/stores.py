"""Hostile stores, made by number: a valid one, changed where its structure says that it could hurt."""

import contextlib
import copy
import datetime
import hashlib
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pytest_compileiq.store.metadata import controls_file_name
from pytest_compileiq.store.samples import HEADER
from tests.fuzz.drafts import BASES, BLOB, Content, Draft, finished
from tests.fuzz.trees import DIRECTORY, PIPE, SPARSE, Link, Tree

# ── values that hurt ─────────────────────────────────────────────────────────────────────────────────────────────

COMMANDS = (
    "::error::pwn",
    "\n::stop-commands::zz",
    "  ::add-mask::a",
    "##[error]x",
    "x ##[group]y",
    "\n##vso[task.setvariable]x",
)
TEXTS = (
    "", " ", "\x00", "\t", "\r\n", "\x1b[2J\x1b[31m", "\x1b]0;title\x07", "\x9b31m", "\x7f", "\u202eevil\u2066", "\u2028", "\ufeff", "\u00a0",
    "🧨" * 30, "e\u0301" * 50, "日本語", "\U0010ffff", "x" * 1999, "x" * 2001, "x" * 100_000, "%s%n%x{0}{reason}", "$(touch pwned)", "`touch pwned`",
    "<script>alert(1)</script>", "a|b`c``d", "[x](http://evil)", "@everyone", "&lt;", "'\"\\", "-fplugin=evil.so", "@evil", "-o/tmp/evil", "nan",
    "../../outside/canary", "/etc/passwd", "/dev/zero", "/dev/stdin", "out/canary", "pipe", "loop", "C:\\evil", "CON", "~root", "a/" * 500, ".",
    *COMMANDS,
)  # fmt: skip
NUMBERS = (
    0, 1, -1, 2**31, 2**53, 2**63 - 1, 2**63, -(2**63) - 1, 10**12, 10**30, 10**4000, True, False, 0.0, -0.0, 5e-324, 1e-300, 1e-12, 1e30, 1.7e308,
    float("inf"), float("-inf"), float("nan"),
)  # fmt: skip
OTHERS: tuple[Any, ...] = (
    [], {}, [[]], [{}], [1, "a", 2.5, [True]], {"a": {"b": {}}}, ["x"] * 3000, {f"k{n}": n for n in range(3000)},
    datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), datetime.date(1, 1, 1), datetime.time(23, 59),
)  # fmt: skip
RAW = (
    "9" * 5000,
    "0x" + "f" * 50_000,
    "1e999999999",
    "[" * 3000,
    "{a = " * 400,
    "9999-99-99",
    '"\\ud800"',
    "'''\n::error::x'''",
    "1__0",
    "inf",
    "nan",
)
NAMES = (
    b"caf\xe9", b"new\nline", b"\x1b[31m", b"::error::x", b"##[error]", b".hidden", b"-rf", b"a b", b".toml", b"..toml", b"x.TOML", b"%s",
    b"n" * 255, b".partial-abc", b"\xff\xfe", "\u202e".encode(), b"kernel.toml.toml", b"sm_90a-ptxas13.3.toml", b"a,b", b"a:b",
)  # fmt: skip


# ── changes that know the structure ──────────────────────────────────────────────────────────────────────────────

Mutation = Callable[[random.Random, Draft, Tree], None]


def _places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every path into a parsed document."""
    found = [at] if at else []
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [*found, *(place for key, one in inner for place in _places(one, (*at, key)))]


def _parent(content: Content, place: tuple[Any, ...]) -> Any:
    for key in place[:-1]:
        content = content[key]
    return content


def _value(pick: random.Random, old: Any) -> Any:
    kind = pick.randrange(10)
    if kind < 3:
        return pick.choice(TEXTS)
    if kind < 6:
        return pick.choice(NUMBERS)
    if kind == 6 and isinstance(old, str):
        return old + pick.choice(TEXTS[:40])
    if kind == 7 and isinstance(old, int | float) and not isinstance(old, bool):
        return pick.choice((-old, old * 2, old + 1, old / 3, float(old), old * 10**9))
    return copy.deepcopy(pick.choice(OTHERS))


def change_value(pick: random.Random, draft: Draft, tree: Tree) -> None:
    """Another value, of another type or beyond all bounds, somewhere."""
    place = pick.choice(_places(draft.content) or [("schema",)])
    _parent(draft.content, place)[place[-1]] = _value(pick, _parent(draft.content, place)[place[-1]])


def change_text(pick: random.Random, draft: Draft, tree: Tree) -> None:
    """A hostile text where a free text stands: the artifact stays valid."""
    texts = [
        one
        for one in _places(draft.content)
        if isinstance(_parent(draft.content, one)[one[-1]], str) and one[-1] not in ("sha256", "file")
    ]
    for place in pick.sample(texts, min(len(texts), pick.randint(1, 4))):
        _parent(draft.content, place)[place[-1]] = pick.choice(TEXTS)


def change_key(pick: random.Random, draft: Draft, tree: Tree) -> None:
    """A key that is another, is missing, or is one too many."""
    tables = [place for place in _places(draft.content) if isinstance(_parent(draft.content, place), dict)]
    if not tables:
        return
    place = pick.choice(tables)
    table = _parent(draft.content, place)
    if pick.random() < 0.4:
        table[pick.choice(TEXTS)] = pick.choice((1, "x", {}))
    value = table.pop(place[-1]) if pick.random() < 0.7 else None
    if value is not None and pick.random() < 0.5:
        table[pick.choice(TEXTS)] = value


def swap_values(pick: random.Random, draft: Draft, tree: Tree) -> None:
    """What stands in one place stands in another."""
    places = _places(draft.content)
    if len(places) < 2:
        return
    one, other = pick.sample(places, 2)
    with contextlib.suppress(KeyError, IndexError, TypeError):
        _parent(draft.content, one)[one[-1]] = copy.deepcopy(_parent(draft.content, other)[other[-1]])


def hostile_tables(pick: random.Random, draft: Draft, tree: Tree) -> None:
    """Free keys (knobs, sources, entry functions, metrics) that hurt, in a document that stays valid."""
    which, many = (
        pick.choice(("knobs", "sources", "code", "metrics", "failures")),
        pick.choice((1, 1, 3, 3, 60, 60, 60, 1500)),
    )
    keys = [pick.choice(TEXTS) + (str(n) if n else "") for n in range(many)]
    pair = {"baseline": {"sha256": "a" * 64}, "tuned": {"sha256": "b" * 64}}
    if which == "knobs" and "controls" in draft.content:
        draft.content["controls"].setdefault("knobs", {}).update(
            {key: pick.choice(("", 3, 2.5, True, pick.choice(TEXTS))) for key in keys}
        )
    elif which == "sources":
        draft.content["fingerprint"].setdefault("sources", {}).update(dict.fromkeys(keys, "c" * 64))
    elif which == "code":
        draft.content.setdefault("code", {}).update({key: copy.deepcopy(pair) for key in keys})
    elif which == "metrics":
        for one in draft.content.get("code", {}).values():
            one["baseline"]["metrics"] = {key: pick.choice((0, 1, 2**62, -5)) for key in keys[:100]}
    else:
        draft.content["search"]["failures"] = dict.fromkeys(keys[:32], 1)


def more_claims(pick: random.Random, draft: Draft, tree: Tree) -> None:
    """Many claims, devices, workloads, points; what bounds the work is the number of them."""
    claims = draft.content.get("claims") or []
    if not claims:
        return
    for number in range(pick.choice((1, 1, 5, 5, 100, 100, 100, 1200))):
        claims.append(
            copy.deepcopy(pick.choice(claims)) | {pick.choice(("device", "workload", "objective")): f"x{number}"}
        )


def costly_test(pick: random.Random, draft: Draft, tree: Tree) -> None:
    """Parameters of the decision that would cost time."""
    for claim in draft.content.get("claims") or []:
        if "test" in claim:
            claim["test"] |= pick.choice((
                {"flips": pick.choice((0, 1, 2**20, 2**20 + 1, 10**12))}, {"seed": pick.choice((-1, 2**63 - 1, 2**64))},
                {"level": pick.choice((1e-300, 1e-12, 0.0033, 1.0))}, {"processes": pick.choice((1, 1000, 10**9))}, {"alpha": 1.0, "level": 0.33},
                {"flips": 2**20, "level": 1e-5}, {"look": 10**9}, {"min_speedup": 1000.0}, {"max_regression": 0.5},
            ))  # fmt: skip


def cross_reference(pick: random.Random, draft: Draft, tree: Tree) -> None:
    """Names and digests that point elsewhere."""
    name = pick.choice(
        (
            "other.acf",
            "kernel.toml",
            f"{draft.target}.toml",
            "../outside/canary",
            "/etc/passwd",
            "pipe",
            "x.csv",
            ".partial-x",
            ".",
        )
    )
    if pick.random() < 0.4 and "controls" in draft.content:
        draft.content["controls"]["file"] = name
    elif pick.random() < 0.6:
        for claim in draft.content.get("claims") or []:
            claim["samples"] = name
    else:
        draft.content[pick.choice(("target", "benchmark"))] = pick.choice(
            ("other", "sm_90a-ptxas13.3", "t.py::t", "/etc/passwd::x", "../../x::y")
        )


def other_controls(pick: random.Random, draft: Draft, tree: Tree) -> None:
    """Another controls file, with digest, size and name to match, and sometimes knobs too."""
    data = pick.choice((
        b"", b"-O3\n-fplugin=evil.so\n", b"-wrapper /bin/sh\n", b"@evil\n", b"\x00" * 64, b"\xff\xfe\n", b"-O3\n" * 20_000, BLOB, b"\x1b[31m\n::error::x\n",
        b"x" * (1 << 20), b"x" * ((1 << 20) + 1),
    ))  # fmt: skip
    draft.controls = data
    if "controls" in draft.content:
        digest = hashlib.sha256(data).hexdigest()
        draft.content["controls"] |= {
            "file": controls_file_name(draft.target, data),
            "sha256": digest,
            "size_bytes": len(data),
        }
        if pick.random() < 0.5:
            options = data.decode("latin-1").splitlines()[:50]
            draft.content["controls"]["knobs"] = dict.fromkeys(options, "")


def other_rows(pick: random.Random, draft: Draft, tree: Tree) -> None:
    """Samples of another size, design or device; what is claimed is recomputed from them."""
    rows = draft.rows
    if not rows:
        return
    scale = pick.choice((1.0, 1e-25, 1e25, 1e-29, 3e29, 0.0, -1.0))
    kind = pick.randrange(8)
    if kind == 0:
        draft.rows = [replace(row, value=row.value * scale) for row in rows]
    elif kind == 1:
        draft.rows = [replace(row, value=1e-4 if row.arm == "baseline" else 5e-5) for row in rows]
    elif kind == 2:
        draft.rows = [replace(row, dropped=pick.random() < 0.3) for row in rows]
    elif kind == 3:
        draft.rows = pick.sample(rows, pick.randrange(len(rows)))
    elif kind == 4:
        draft.rows = [replace(row, process=row.process * 7 % 1000) for row in rows]
    elif kind == 5:
        draft.rows = [replace(row, value=10.0 ** pick.uniform(-30, 30)) for row in rows]
    elif kind == 6:
        draft.rows = [row for row in rows for _ in range(2)]
    else:
        text = pick.choice(TEXTS).replace("\n", " ").replace("\r", " ").replace("\0", "")[:1000]
        draft.rows = [replace(row, device=text) for row in rows]
        for claim in draft.content.get("claims") or []:
            claim["device"] = text


def spoil_samples(pick: random.Random, draft: Draft, tree: Tree) -> None:
    """The samples file's text changed, with its name made to match."""
    line = ",".join(HEADER)
    wrong = pick.choice((
        b"", b"\xff", b"x\n", b'"', b"a,b,c,0,0,0,tuned,0,1.0\n", b"a,b,c,0,0,0,tuned,0,nan,0\n", b'"a\nb",c,d,0,0,0,tuned,0,1.0,0\n',
        b"a,b,c," + b"9" * 5000 + b",0,0,tuned,0,1,0\n", line.encode() + b"\n", b"," * 10_000, b"\x00" * 100, b"\r\n",
        b"".join(b"d%d,w,o,0,0,0,tuned,0,1.0,0\n" % n for n in range(1200)), b"cpu,w,o,0,0,0,tuned,0,1.0,0\n" * 30_000,
    ))  # fmt: skip
    at = pick.random()
    draft.spoil_samples.append(lambda data: data[: int(len(data) * at)] + wrong + data[int(len(data) * at) :])
    if pick.random() < 0.3:
        draft.spoil_samples.append(lambda data: data[: int(len(data) * pick.random())])


def spoil_text(pick: random.Random, draft: Draft, tree: Tree) -> None:
    """The metadata's bytes changed, as no TOML writer would."""
    kind, where, number = pick.randrange(9), pick.random(), pick.randrange(256)

    def spoil(data: bytes) -> bytes:
        at = int(len(data) * where)
        return {
            0: lambda: data[:at],
            1: lambda: data[:at] + bytes([number]) + data[at + 1 :],
            2: lambda: data[:at] + pick.choice(TEXTS).encode() + data[at:],
            3: lambda: b"\xef\xbb\xbf" + data,
            4: lambda: data.replace(b"\n", b"\r\n"),
            5: lambda: data.replace(b"= 1\n", f"= {pick.choice(RAW)}\n".encode(), 1),
            6: lambda: data + f"\nx = {pick.choice(RAW)}\n".encode(),
            7: lambda: ("a." * number * 20 + "b = 1\n").encode() + data,
            8: lambda: data + b"".join(b"[t%d.%s]\n" % (n, b"a." * 50 + b"z") for n in range(number * 20)),
        }[kind]()

    draft.spoil.append(spoil)


def layout(pick: random.Random, draft: Draft, tree: Tree) -> None:
    """Links, pipes, directories and odd names where files belong."""
    folder = draft.name.encode() + b"/"
    odd = pick.choice(
        (
            Link("../outside/canary"),
            Link("../../outside/canary"),
            Link("/dev/zero"),
            Link("loop"),
            PIPE,
            DIRECTORY,
            SPARSE,
            b"",
            b"x",
        )
    )
    place = pick.choice((
        folder + draft.target.encode() + b".toml", folder + b"other.toml", folder + pick.choice(NAMES), pick.choice(NAMES), folder + b"x/y/z",
        pick.choice(NAMES) + b"/" + pick.choice(NAMES), b"other/" + draft.target.encode() + b".toml", b"loop", folder[:-1],
    ))  # fmt: skip
    tree.files[place] = odd


def another_artifact(pick: random.Random, draft: Draft, tree: Tree) -> None:
    """A neighbour: what one does costs the other nothing."""
    other = pick.choice(BASES)()
    other.name = pick.choice(("neighbour", "kernel", "A" * 200, "0", "a.b-c_d"))
    for _ in range(pick.randrange(3)):
        change(pick.choice(STRUCTURED), pick, other, tree)
    tree.files |= finished(pick, other).files


STRUCTURED: tuple[Mutation, ...] = (
    change_value, change_value, change_value, change_text, change_text, change_key, swap_values, hostile_tables, hostile_tables, more_claims,
    costly_test, cross_reference, other_controls, other_rows, other_rows, spoil_samples, spoil_text, layout,
)  # fmt: skip
MUTATIONS: tuple[Mutation, ...] = (*STRUCTURED, layout, another_artifact)


# ── put together ─────────────────────────────────────────────────────────────────────────────────────────────────


def make(seed: int, number: int) -> Tree:
    """The store of one number; the same for the same numbers."""
    pick = random.Random(f"{seed}/{number}")
    draft, tree = pick.choice(BASES)(), Tree()
    for _ in range(pick.choice((1, 1, 2, 2, 3, 5))):
        change(pick.choice(MUTATIONS), pick, draft, tree)
    below = finished(pick, draft).files
    return Tree(below | tree.files)  # what is laid out oddly takes the place of what belongs there


def change(mutation: Mutation, pick: random.Random, draft: Draft, tree: Tree) -> None:
    """Apply one change; one whose place another has spoilt does nothing."""
    with contextlib.suppress(AttributeError, KeyError, TypeError, ValueError):
        mutation(pick, draft, tree)
