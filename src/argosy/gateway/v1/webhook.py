"""Push events of code hosts: which repository they are about, and whether they really come from there.

GitHub, Gitea and Forgejo sign the body; GitLab sends the secret itself. Whoever can send neither may send
`{"url": …}` with the admin token.
"""

import hashlib
import hmac
from collections.abc import Iterator, Mapping
from typing import Any

from argosy.base.errors import ArgosyError
from argosy.search.catalog.addresses import address_of

URLS_MAX = 16  # an event names one repository, in a few ways

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
    """Whether one of the hosts' ways to show the secret was used, and rightly."""
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
    """What the repository of an event may be called here: host and path, by each of the addresses it is told with."""
    return frozenset(name for url in list(_urls(event))[:URLS_MAX] if (name := name_of(url)))


def name_of(url: str) -> str:
    """Host and path of an address, or the path of one on this machine; empty if it is no address."""
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
