"""A resident zoekt: its index is built into a folder, its server answers over HTTP on this machine.

Like ours it holds what it needs and is asked again and again, so it is the one peer that is measured alike. What HTTP
and JSON add is part of its figure; the CPU is the server's.
"""

import http.client
import json
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from argosy.base.errors import Unavailable
from argosy.bench.machine import cpu_s
from argosy.bench.search.bench_query import CONTEXT_LINES, FILE_LINES_MAX, Ask, Form
from argosy.bench.search.peers import Built, program
from argosy.bench.search.programs import Spent, run
from argosy.search.model import Options

START_S_MAX = 60.0
ANSWER_S_MAX = 60.0
POLL_S = 0.05
UNBOUNDED = 1_000_000_000
# Counting means to look at everything and show nothing; the other form is bounded as ours is.
BOUNDS: dict[Form, dict[str, int]] = {
    "count": {"ShardMaxMatchCount": UNBOUNDED, "TotalMaxMatchCount": UNBOUNDED, "MaxDocDisplayCount": 1},
    "top": {
        "ShardMaxMatchCount": Options().index_match_limit,
        "TotalMaxMatchCount": UNBOUNDED,
        "MaxDocDisplayCount": Options().files_max,
        "MaxMatchDisplayCount": Options().files_max * FILE_LINES_MAX,
        "NumContextLines": CONTEXT_LINES,
    },
}


class Zoekt:
    name = "zoekt"
    is_threaded = False  # it uses as many as it likes
    version = "it does not say"

    def __init__(self, process: "subprocess.Popen[bytes]", port: int, built: Built) -> None:
        self.built = built
        self._process = process
        self._port = port

    @classmethod
    def open(cls, corpus: Path, scratch: Path) -> "Zoekt":
        builder, server = program("zoekt-index"), program("zoekt-webserver")
        shards = scratch / "zoekt"
        shards.mkdir()
        spent = run(["sh", "-c", '"$0" -index "$1" "$2" 2>&1', builder, str(shards), str(corpus)], cwd=scratch).spent
        built = Built(spent, sum(path.stat().st_size for path in shards.iterdir()))
        port = _free_port()
        command = [server, "-index", str(shards), "-listen", f"127.0.0.1:{port}", "-rpc"]
        process = subprocess.Popen(command, cwd=scratch, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        peer = cls(process, port, built)
        try:
            peer._wait()
        except BaseException:
            peer.close()
            raise
        return peer

    def _wait(self) -> None:
        """Until it has read its index and finds something in it."""
        deadline = time.monotonic() + START_S_MAX
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                if self._answer("e", "count").get("FileCount"):
                    return
            except (OSError, http.client.HTTPException):
                pass  # it does not listen yet
            time.sleep(POLL_S)
        raise Unavailable(f"zoekt-webserver did not answer within {START_S_MAX:g} s: run it by hand to see why")

    def ask(self, ask: Ask, form: Form, threads: int) -> Spent:
        cpu, wall = cpu_s(self._process.pid), time.perf_counter()
        self._answer(ask.text, form)
        return Spent(cpu_s(self._process.pid) - cpu, time.perf_counter() - wall)

    def files(self, ask: Ask) -> frozenset[str] | None:
        return None

    def _answer(self, text: str, form: Form) -> dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=ANSWER_S_MAX)
        try:
            body = json.dumps({"Q": text, "Opts": BOUNDS[form]})
            connection.request("POST", "/api/search", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            told = response.read()
        finally:
            connection.close()
        if response.status != http.client.OK:
            raise Unavailable(f"zoekt answered {response.status} to {text!r}: {told[:200].decode(errors='replace')}")
        found: dict[str, Any] = json.loads(told)["Result"]
        return found

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
