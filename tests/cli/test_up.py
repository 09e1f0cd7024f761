"""`argosy up`: a node with everything embedded starts, answers, and leaves when told."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import urlopen


@contextmanager
def node(**settings: str) -> Iterator[subprocess.Popen[str]]:
    environ = {**os.environ, "ARGOSY_NODE_PORT": "0", "ARGOSY_LOG_FORMAT": "json", **settings}
    command = [sys.executable, "-m", "argosy.cli", "up"]
    with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(process: subprocess.Popen[str], event: str, **fields: str) -> dict[str, object]:
    """Reads the node's log up to an event; a node that ends before is an error with all that it said."""
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        told: dict[str, object] = json.loads(line)
        if told["event"] == event and fields.items() <= told.items():
            return told
    raise AssertionError(f"the node ended without {event!r}:\n{''.join(said)}")


def test_a_node_starts_from_nothing_holds_its_units_and_leaves_when_told() -> None:
    with node(ARGOSY_OWNERSHIP_UNITS="alpha") as process:
        address = wait_for(process, "node up")["address"]
        assert wait_for(process, "serving")["unit"] == "alpha"
        with urlopen(f"http://{address}/readyz", timeout=10) as answer:
            assert json.load(answer)["ready"] is True
        with urlopen(f"http://{address}/v1/leases", timeout=10) as answer:
            assert [lease["unit"] for lease in json.load(answer)["leases"]] == ["alpha"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0


def test_a_node_with_wrong_settings_does_not_start() -> None:
    with node(ARGOSY_OWNERSHIP_STORE="mysql://somewhere") as process:
        assert process.stderr is not None
        said = process.stderr.read()
        assert process.wait(timeout=30) == 2
        assert said.startswith("error: there is no store 'mysql'")
