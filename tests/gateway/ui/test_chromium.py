"""The browser of the journeys: the message where there is none."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent.parent


def test_a_missing_browser_is_reported_with_a_fix() -> None:
    done = subprocess.run(
        [sys.executable, "tools/chromium.py"],
        cwd=ROOT,
        env={**os.environ, "CHROMIUM": "/no/such/program"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "$CHROMIUM is '/no/such/program', which is no program: name one, or unset it" in done.stderr
