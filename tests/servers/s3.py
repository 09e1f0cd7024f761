"""A real S3 server for tests, on this machine's loopback. It forgets everything when it ends."""

import http.client
import sys

from argosy.base.backends.servers import HOST, Server, exchange
from argosy.jobs.backends.settings import ShardStoreSettings

BUCKET = "argosy-test"


class S3(Server):
    """moto's S3, which honours conditional puts as Amazon's does."""

    NAME = "s3"

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def url(self) -> str:
        return f"s3://{BUCKET}"

    def settings(self, **more: object) -> ShardStoreSettings:
        keys = {"s3_access_key_id": "test-id", "s3_secret_access_key": "test-secret"}
        return ShardStoreSettings(s3_endpoint=self.endpoint, **{**keys, **more})  # type: ignore[arg-type]

    def start(self) -> None:
        super().start()
        connection = http.client.HTTPConnection(HOST, self.port, timeout=10)
        try:
            connection.request("PUT", f"/{BUCKET}")
            assert connection.getresponse().status == 200
        finally:
            connection.close()

    def _command(self) -> list[str]:
        return [sys.executable, "-c", "from moto.server import main; main()", "-H", HOST, "-p", str(self.port)]

    def _answers(self) -> bool:
        return exchange(self.port, b"GET /moto-api/ HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200")
