"""Drives headless Chromium over a pipe: opens a page, asks it, takes its picture, in real time."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_FLAGS = (
    "headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking", "disable-sync",
    "disable-component-update", "disable-extensions", "remote-debugging-pipe", "hide-scrollbars",
)  # fmt: skip


class Navigated(Exception):
    """The page that was asked has given way to another one."""


class Chromium:
    """A browser with one page.

    Attributes:
        said: What the page wrote to its console, and what it failed at.
    """

    def __init__(self, profile: Path) -> None:
        assert PROGRAM is not None
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        # The browser reads commands from descriptor 3 and answers on 4.
        command = [PROGRAM, *(f"--{flag}" for flag in _FLAGS), f"--user-data-dir={profile}", "about:blank"]
        script = f'exec 3<&{theirs_in} 4>&{theirs_out}; exec "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", *command],
            pass_fds=(theirs_in, theirs_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self.said: list[str] = []
        self._numbers = itertools.count(1)
        self._answers: dict[int, Any] = {}
        self._come = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for room in ("Page", "Runtime", "Log"):
            self.ask(f"{room}.enable")

    def ask(self, method: str, **parameters: Any) -> Any:
        """Send a command and wait for its answer."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if hasattr(self, "_session"):
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        with self._come:
            assert self._come.wait_for(lambda: number in self._answers, 60), method
            answer = self._answers.pop(number)
        if "navigated" in answer.get("error", {}).get("message", ""):
            raise Navigated(answer["error"]["message"])
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    def open(self, url: str, width: int = 1280, dark: bool = False) -> None:
        """Open a page in a window of a width."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.ask("Page.navigate", url=url)

    def value(self, expression: str) -> Any:
        """What an expression is worth in the page."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, expression: str, patience: float = 60) -> None:
        """Wait until an expression is true in the page."""
        until = time.monotonic() + patience
        asked = (
            f"(() => {{ try {{ return Boolean({expression}); }} catch {{ return null; }} }})()"  # nothing is there yet
        )
        while not self._holds(asked):
            assert time.monotonic() < until, (expression, self.said, self.value("document.body.innerText"))
            time.sleep(0.05)

    def _holds(self, expression: str) -> bool:
        """Whether an expression is true now; not where the page goes over to another one while it is asked."""
        try:
            return bool(self.value(expression))
        except Navigated:
            return False

    def picture(self, path: Path) -> None:
        """Take a picture of the whole page."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        told = self.ask("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(told["data"]))

    def close(self) -> None:
        """End the browser."""
        self._process.terminate()
        self._process.wait(30)
        os.close(self._out)

    def _read(self) -> None:
        with os.fdopen(self._in, "rb") as stream:
            rest = b""
            while chunk := stream.read1():
                *messages, rest = (rest + chunk).split(b"\0")
                for message in map(json.loads, messages):
                    self._take(message)

    def _take(self, message: dict[str, Any]) -> None:
        if "id" in message:
            with self._come:
                self._answers[message["id"]] = message
                self._come.notify_all()
        elif message["method"] == "Runtime.exceptionThrown":
            self.said.append(json.dumps(message["params"]["exceptionDetails"])[:2000])
        elif message["method"] == "Runtime.consoleAPICalled":
            self.said.append(json.dumps(message["params"]["args"])[:2000])
        elif message["method"] == "Log.entryAdded":
            self.said.append(json.dumps(message["params"]["entry"])[:2000])
