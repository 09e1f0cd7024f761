"""Tracing is off without a collector; with one, it receives the node's spans."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.journeys.fleet import NodeProcess, eventually


class Collector(HTTPServer):
    """Stores the bodies that an OTLP exporter sends."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Receiver)
        self.bodies: list[bytes] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1/traces"


class Receiver(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        self.server.bodies.append(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Quiet."""


@contextmanager
def run_collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def collector() -> Iterator[Collector]:
    with run_collector() as server:
        yield server


def test_a_configured_collector_receives_the_spans_of_a_node(collector: Collector, tmp_path: Path) -> None:
    settings = {"ownership_units": "traced-unit", "tracing_endpoint": collector.url, "tracing_service_name": "one-node"}
    node = NodeProcess("n1", tmp_path, settings)
    node.start()
    try:
        eventually(lambda: '"serving started"' in node.log.read_text(), within_s=30, what="the unit is served")
        node.signal(signal.SIGTERM)
        assert node.process.wait(timeout=30) == 0
    finally:
        node.kill()
    received = b"".join(collector.bodies)
    for span_text in (b"one-node", b"ownership PlaceBid", b"ownership Warm", b"traced-unit"):
        assert span_text in received
