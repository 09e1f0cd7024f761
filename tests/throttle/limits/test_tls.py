"""The HTTP client over TLS: it speaks to a server whose certificate it was given, and to no other.

The certificate is one that a real etcd makes for itself; there is nothing else here that makes any. (gRPC cannot be
tested with it: its library knows no P-521 keys. It is handed credentials and adds nothing of its own.)
"""

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from argosy.base.errors import Unavailable
from argosy.throttle.limits.backends.memory import MemoryLimiter
from argosy.throttle.limits.client import HttpLimiter
from tests.servers.etcd import Etcd
from tests.throttle.limits.stage import PATIENCE_S, HandClock, request, served_http


@dataclass(frozen=True)
class Papers:
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path


@pytest.fixture(scope="module")
def papers() -> Iterator[Papers]:
    with Etcd(scheme="https", options=("--auto-tls",)) as etcd:
        folder = etcd.folder / "fixtures" / "client"
        yield Papers(folder / "cert.pem", folder / "key.pem")


async def test_http_trusts_the_given_authority_only(papers: Papers, clock: HandClock) -> None:
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(papers.certificate, papers.key)
    async with served_http(MemoryLimiter(clock=clock), tls=server) as url:
        knowing = HttpLimiter(
            url, call_timeout_s=PATIENCE_S, tls=ssl.create_default_context(cafile=str(papers.certificate))
        )
        answers = [(await knowing.check([request(1)]))[0].remaining for _ in range(3)]
        await knowing.close()
        stranger = HttpLimiter(url, call_timeout_s=PATIENCE_S)
        with pytest.raises(Unavailable, match="certificate verify failed"):
            await stranger.check([request(1)])
        await stranger.close()
    assert answers == [9, 8, 7]
