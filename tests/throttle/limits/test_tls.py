"""Limits over TLS, HTTP and gRPC: a client connects only to a server whose certificate its authority has signed.

The authority is created here; so is another one, which has signed nothing.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest

from argosy.base.errors import Unavailable
from argosy.throttle.limits.backends.http import HttpLimiter
from argosy.throttle.limits.backends.memory import MemoryLimiter
from argosy.throttle.limits.gubernator.client import GrpcLimiter
from argosy.throttle.limits.gubernator.server import LimitsServer
from tests.servers.authority import Authority
from tests.throttle.limits.stage import HOST, PATIENCE_S, HandClock, request, served_http


@dataclass(frozen=True)
class Certificates:
    """A server's certificate, and two authorities a client may trust: the signer, and an unrelated one."""

    certificate: bytes
    key: bytes
    authority: bytes
    stranger: bytes


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    authority = Authority("the authority of these tests")
    return Certificates(*authority.issue_certificate(), authority.pem, Authority("a stranger").pem)


async def test_http_trusts_the_given_authority_only(
    certificates: Certificates, clock: HandClock, tmp_path: Path
) -> None:
    (tmp_path / "both.pem").write_bytes(certificates.certificate + certificates.key)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(tmp_path / "both.pem")
    async with served_http(MemoryLimiter(clock=clock), tls=server) as url:
        trusting = ssl.create_default_context(cadata=certificates.authority.decode())
        knowing = HttpLimiter(url, call_timeout_s=PATIENCE_S, tls=trusting)
        answers = [(await knowing.check([request(1)]))[0].remaining for _ in range(3)]
        await knowing.close()
        for tls in (None, ssl.create_default_context(cadata=certificates.stranger.decode())):
            wary = HttpLimiter(url, call_timeout_s=PATIENCE_S, tls=tls)
            with pytest.raises(Unavailable, match="certificate verify failed"):
                await wary.check([request(1)])
            await wary.close()
    assert answers == [9, 8, 7]


async def test_grpc_trusts_the_given_authority_only(certificates: Certificates, clock: HandClock) -> None:
    credentials = grpc.ssl_server_credentials([(certificates.key, certificates.certificate)])
    server = await LimitsServer.start(MemoryLimiter(clock=clock), f"{HOST}:0", credentials=credentials)
    address = f"{HOST}:{server.port}"
    knowing = GrpcLimiter(
        address, credentials=grpc.ssl_channel_credentials(certificates.authority), call_timeout_s=PATIENCE_S
    )
    answers = [(await knowing.check([request(1)]))[0].remaining for _ in range(3)]
    await knowing.ping()
    await knowing.close()
    for wrong in (grpc.ssl_channel_credentials(certificates.stranger), None):
        wary = GrpcLimiter(address, credentials=wrong, call_timeout_s=PATIENCE_S)
        with pytest.raises(Unavailable, match="returned unavailable"):
            await wary.check([request(1)])
        await wary.close()
    await server.stop()
    assert answers == [9, 8, 7]
