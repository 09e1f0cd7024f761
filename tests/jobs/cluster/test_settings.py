"""The broker's settings: the document's timing by default, and rejection of invalid values."""

from dataclasses import replace

import pytest

from argosy.base.errors import Invalid
from argosy.base.settings import load, show
from argosy.jobs.settings import JobsSettings
from argosy.ownership.settings import OwnershipSettings


def test_the_default_timing_is_the_documents() -> None:
    """003: "Lease TTL: 10s; keepalive: every 2s; optional quiesce deadline: 1–2s per shard."""
    ownership = JobsSettings().ownership(OwnershipSettings(store="etcd://x"))
    assert (ownership.ttl_s, ownership.renew_s) == (10.0, 2.0)
    assert 1.0 <= ownership.quiesce_s <= 2.0
    assert (ownership.placement, ownership.space, ownership.store) == ("ring", "shards", "etcd://x")
    assert list(ownership.check()) == []


def test_by_default_leases_last_ten_seconds_and_jobs_are_kept_for_a_week() -> None:
    options = JobsSettings().options()
    assert (options.lease_ms, options.retention_ms) == (10_000, 7 * 86_400_000)


def test_the_environment_is_read_and_secrets_are_masked() -> None:
    environ = {"ARGOSY_JOBS_URL": "s3://bucket/jobs", "ARGOSY_JOBS_TOKENS": "secret-token-1,secret-token-2"}
    loaded = load((JobsSettings,), path=None, environ=environ)
    settings = loaded.get(JobsSettings)
    assert settings.url == "s3://bucket/jobs"
    assert settings.tokens == ("secret-token-1", "secret-token-2")
    assert "secret-token" not in str(show(loaded))


@pytest.mark.parametrize(
    ("environ", "text"),
    [
        ({"ARGOSY_JOBS_RENEW_S": "4"}, "three tries"),
        ({"ARGOSY_JOBS_TLS_CERT": "x"}, "must be set together"),
        ({"ARGOSY_JOBS_TLS_CLIENT_CA": "x"}, "requires tls_cert"),
        ({"ARGOSY_JOBS_TENANT_KEYS": "acme"}, "TENANT=TOKEN"),
        ({"ARGOSY_JOBS_SHARDS": "0"}, "1 to 4096"),
    ],
)
def test_invalid_settings_are_rejected(environ: dict[str, str], text: str) -> None:
    with pytest.raises(Invalid, match=text):
        load((JobsSettings,), path=None, environ=environ)


def test_a_standalone_role_keeps_the_fleets_other_settings() -> None:
    shared = replace(OwnershipSettings(), namespace="mine", vnodes=40)
    ownership = JobsSettings().ownership(shared)
    assert (ownership.namespace, ownership.vnodes) == ("mine", 40)
