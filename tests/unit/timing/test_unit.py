"""Which specimen of a device this is: by what it is told, by the machine's id, in a container by the kernel's boot."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from pytest_compileiq.errors import NoDevice
from pytest_compileiq.model import UNIT
from pytest_compileiq.timing import clock as unit_module
from pytest_compileiq.timing import cuda_context
from pytest_compileiq.timing.clock import unit_of

MACHINE_ID, BOOT_ID = "0123456789abcdef0123456789abcdef", "11112222-3333-4444-5555-666677778888"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """The root of a machine with these ids, in a container or not; returns what its processor is called."""
    monkeypatch.delenv("ACF_MACHINE", raising=False)

    def named(machine_id=MACHINE_ID, boot_id=BOOT_ID, in_container=False) -> str:
        for path, text in (("etc/machine-id", machine_id), ("proc/sys/kernel/random/boot_id", boot_id)):
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).unlink(missing_ok=True)
            if text is not None:
                (tmp_path / path).write_text(f"{text}\n")
        monkeypatch.setattr(unit_module, "is_in_container", lambda: in_container)
        return unit_of("cpu", tmp_path)

    return named


def digest_of(text: str) -> str:
    digest = hmac.new(b"pytest-compileiq: which machine", text.encode(), hashlib.sha256).hexdigest()
    return f"CPU-{digest[:32]}"


def test_a_machine_is_known_by_a_digest_of_its_id_and_never_tells_the_id(machine):
    assert machine() == digest_of(MACHINE_ID) != machine("f" * 32)
    assert MACHINE_ID not in machine() and UNIT.fullmatch(machine())


def test_containers_of_one_image_on_one_machine_are_one_device(machine):
    first, second = machine(in_container=True), machine("f" * 32, in_container=True)
    assert first == second == digest_of(BOOT_ID) != machine(boot_id="other", in_container=True)


@pytest.mark.parametrize("machine_id", [None, "", "uninitialized", "0" * 31, MACHINE_ID.upper()])
def test_without_a_machine_id_the_boot_tells(machine, machine_id):
    assert machine(machine_id) == digest_of(BOOT_ID)


def test_where_nothing_tells_the_device_has_no_name(machine):
    assert machine(None, None) == ""


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("node-7.rack2", "node-7.rack2"),
        ("", digest_of(MACHINE_ID)),
        ("a b", digest_of("a b")),
        ("n" * 65, digest_of("n" * 65)),
    ],
)
def test_what_acf_machine_says_wins_by_a_digest_where_it_is_no_name(machine, monkeypatch, given, name):
    machine()
    monkeypatch.setenv("ACF_MACHINE", given)
    assert machine() == name


def test_a_gpu_is_known_by_its_uuid_whatever_the_machine_is_called(machine, monkeypatch):
    monkeypatch.setenv("ACF_MACHINE", "node-7")
    monkeypatch.setattr(cuda_context, "current_uuid", lambda: "GPU-1a2b3c4d-0000")
    assert unit_of("cuda") == "GPU-1a2b3c4d-0000"

    def none_here() -> str:
        raise NoDevice("there is no NVIDIA driver here")

    monkeypatch.setattr(cuda_context, "current_uuid", none_here)
    assert unit_of("cuda") == ""
