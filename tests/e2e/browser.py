"""A real Chromium without a window, driven through its own debugging pipe: no port is opened, no package is needed."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
TIMEOUT_S = 60.0
HEIGHT = 900
_KEYS = {"Tab": 9, "Enter": 13, "Escape": 27}


def find_browser() -> str | None:
    """The path of a Chromium or Chrome, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Page:
    """One tab. ``errors``, ``requests`` and why requests were ``blocked`` fill as the browser tells of them."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self._loaded = False
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.blocked: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)

    def open(self, path: Path) -> None:
        """Load a file from disk, and wait for its load event."""
        self._loaded = False
        self.call("Page.navigate", url=path.as_uri())
        while not self._loaded:
            self._take(self._receive())

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str, *, shift: bool = False) -> None:
        """One key, as a person presses it."""
        common = {
            "key": key,
            "code": key,
            "windowsVirtualKeyCode": _KEYS[key],
            "modifiers": 8 if shift else 0,
            "text": "\r" if key == "Enter" else "",
        }
        self.call("Input.dispatchKeyEvent", type="keyDown" if common["text"] else "rawKeyDown", **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **{**common, "text": ""})

    def type(self, text: str) -> None:
        """Text into what has the focus."""
        for one in text:
            self.call("Input.dispatchKeyEvent", type="keyDown", key=one, text=one)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=one)

    def show(self, *, width: int, dark: bool = False) -> None:
        """A viewport of this width, in light or dark mode."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=HEIGHT, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, path: Path, *, whole: bool = True) -> bytes:
        """A PNG of the page (or of what the viewport shows), written to ``path``."""
        if whole:  # sections out of view are not painted until they are scrolled to
            self.evaluate(
                "document.querySelectorAll('article').forEach(one => { one.style.contentVisibility = 'visible' })"
            )
        data = base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"])
        path.write_bytes(data)
        return data

    def accessible(self) -> list[dict[str, Any]]:
        """What a screen reader is told: role, name and properties of each node."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [
            {
                "role": node.get("role", {}).get("value"),
                "name": node.get("name", {}).get("value", ""),
                "description": node.get("description", {}).get("value", ""),
                **{one["name"]: one["value"].get("value") for one in node.get("properties", [])},
            }
            for node in nodes
            if not node["ignored"]
        ]

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the DevTools protocol and its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return dict(answer["result"])
            self._take(answer)

    def _take(self, event: dict[str, Any]) -> None:
        method, content = event.get("method"), event.get("params", {})
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Runtime.exceptionThrown":
            self.errors.append(str(content["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and content["type"] in ("error", "warning", "assert"):
            self.errors.append(str(content["args"]))
        elif method == "Log.entryAdded" and content["entry"]["level"] in ("error", "warning"):
            self.errors.append(f"{content['entry']['text']} {content['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(content["request"]["url"])
        elif method == "Network.loadingFailed":
            self.blocked.append(content.get("blockedReason", content["errorText"]))
        elif method == "Page.javascriptDialogOpening":
            self.errors.append(f"a dialog: {content['message']}")

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + TIMEOUT_S
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, deadline - time.monotonic()))
            data = os.read(self._answers, 1 << 16) if ready else b""
            assert data, "the browser ended, or did not answer in time"
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(message))


@contextmanager
def open_browser(program: str, profile: Path) -> Iterator[Page]:
    """A browser with a profile of its own, ended with everything it started."""
    command_out, command_in = os.pipe()
    answer_out, answer_in = os.pipe()
    arguments = [
        program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
        f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank",
    ]  # fmt: skip
    # The browser reads from descriptor 3 and writes to 4; a shell can put them there.
    placed = ["bash", "-c", f'exec "$@" 3<&{command_out} 4>&{answer_in}', "bash", *arguments]
    browser = subprocess.Popen(
        placed, pass_fds=(command_out, answer_in), start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(command_out)
    os.close(answer_in)
    try:
        page = Page(command_in, answer_out)
        yield page
    finally:
        os.close(command_in)  # the browser ends when its commands do
        try:
            browser.wait(timeout=10)
        except subprocess.TimeoutExpired:
            browser.kill()
            browser.wait()
        os.close(answer_out)
