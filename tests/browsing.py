"""A page in a real browser. Tests take the fixture `browser` of conftest.py; without a Chromium they are skipped."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Visit:
    """A page in a browser, and all that it complained of or asked for."""

    def __init__(self, browser: Any, report: Path, **settings: Any) -> None:
        self.tab = browser.new_context(**settings).new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.tab.on("console", lambda message: self.said.append(message.text))
        self.tab.on("pageerror", lambda error: self.said.append(str(error)))
        self.tab.on("dialog", lambda dialog: self.said.append(f"dialog {dialog.message}"))
        self.tab.on("request", lambda request: self.asked.append(request.url))
        self.tab.goto(report.as_uri())

    def close(self) -> None:
        self.tab.context.close()
