"""Signs a request to S3 (AWS Signature Version 4) with the standard library alone. Time is passed in."""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote

_ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True)
class S3Keys:
    """Who asks. Never logged: its text form shows the id only."""

    access_key_id: str
    secret_access_key: str
    session_token: str = ""

    def __repr__(self) -> str:
        return f"S3Keys({self.access_key_id!r})"


def signed(
    method: str,
    host: str,
    path: str,
    query: Mapping[str, str],
    headers: Mapping[str, str],
    body: bytes,
    *,
    keys: S3Keys,
    region: str,
    now: float,
) -> dict[str, str]:
    """The headers to send: those given and the signature. `path` is already percent-encoded."""
    at = datetime.fromtimestamp(now, UTC)
    day, stamp = at.strftime("%Y%m%d"), at.strftime("%Y%m%dT%H%M%SZ")
    digest = hashlib.sha256(body).hexdigest()
    sent = {**headers, "host": host, "x-amz-date": stamp, "x-amz-content-sha256": digest}
    if keys.session_token:
        sent["x-amz-security-token"] = keys.session_token
    lowered = {name.lower(): value.strip() for name, value in sent.items()}
    names = ";".join(sorted(lowered))
    request = "\n".join(
        (method, path, query_string(query), *(f"{name}:{lowered[name]}" for name in sorted(lowered)), "", names, digest)
    )
    scope = f"{day}/{region}/s3/aws4_request"
    text = "\n".join((_ALGORITHM, stamp, scope, hashlib.sha256(request.encode()).hexdigest()))
    key = f"AWS4{keys.secret_access_key}".encode()
    for part in (day, region, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    credential = f"{keys.access_key_id}/{scope}"
    sent["authorization"] = f"{_ALGORITHM} Credential={credential}, SignedHeaders={names}, Signature={signature}"
    return sent


def query_string(query: Mapping[str, str]) -> str:
    return "&".join(f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}" for name, value in sorted(query.items()))
