"""The endpoints that give a machine the credentials of its role, on the loopback address.

One server provides both: the metadata service of an instance (IMDSv2) and the agent of a container (EKS pod identity).
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

from argosy.jobs.backends.s3 import S3Keys

HOST = "127.0.0.1"
METADATA_TOKEN = "metadata-token"
LIFETIME = timedelta(hours=1)


class CredentialsServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, keys: S3Keys) -> None:
        super().__init__((HOST, 0), _Handler)
        self.keys = keys
        self.requests: list[tuple[str, str]] = []  # path and authorization

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: CredentialsServer
    protocol_version = "HTTP/1.1"
    ROLE_PATH: ClassVar[str] = "/latest/meta-data/iam/security-credentials"

    def do_PUT(self) -> None:
        self._answer(METADATA_TOKEN, "text/plain")

    def do_GET(self) -> None:
        shown = self.headers.get("x-aws-ec2-metadata-token") or self.headers.get("authorization") or ""
        self.server.requests.append((self.path, shown))
        if self.path.rstrip("/") == self.ROLE_PATH:
            self._answer("test-role", "text/plain")
            return
        keys = self.server.keys
        credentials = {
            "Code": "Success",
            "AccessKeyId": keys.access_key_id,
            "SecretAccessKey": keys.secret_access_key,
            "Token": keys.session_token,
            "Expiration": _expiration(),
        }
        self._answer(json.dumps(credentials), "application/json")

    def _answer(self, text: str, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Prints nothing."""


def _expiration() -> str:
    return (datetime.now(UTC) + LIFETIME).strftime("%Y-%m-%dT%H:%M:%SZ")


@contextmanager
def serve_credentials(keys: S3Keys) -> Iterator[CredentialsServer]:
    server = CredentialsServer(keys)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
