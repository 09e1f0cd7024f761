"""Renders the chart with Helm into tests/deploy/rendered, after a change of the chart: needs `helm` on PATH, or --helm.

    python3 tools/render_chart.py [--helm PROGRAM]

No package index has Helm, so the tests read what it rendered; they fail if the chart is not the one that was rendered.
"""

import argparse
import hashlib
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "deploy" / "helm" / "argosy"
RENDERED = ROOT / "tests" / "deploy" / "rendered"
DIGEST = RENDERED / "chart.sha256"
CASES = {
    "alone": [],
    "fleet": ["registry.backend=redis", "redis.enabled=true", "search.replicas=2"],
    "sentinel": [
        "registry.backend=redis",
        "registry.url=redis+sentinel://a:26379\\,b:26379/main",
        "search.replicas=1",
        "tokens.secretName=tokens",
    ],
}


def digest() -> str:
    """Of all files of the chart."""
    files = sorted(path for path in CHART.rglob("*") if path.is_file())
    parts = [part for path in files for part in (str(path.relative_to(CHART)).encode(), path.read_bytes())]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description="Render the chart for the tests.")
    parser.add_argument("--helm", default="helm", metavar="PROGRAM")
    helm = parser.parse_args().helm
    for name, values in CASES.items():
        settings = [word for value in values for word in ("--set", value)]
        done = subprocess.run([helm, "template", "argosy", str(CHART), *settings], check=True, capture_output=True)
        lines = [line.rstrip() for line in done.stdout.decode().splitlines()]
        (RENDERED / f"{name}.yaml").write_text("\n".join(lines) + "\n")
    DIGEST.write_text(f"{digest()}\n")


if __name__ == "__main__":
    main()
