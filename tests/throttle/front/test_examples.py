"""What the throttle's page says its example prints is what it prints."""

import subprocess
import sys

from tests.house.tree import ROOT


def test_the_example_prints_what_the_page_shows() -> None:
    answer = subprocess.run([sys.executable, "examples/throttle_asgi.py"], cwd=ROOT, capture_output=True, text=True)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout
    assert answer.stdout in (ROOT / "docs" / "throttle.md").read_text()
