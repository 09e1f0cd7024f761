"""Push events of code hosts: verifies their signatures and extracts the repository.

GitHub, Gitea and Forgejo sign the body; GitLab sends the secret itself. Whoever can send neither may send
`{"url": …}` with the admin token.
"""

import hashlib
import hmac
from collections.abc import Iterator, Mapping
from typing import Any

from argosy.base.errors import ArgosyError
from argosy.search.catalog.addresses import address_of

URLS_MAX = 16  # an event has several URLs of one repository

_PLACES = ("repository", "project")
_FIELDS = (
    "clone_url",
    "ssh_url",
    "git_url",
    "html_url",
    "url",
    "git_http_url",
    "git_ssh_url",
    "http_url",
    "web_url",
    "homepage",
)


def is_signed(headers: Mapping[str, str], body: bytes, secret: str) -> bool:
    """Whether the request carries a valid signature or token of one of the supported hosts."""
    expected = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    signatures = [
        headers.get("x-hub-signature-256", "").removeprefix("sha256="),
        headers.get("x-gitea-signature", ""),
        headers.get("x-gogs-signature", ""),
    ]
    if any(hmac.compare_digest(given.encode(), expected.encode()) for given in signatures):
        return True
    return hmac.compare_digest(headers.get("x-gitlab-token", "").encode(), secret.encode())


def pushed_names(event: object) -> frozenset[str]:
    """Candidate names of the event's repository in the catalog: host and path of each of its URLs."""
    return frozenset(name for url in list(_urls(event))[:URLS_MAX] if (name := name_of(url)))


def name_of(url: str) -> str:
    """Host and path of a URL, or the path of a local one; empty if it is not a URL."""
    try:
        address = address_of(url, allow_local=True)
    except ArgosyError:
        return ""
    return address.path if address.is_local else address.name.lower()


def _urls(event: object) -> Iterator[str]:
    if not isinstance(event, dict):
        return
    if isinstance(event.get("url"), str):
        yield event["url"]
    for place in _PLACES:
        yield from _fields(event.get(place))


def _fields(told: Any) -> Iterator[str]:
    if isinstance(told, dict):
        for field in _FIELDS:
            if isinstance(told.get(field), str):
                yield told[field]
