"""A headless Chromium for tests of pages, driven over pipes: no port is opened and nothing is fetched."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip
_PATIENCE_SECONDS = 120.0


def executable() -> str | None:
    """Return where Chromium is, None where there is none."""
    return next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
    )


needs_browser = pytest.mark.skipif(executable() is None, reason="no Chromium on this machine")


class Browser:
    """One browser with one tab; use it in a `with` block."""

    def __enter__(self) -> Browser:
        found = executable()
        assert found is not None
        self._profile = tempfile.TemporaryDirectory(prefix="revalued-browser-", ignore_cleanup_errors=True)
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        # the browser reads commands from descriptor 3 and answers on 4
        wrapper = f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}'
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", wrapper, found, *_FLAGS, f"--user-data-dir={self._profile.name}"],
            pass_fds=(to_browser, from_browser),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._buffer, self._count, self._session = b"", 0, ""
        target = self._call("Target.createTarget", {"url": "about:blank"})["targetId"]
        self._session = self._call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        self._call("Page.enable")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._write)
        os.close(self._read)
        self._profile.cleanup()

    def open(self, page: Path, width: int, height: int = 900, dark: bool = False) -> None:
        """Load a file in a window of this size; a narrow one is a phone."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self._call("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", {"features": [scheme]})
        self._call("Page.navigate", {"url": page.resolve().as_uri()})
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not self.evaluate("document.readyState === 'complete' && location.href !== 'about:blank'"):
            assert time.monotonic() < deadline, f"{page} does not load"
            time.sleep(0.02)

    def evaluate(self, script: str) -> Any:
        """Return the value of a JavaScript expression on the page."""
        answer = self._call("Runtime.evaluate", {"expression": script, "returnByValue": True})
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def screenshot(self, path: Path, whole: bool = True) -> None:
        """Save what the page looks like, all of it or what fits the window."""
        options: dict[str, Any] = {"format": "png", "captureBeyondViewport": whole}
        if whole:
            size = self._call("Page.getLayoutMetrics")["cssContentSize"]
            options["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        path.write_bytes(base64.b64decode(self._call("Page.captureScreenshot", options)["data"]))

    def print_pdf(self, path: Path) -> None:
        """Save the page as it would be printed."""
        path.write_bytes(base64.b64decode(self._call("Page.printToPDF", {"preferCSSPageSize": True})["data"]))

    def _call(self, method: str, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters or {}}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next_message()
            if answer.get("id") == self._count:  # the rest are events
                assert "error" not in answer, (method, answer["error"])
                result: dict[str, Any] = answer["result"]
                return result

    def _next_message(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], _PATIENCE_SECONDS)
            assert ready, "the browser does not answer"
            part = os.read(self._read, 1 << 20)
            assert part, "the browser has gone"
            self._buffer += part
        raw, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(raw)
        return message
