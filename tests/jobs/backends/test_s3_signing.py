"""Signatures, against the examples that Amazon publishes for Signature Version 4 with S3."""

from argosy.jobs.backends.s3_signing import S3Keys, query_string, signed

KEYS = S3Keys("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
HOST = "examplebucket.s3.amazonaws.com"
NOW = 1369353600.0      # 2013-05-24T00:00:00Z


def signature(path: str, query: dict[str, str], headers: dict[str, str]) -> str:
    sent = signed("GET", HOST, path, query, headers, b"", keys=KEYS, region="us-east-1", now=NOW)
    return sent["authorization"].rpartition("Signature=")[2]


def test_an_object_is_asked_for_as_in_the_published_example() -> None:
    expected = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    assert signature("/test.txt", {}, {"range": "bytes=0-9"}) == expected


def test_a_listing_is_asked_for_as_in_the_published_example() -> None:
    expected = "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
    assert signature("/", {"prefix": "J", "max-keys": "2"}, {}) == expected


def test_a_session_token_is_sent_and_signed() -> None:
    keys = S3Keys("id", "secret", "token")
    sent = signed("GET", HOST, "/", {}, {}, b"", keys=keys, region="us-east-1", now=NOW)
    assert sent["x-amz-security-token"] == "token"
    assert "x-amz-security-token" in sent["authorization"]


def test_a_query_is_sorted_and_encoded() -> None:
    assert query_string({"prefix": "a b/ü", "delimiter": "/"}) == "delimiter=%2F&prefix=a%20b%2F%C3%BC"


def test_keys_do_not_show_their_secret() -> None:
    assert "secret" not in repr(S3Keys("id", "secret", "token-secret"))
