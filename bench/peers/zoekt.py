"""A resident zoekt: its index is built into a directory, and its server is queried over HTTP on this machine.

Like Argosy it has its index in memory and runs query after query in one process, so it is the peer with the most
similar conditions. HTTP and JSON are part of its wall time; the CPU is that of the server.
"""

import http.client
import json
import shutil
import socket
import subprocess
import sysconfig
import time
from pathlib import Path
from typing import Any

from argosy.base.errors import NotFound, Unavailable
from argosy.bench.machine import cpu_s
from argosy.bench.search.bench_query import CONTEXT_LINES, FILE_LINES_MAX, BenchQuery, Form
from argosy.bench.search.peers import IndexCost
from argosy.bench.search.programs import CpuAndWall, run_program
from argosy.search.model import Options

START_S_MAX = 60.0
RESPONSE_S_MAX = 60.0
POLL_S = 0.05
UNBOUNDED = 1_000_000_000
# `count` scans everything and shows almost nothing; `top` has the limits that Argosy has.
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
    """`zoekt-webserver` with an index of the corpus."""

    name = "zoekt"
    is_threaded = False  # it chooses the number itself
    version = "unknown"

    def __init__(self, process: "subprocess.Popen[bytes]", port: int, index_cost: IndexCost) -> None:
        self.index_cost = index_cost
        self._process = process
        self._port = port

    @classmethod
    def open(cls, corpus: Path, scratch: Path) -> "Zoekt":
        builder, server = find_program("zoekt-index"), find_program("zoekt-webserver")
        shards = scratch / "zoekt"
        shards.mkdir()
        # It logs on stderr, which `run_program` takes for an error.
        spent = run_program(
            ["sh", "-c", '"$0" -index "$1" "$2" 2>&1', builder, str(shards), str(corpus)], cwd=scratch
        ).spent
        index_cost = IndexCost(spent, sum(path.stat().st_size for path in shards.iterdir()))
        port = _free_port()
        command = [server, "-index", str(shards), "-listen", f"127.0.0.1:{port}", "-rpc"]
        process = subprocess.Popen(command, cwd=scratch, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        peer = cls(process, port, index_cost)
        try:
            peer._wait()
        except BaseException:
            peer.close()
            raise
        return peer

    def _wait(self) -> None:
        """Wait until it has loaded its index and finds something in it."""
        deadline = time.monotonic() + START_S_MAX
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                if self._request("e", "count").get("FileCount"):
                    return
            except (OSError, http.client.HTTPException):
                pass  # not listening yet
            time.sleep(POLL_S)
        raise Unavailable(f"zoekt-webserver did not respond within {START_S_MAX:g} s; run it by hand to see why")

    def run_query(self, query: BenchQuery, form: Form, threads: int) -> CpuAndWall:
        cpu, wall = cpu_s(self._process.pid), time.perf_counter()
        self._request(query.text, form)
        return CpuAndWall(cpu_s(self._process.pid) - cpu, time.perf_counter() - wall)

    def matching_files(self, query: BenchQuery) -> frozenset[str] | None:
        return None  # it skips long lines and odd files, so its files differ by design

    def _request(self, text: str, form: Form) -> dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=RESPONSE_S_MAX)
        try:
            body = json.dumps({"Q": text, "Opts": BOUNDS[form]})
            connection.request("POST", "/api/search", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        if response.status != http.client.OK:
            message = content[:200].decode(errors="replace")
            raise Unavailable(f"zoekt responded with {response.status} to {text!r}: {message}")
        found: dict[str, Any] = json.loads(content)["Result"]
        return found

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def find_program(name: str) -> str:
    """The path of a program: beside this interpreter, or on PATH."""
    found = shutil.which(name, path=sysconfig.get_path("scripts")) or shutil.which(name)
    if found is None:
        raise NotFound(f"{name} is neither in this environment nor on PATH")
    return found
