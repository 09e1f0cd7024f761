"""Starts argosy on one directory and reads the parts of a streamed search result, as a client would.

    python examples/query_gateway.py

Against a server that already runs, only `ask` is needed.
"""

# ruff: noqa: T201  (an example prints)

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

FOLDER = Path(__file__).resolve().parent


def ask(address: str, query: str) -> Iterator[dict[str, Any]]:
    """The events of a streamed search: parts as nodes answer, and the end, which says whether anything is missing."""
    body = json.dumps({"q": query, "form": "lines"}).encode()
    with urlopen(Request(f"http://{address}/v1/search/stream", body), timeout=30) as events:
        for line in events:
            yield json.loads(line)


def address_of(server: "subprocess.Popen[str]") -> str:
    """Where it listens, as it says in its log."""
    assert server.stderr is not None
    return next(str(told["address"]) for told in map(json.loads, server.stderr) if told["event"] == "node up")


def wait_until_ready(address: str, name: str) -> None:
    for _ in range(300):
        # Answered with 503 until it knows the fleet.
        with suppress(HTTPError), urlopen(f"http://{address}/v1/repositories", timeout=10) as answer:
            if {each["name"]: each["state"] for each in json.load(answer)["repositories"]}.get(name) == "ready":
                return
        time.sleep(0.1)
    raise TimeoutError(f"{name} is not ready after 30 s")


with tempfile.TemporaryDirectory() as data:
    environ = {**os.environ, "ARGOSY_NODE_DATA_DIR": data, "ARGOSY_LOG_FORMAT": "json"}
    command = [sys.executable, "-m", "argosy.cli", "up", str(FOLDER), "--port", "0"]
    with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True) as server:
        try:
            address = address_of(server)
            wait_until_ready(address, FOLDER.name)
            for event in ask(address, "sym:FixedCatalog or sym:Ring"):
                for file in event.get("files", ()):
                    line = file["lines"][0]
                    print(f"{file['repository']}/{file['path']}:{line['number']}: {line['text']}")
                if event["event"] == "end":
                    print("missing:", event["missing"] or "nothing")
        finally:
            server.terminate()  # drains, and ends with 0
