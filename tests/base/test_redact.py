"""Redaction: no password survives, and other text stays readable."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.base.redact import is_secret_name, redact


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("redis://:hunter2@cache:6379/0", "redis://:***@cache:6379/0"),
        ("https://me:hunter2@git.example/a.git", "https://me:***@git.example/a.git"),
        ("fetching https://me:hunter2@git/a failed", "fetching https://me:***@git/a failed"),
        ("redis://:a@h1,redis://:b@h2", "redis://:***@h1,redis://:***@h2"),
        ("redis://:p@ss/wo:rd?#@cache/0", "redis://:***@cache/0"),
        ("redis://:123@cache", "redis://:***@cache"),
        ("https://ghp_abc123@github.com/a", "https://***@github.com/a"),
        ("http://h/?user=me&access_token=abc&x=1", "http://h/?user=me&access_token=***&x=1"),
        ("Store(url='x', password='a b', n=1)", "Store(url='x', password=***, n=1)"),
        ("cut short: password='a b", "cut short: password=***"),
        ("redis://:123,4@cache", "redis://:***@cache"),
        ("{'secret': 'a b', \"api_key\": \"c\"}", "{'secret': ***, \"api_key\": ***}"),
    ],
)
def test_secrets_within_text_are_masked(text: str, shown: str) -> None:
    assert redact(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nothing to see",
        "http://host:8080/path",
        "http://host:80/mail?to=a@b",
        "http://host:8080",
        "ssh://git@host/repo",
        "git@host:repo.git",
        "mail a@b.example at 12:30",
        "unexpected token: ')'",
        "http://[::1]:8080/a",
    ],
)
def test_text_without_secrets_is_unchanged(text: str) -> None:
    assert redact(text) == text


word = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=8)


unbroken = st.text(min_size=1, max_size=12).filter(lambda text: not any(map(str.isspace, text)))


@given(user=st.just("") | word, password=unbroken)
def test_no_url_password_survives(user: str, password: str) -> None:
    secret = f"S3cr{password}S3cr"
    if "://" not in secret:
        assert secret not in redact(f"at redis://{user}:{secret}@host:6379/0 now")


@given(st.text())
def test_redaction_is_idempotent(text: str) -> None:
    assert redact(redact(text)) == redact(text)


@pytest.mark.parametrize(
    "name", ["password", "DB_PASSWORD", "secretKey", "token", "Authorization", "credentials", "api_key"]
)
def test_names_of_secrets_are_recognised(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["unit", "epoch", "pass", "key", "author"])
def test_other_names_are_not_secret(name: str) -> None:
    assert not is_secret_name(name)


def test_a_long_line_is_redacted_in_one_pass() -> None:
    # Quadratic matching would take minutes here, and the suite's time limit would fail the test.
    for unit in ("a", "://", "://a:", ":", "token", "token ", "http://x@", "password='", "secret'", "secret' "):
        assert redact(f"://=:{unit * 200_000}").startswith("://=:")
