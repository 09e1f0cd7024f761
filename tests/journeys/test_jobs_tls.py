"""A broker with mutual TLS, and the command line with a client certificate."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest

from argosy.jobs.silo import silo_pb2 as silo
from tests.journeys.fleet import eventually
from tests.journeys.jobs_node import Node
from tests.servers.authority import Authority

START_S = 60.0
CALL_S = 10.0


@dataclass
class TlsBroker:
    """A running broker, and the directory of its certificates."""

    node: Node
    certificates: Path


@pytest.fixture(scope="module")
def tls_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    tmp_path = tmp_path_factory.mktemp("guarded")
    ours, theirs = Authority("ours"), Authority("theirs")
    (tmp_path / "ca.pem").write_bytes(ours.pem)
    for name, (certificate, key) in {
        "server": ours.issue_certificate(),
        "client": ours.issue_certificate(),
        "no": theirs.issue_certificate(),
    }.items():
        (tmp_path / f"{name}.pem").write_bytes(certificate)
        (tmp_path / f"{name}.key").write_bytes(key)
    settings = {
        "jobs_url": f"file://{tmp_path}/jobs",
        "jobs_shards": "1",
        "jobs_grpc_port": "0",
        "node_port": "0",
        "log_format": "json",
        "jobs_tls_cert": f"{tmp_path}/server.pem",
        "jobs_tls_key": f"{tmp_path}/server.key",
        "jobs_tls_client_ca": f"{tmp_path}/ca.pem",
    }
    node = Node("guarded", tmp_path, settings)
    try:
        eventually(lambda: node.address() is not None, within_s=START_S, what="the broker is up")
        yield TlsBroker(node, tmp_path)
    finally:
        node.kill()


def call_code(tls_broker: TlsBroker, credentials: grpc.ChannelCredentials | None) -> str:
    """The status code of a call."""
    address = tls_broker.node.address() or ""
    new_channel = grpc.insecure_channel(address) if credentials is None else grpc.secure_channel(address, credentials)
    with new_channel as channel:
        call = channel.unary_unary(
            "/silo.v1.Silo/GetClusterInfo", request_serializer=silo.GetClusterInfoRequest.SerializeToString
        )
        try:
            call(silo.GetClusterInfoRequest(), timeout=CALL_S)
        except grpc.RpcError as error:
            return str(error.code().name)
        return "OK"


def test_only_clients_with_a_certificate_of_the_authority_are_served(tls_broker: TlsBroker) -> None:
    ca, client, no = ((tls_broker.certificates / f"{name}.pem").read_bytes() for name in ("ca", "client", "no"))
    client_key, no_key = ((tls_broker.certificates / f"{name}.key").read_bytes() for name in ("client", "no"))
    assert call_code(tls_broker, grpc.ssl_channel_credentials(ca, client_key, client)) == "OK"
    assert call_code(tls_broker, grpc.ssl_channel_credentials(ca)) == "UNAVAILABLE"
    assert call_code(tls_broker, grpc.ssl_channel_credentials(ca, no_key, no)) == "UNAVAILABLE"
    assert call_code(tls_broker, None) == "UNAVAILABLE"


def test_the_command_line_presents_its_certificate(tls_broker: TlsBroker) -> None:
    options = ("--ca", "ca.pem", "--cert", "client.pem", "--key", "client.key")
    command = [sys.executable, "-m", "argosy.cli", "job", "enqueue", "-a", tls_broker.node.address() or "", *options]
    put = subprocess.run(
        [*command, "mail", "--id", "kept"], cwd=tls_broker.certificates, capture_output=True, text=True, timeout=START_S
    )
    assert (put.returncode, put.stdout) == (0, "kept\n"), put.stderr
