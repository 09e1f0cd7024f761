"""What is asked of S3 directly: are puts conditional, and which shards are there."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from argosy.base.errors import Invalid, Unavailable
from argosy.jobs.backends.opening import ShardStore
from argosy.jobs.backends.s3 import REGION_DEFAULT, Bucket, bucket_of
from argosy.jobs.backends.s3_signing import S3Keys
from argosy.jobs.backends.settings import ShardStoreSettings
from tests.servers.s3 import BUCKET, S3

NO_KEYS = S3Keys("", "")


class Careless(BaseHTTPRequestHandler):
    """An S3 that takes every put, whatever its conditions: such servers exist."""

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(200)
        self.end_headers()

    def do_DELETE(self) -> None:
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def careless() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Careless)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def with_keys(endpoint: str) -> ShardStoreSettings:
    return ShardStoreSettings(s3_endpoint=endpoint, s3_access_key_id="id", s3_secret_access_key="secret")


async def test_an_s3_that_ignores_conditions_is_refused(careless: str) -> None:
    with pytest.raises(Invalid, match="If-None-Match"):
        await ShardStore.open("s3://some-bucket/jobs", with_keys(careless))


async def test_an_s3_that_honours_conditions_is_accepted_and_left_clean(s3_server: S3) -> None:
    store = await ShardStore.open(f"{s3_server.url}/clean", s3_server.settings())
    assert await store.shards() == []
    bucket = Bucket(BUCKET, REGION_DEFAULT, s3_server.endpoint, S3Keys("id", "secret"))
    left = await bucket._ask("GET", "", query={"list-type": "2", "prefix": "clean/"})
    assert b"<Key>" not in left.body
    await store.close()


async def test_a_bucket_that_is_not_there_is_told(s3_server: S3) -> None:
    with pytest.raises(Invalid, match="404 NoSuchBucket"):
        await ShardStore.open("s3://no-such-bucket/jobs", s3_server.settings())


async def test_an_s3_that_cannot_be_reached_is_unavailable(careless: str) -> None:
    with pytest.raises(Unavailable, match="cannot be reached"):
        await ShardStore.open("s3://some-bucket", with_keys("http://127.0.0.1:1"))


async def test_without_keys_nothing_is_tried_and_the_error_says_what_to_set() -> None:
    with pytest.raises(Invalid, match="s3_access_key_id"):
        await ShardStore.open("s3://some-bucket")


async def test_whoever_trusts_an_s3_may_skip_the_probe(careless: str) -> None:
    settings = ShardStoreSettings(s3_endpoint=careless, s3_probe="never")
    store = await ShardStore.open("s3://some-bucket", settings)
    with pytest.raises(Invalid, match="needs keys"):
        await store.shards()
    await store.close()


def test_settings_outrank_the_customary_variables() -> None:
    environ = {
        "AWS_ACCESS_KEY_ID": "env-id", "AWS_SECRET_ACCESS_KEY": "env-secret", "AWS_REGION": "eu-west-1",
        "AWS_ENDPOINT": "http://localhost:9000/",
    }  # fmt: skip
    from_environ = bucket_of("bucket", endpoint="", region="", keys=NO_KEYS, environ=environ)
    assert from_environ == Bucket("bucket", "eu-west-1", "http://localhost:9000", S3Keys("env-id", "env-secret"))
    keys = S3Keys("id", "secret")
    chosen = bucket_of("bucket", endpoint="https://s3.example", region="here", keys=keys, environ=environ)
    assert chosen == Bucket("bucket", "here", "https://s3.example", keys)
    assert bucket_of("bucket", endpoint="", region="", keys=NO_KEYS, environ={}).keys is None


@pytest.mark.parametrize("name", ["", "UPPER", "a", "under_score", "-begins", "x" * 64])
def test_what_cannot_be_a_bucket_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match="bucket"):
        Bucket(name, REGION_DEFAULT)


async def test_a_listing_of_many_shards_is_read_page_by_page(s3_server: S3) -> None:
    bucket = Bucket(BUCKET, REGION_DEFAULT, s3_server.endpoint, S3Keys("id", "secret"))
    names = [f"shard-{number:04d}" for number in range(7)]
    for name in names:
        await bucket._ask("PUT", f"many/{name}/manifest/1", body=b"1")
    assert await bucket.folders("many/") == names
    page = await bucket._ask("GET", "", query={"list-type": "2", "prefix": "many/", "delimiter": "/", "max-keys": "3"})
    assert b"NextContinuationToken" in page.body, "this server pages as Amazon's does"
