"""S3 by obstore: conditional puts, listing of shards, the choice of credentials, and error messages."""

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from argosy.base.errors import Conflict, Invalid, Unavailable
from argosy.base.kv import Batch
from argosy.jobs.backends import s3
from argosy.jobs.backends.s3 import REGION_DEFAULT, S3Bucket, S3Keys, bucket_of
from argosy.jobs.backends.shard_map_store import open_shard_map_store
from argosy.jobs.backends.shard_store import SlateShardStore
from argosy.jobs.settings import ShardStoreSettings
from tests.servers.aws_credentials import METADATA_TOKEN, CredentialsServer, serve_credentials
from tests.servers.s3 import BUCKET, S3, GuardedS3

NOWHERE = "http://127.0.0.1:1"
TOKEN = "web-identity-token"


class UnconditionalS3(BaseHTTPRequestHandler):
    """An S3 that accepts every put and ignores its conditions, as some servers do."""

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(200)
        self.send_header("etag", '"x"')
        self.end_headers()

    def do_DELETE(self) -> None:
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Prints nothing."""


@pytest.fixture
def unconditional_s3() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), UnconditionalS3)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def guarded_s3() -> Iterator[tuple[GuardedS3, S3Keys]]:
    with GuardedS3() as server:
        yield server, server.assume_role()


@pytest.fixture
def credentials(guarded_s3: tuple[GuardedS3, S3Keys]) -> Iterator[CredentialsServer]:
    with serve_credentials(guarded_s3[1]) as server:
        yield server


def with_keys(endpoint: str) -> ShardStoreSettings:
    return ShardStoreSettings(s3_endpoint=endpoint, s3_access_key_id="id", s3_secret_access_key="top-secret")


async def check_access(url: str, settings: ShardStoreSettings, environ: dict[str, str]) -> None:
    """The probe, SlateDB, a listing, a clone and the shard map, all with the same credentials."""
    store = await SlateShardStore.open(url, settings, environ=environ)
    rows = await store.shard("one")
    await rows.write(Batch().put(b"key", b"value"))
    await rows.close()
    await store.clone("one", "two")
    assert await store.shards() == ["one", "two"]
    assert await open_shard_map_store(url, settings, environ).newest() is None
    await store.close()


async def test_an_s3_that_ignores_conditions_is_rejected(unconditional_s3: str) -> None:
    with pytest.raises(Invalid, match="If-None-Match"):
        await SlateShardStore.open("s3://some-bucket/jobs", with_keys(unconditional_s3))


async def test_an_s3_that_honours_conditions_is_accepted_and_left_clean(s3_server: S3) -> None:
    store = await SlateShardStore.open(f"{s3_server.url}/clean", s3_server.settings())
    assert await store.shards() == []
    assert await bucket_of(BUCKET, s3_server.settings(), {}).list_folder("clean/") == ([], [])
    await store.close()


async def test_static_keys_with_a_session_token_are_used(guarded_s3: tuple[GuardedS3, S3Keys]) -> None:
    server, keys = guarded_s3
    settings = ShardStoreSettings(
        s3_endpoint=server.endpoint,
        s3_access_key_id=keys.access_key_id,
        s3_secret_access_key=keys.secret_access_key,
        s3_session_token=keys.session_token,
    )
    await check_access(f"{server.url}/keys", settings, {})


async def test_keys_of_the_environment_are_used(guarded_s3: tuple[GuardedS3, S3Keys]) -> None:
    server, keys = guarded_s3
    environ = {
        "AWS_ENDPOINT_URL": server.endpoint,
        "AWS_ACCESS_KEY_ID": keys.access_key_id,
        "AWS_SECRET_ACCESS_KEY": keys.secret_access_key,
        "AWS_SESSION_TOKEN": keys.session_token,
    }
    await check_access(f"{server.url}/environment", ShardStoreSettings(), environ)


async def test_the_role_of_an_instance_is_used(
    guarded_s3: tuple[GuardedS3, S3Keys], credentials: CredentialsServer
) -> None:
    settings = ShardStoreSettings(s3_endpoint=guarded_s3[0].endpoint)
    await check_access(f"{guarded_s3[0].url}/instance", settings, {"AWS_METADATA_ENDPOINT": credentials.url})
    assert {shown for _, shown in credentials.requests} == {METADATA_TOKEN}


async def test_the_role_of_a_container_is_used(
    guarded_s3: tuple[GuardedS3, S3Keys], credentials: CredentialsServer, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text(TOKEN)
    environ = {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{credentials.url}/v1/credentials",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(tmp_path / "token"),
    }
    settings = ShardStoreSettings(s3_endpoint=guarded_s3[0].endpoint)
    await check_access(f"{guarded_s3[0].url}/container", settings, environ)
    assert set(credentials.requests) == {("/v1/credentials", TOKEN)}


async def test_a_web_identity_is_sent_to_the_token_service(s3_server: S3, tmp_path: Path) -> None:
    """The client uses the token service over https only, so its rejection of another scheme shows the call."""
    (tmp_path / "token").write_text("web-identity-token")
    environ = {
        "AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "token"),
        "AWS_ENDPOINT_URL_STS": NOWHERE,
        "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/test-role",
        "AWS_ROLE_SESSION_NAME": "argosy",
    }
    settings = ShardStoreSettings(s3_endpoint=s3_server.endpoint)
    with pytest.raises(Unavailable, match="no credentials for s3://argosy-test: the token service answered nothing"):
        await SlateShardStore.open(s3_server.url, settings, environ=environ)
    assert (
        bucket_of(BUCKET, settings, environ).client_config().items()
        >= {"aws_web_identity_token_file": str(tmp_path / "token"), "aws_role_session_name": "argosy"}.items()
    )


async def test_wrong_keys_are_reported_without_showing_them(guarded_s3: tuple[GuardedS3, S3Keys]) -> None:
    server, keys = guarded_s3
    with pytest.raises(Invalid, match="403 InvalidAccessKeyId: check that the bucket exists") as caught:
        await SlateShardStore.open(server.url, with_keys(server.endpoint))
    assert "top-secret" not in str(caught.value)
    wrong = replace(
        with_keys(server.endpoint), s3_access_key_id=keys.access_key_id, s3_session_token=keys.session_token
    )
    with pytest.raises(Invalid, match="403 SignatureDoesNotMatch") as caught:
        await SlateShardStore.open(server.url, wrong)
    assert "top-secret" not in str(caught.value)


async def test_a_missing_bucket_is_named_by_every_operation(s3_server: S3) -> None:
    with pytest.raises(Invalid, match="a put in bucket no-such-bucket with 404 NoSuchBucket"):
        await SlateShardStore.open("s3://no-such-bucket/jobs", s3_server.settings())
    bucket = bucket_of("no-such-bucket", s3_server.settings(), {})
    for call in (bucket.read("a"), bucket.list_folder("a/"), bucket.create("a", b"")):
        with pytest.raises(Invalid, match="404 NoSuchBucket"):
            await call


async def test_an_unreachable_s3_is_unavailable_within_the_call_limit() -> None:
    started_at = time.monotonic()
    with pytest.raises(Unavailable, match=r"S3 at http://127\.0\.0\.1:1 is not reachable: check s3_endpoint"):
        await SlateShardStore.open("s3://some-bucket", with_keys(NOWHERE))
    assert time.monotonic() - started_at < s3.CALL_S_MAX


async def test_an_s3_that_does_not_respond_times_out(s3_server: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "REQUEST_S_MAX", 0.2)
    bucket = bucket_of(BUCKET, s3_server.settings(), {})
    s3_server.pause()
    try:
        with pytest.raises(Unavailable, match="not reachable"):
            await bucket.read("a")
        monkeypatch.setattr(s3, "CALL_S_MAX", 0.1)
        with pytest.raises(Unavailable, match=r"did not finish a read within 0\.1 s"):
            await bucket.read("a")
    finally:
        s3_server.resume()


async def test_without_credentials_the_error_names_the_settings(s3_server: S3) -> None:
    settings = ShardStoreSettings(s3_endpoint=s3_server.endpoint)
    with pytest.raises(Unavailable, match=r"no credentials for s3://argosy-test: .*; set s3_access_key_id"):
        await SlateShardStore.open(s3_server.url, settings, environ={"AWS_METADATA_ENDPOINT": NOWHERE})


async def test_a_missing_token_file_is_reported(s3_server: S3, tmp_path: Path) -> None:
    environ = {"AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "absent"), "AWS_ROLE_ARN": "arn:aws:iam::1:role/x"}
    settings = ShardStoreSettings(s3_endpoint=s3_server.endpoint)
    with pytest.raises(Unavailable, match=r"a put in s3://argosy-test failed: .*absent"):
        await SlateShardStore.open(s3_server.url, settings, environ=environ)


def test_one_key_without_the_other_is_rejected() -> None:
    with pytest.raises(Invalid, match="must be set together"):
        bucket_of("bucket", ShardStoreSettings(), {"AWS_ACCESS_KEY_ID": "id"})


async def test_the_probe_can_be_disabled(unconditional_s3: str) -> None:
    store = await SlateShardStore.open("s3://some-bucket", replace(with_keys(unconditional_s3), s3_probe="never"))
    with pytest.raises(Unavailable, match="a listing in bucket some-bucket with 501"):  # the first call
        await store.shards()
    await store.close()


async def test_settings_take_precedence_over_the_environment(
    guarded_s3: tuple[GuardedS3, S3Keys], s3_server: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """obstore reads the process's variables by itself, SlateDB does not: both must use the same endpoint and keys."""
    for name, value in {
        "AWS_ENDPOINT_URL_S3": NOWHERE,
        "AWS_ENDPOINT": NOWHERE,
        "AWS_SESSION_TOKEN": "stale",
        "AWS_BUCKET": "other",
        "AWS_SKIP_SIGNATURE": "true",
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true",
        "AWS_REGION": "eu-west-1",
    }.items():
        monkeypatch.setenv(name, value)
    await check_access(f"{s3_server.url}/set", s3_server.settings(), {})
    server, keys = guarded_s3
    settings = ShardStoreSettings(
        s3_endpoint=server.endpoint,
        s3_access_key_id=keys.access_key_id,
        s3_secret_access_key=keys.secret_access_key,
        s3_session_token=keys.session_token,
        s3_region="us-east-1",
    )
    await check_access(f"{server.url}/set", settings, {})


def test_settings_take_precedence_over_aws_variables() -> None:
    environ = {
        "AWS_ACCESS_KEY_ID": "env-id",
        "AWS_SECRET_ACCESS_KEY": "env-secret",
        "AWS_REGION": "eu-west-1",
        "AWS_ENDPOINT": "http://localhost:9000/",
    }
    from_environ = bucket_of("bucket", ShardStoreSettings(), environ)
    assert from_environ == S3Bucket("bucket", "eu-west-1", "http://localhost:9000", S3Keys("env-id", "env-secret"))
    settings = replace(with_keys("https://s3.example"), s3_region="here")
    chosen = bucket_of("bucket", settings, environ)
    assert chosen == S3Bucket("bucket", "here", "https://s3.example", S3Keys("id", "top-secret"))
    assert bucket_of("bucket", ShardStoreSettings(), {}) == S3Bucket("bucket", REGION_DEFAULT)


@pytest.mark.parametrize("name", ["", "UPPER", "a", "under_score", "-begins", "x" * 64])
def test_an_invalid_bucket_name_is_rejected(name: str) -> None:
    with pytest.raises(Invalid, match="bucket"):
        S3Bucket(name, REGION_DEFAULT)


async def test_a_listing_of_several_pages_is_complete(s3_server: S3) -> None:
    bucket = bucket_of(BUCKET, s3_server.settings(), {})
    names = [f"shard-{number:04d}" for number in range(1_005)]  # a page has a thousand keys
    for name in names:
        await bucket.create(f"many/{name}/manifest/1", b"1")
    await bucket.create("many/shards-00000001.json", b"{}")
    assert await bucket.list_folder("many/") == (names, ["shards-00000001.json"])


async def test_an_object_is_created_once_and_read_back(s3_server: S3) -> None:
    bucket = bucket_of(BUCKET, s3_server.settings(), {})
    assert await bucket.read("once") is None
    await bucket.create("once", b"first")
    with pytest.raises(Conflict, match="s3://argosy-test/once exists"):
        await bucket.create("once", b"second")
    assert await bucket.read("once") == b"first"


def test_keys_do_not_show_their_secret() -> None:
    bucket = S3Bucket("bucket", REGION_DEFAULT, keys=S3Keys("id", "secret-key", "secret-token"))
    assert "secret" not in repr(bucket)
