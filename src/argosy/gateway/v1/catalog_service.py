"""Catalog changes of the v1 API, each one registry transaction, and the push events of code hosts.

GitHub, Gitea and Forgejo sign the body of an event; GitLab sends the secret itself. Other senders may post
`{"url": …}` with the admin token.
"""

import hashlib
import hmac
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

import msgspec

from argosy.base import logs
from argosy.base.errors import ArgosyError, Invalid, NotFound
from argosy.gateway.v1 import model as v1
from argosy.gateway.v1.requests import AddRepositoryRequest
from argosy.gateway.v1.responses import catalog_entry
from argosy.registry import catalog
from argosy.registry.ports import RegistryStore
from argosy.search.catalog.addresses import address_of

Notify = Callable[[str], Awaitable[None]]

log = logs.get("api")


class CatalogService:
    """`notify` is called with the name of a repository that has new commits, so that its holders check the origin at
    once.
    """

    def __init__(self, registry: RegistryStore, *, notify: Notify, allow_local: bool) -> None:
        self._registry = registry
        self._notify = notify
        self._allow_local = allow_local

    async def add(self, body: AddRepositoryRequest) -> v1.CatalogEntry:
        address = address_of(body.url, allow_local=self._allow_local)
        adding = catalog.add(
            body.name or address.name,
            address.url,
            branches=tuple(body.branches),
            is_pinned=body.pinned,
            replicas=body.replicas,
            max_bids=body.max_bids,
        )
        row = await self._registry.run(adding)
        log.info("repository added", repository=row.repo_id)
        return catalog_entry(row, address.note)

    async def remove(self, name: str) -> None:
        if not await self._registry.run(catalog.remove(name)):
            raise NotFound(f'repository "{name}" not found in the catalog')
        log.info("repository removed", repository=name)

    async def pin(self, name: str, *, is_pinned: bool) -> v1.CatalogEntry:
        return catalog_entry(await self._registry.run(catalog.pin(name, is_pinned)))

    async def reindex(self, name: str) -> v1.CatalogEntry:
        return catalog_entry(await self._registry.run(catalog.request_reindex(name)))

    async def notify_push(self, body: bytes) -> v1.WebhookResponse:
        """Notify the holders of the event's repository, if it is in the catalog."""
        try:
            names = names_in_event(msgspec.json.decode(body))
        # The decoder recurses, so a small body of brackets can exhaust the stack.
        except RecursionError:
            raise Invalid("invalid event: JSON nested too deeply") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Invalid(f"invalid event: {error}") from None
        if not names:
            raise Invalid('no repository in the event; send a push event or {"url": "https://…"}')
        # A repository may be in the catalog under another of its URLs, so names are compared and not URLs.
        rows = await self._registry.run(catalog.everything())
        found = [row.repo_id for row in rows if name_of(row.url) in names]
        for name in found:
            await self._notify(name)
        return v1.WebhookResponse(found)


URLS_MAX = 16  # an event has several URLs of one repository

# Where events have their repository, and the names of its URLs: GitHub, Gitea and Forgejo, GitLab.
_SOURCES = ("repository", "project")
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
    # Compared in constant time: the time of an ordinary comparison reveals how many bytes of a guess are right.
    expected = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    signatures = [
        headers.get("x-hub-signature-256", "").removeprefix("sha256="),
        headers.get("x-gitea-signature", ""),
        headers.get("x-gogs-signature", ""),
    ]
    if any(hmac.compare_digest(given.encode(), expected.encode()) for given in signatures):
        return True
    return hmac.compare_digest(headers.get("x-gitlab-token", "").encode(), secret.encode())


def names_in_event(event: object) -> frozenset[str]:
    """Candidate names of the event's repository in the catalog: host and path of each of its URLs."""
    return frozenset(name for url in list(_urls(event))[:URLS_MAX] if (name := name_of(url)))


def name_of(url: str) -> str:
    """Host and path of a URL, or the path of a local one; empty if it is not a URL."""
    # Local paths are allowed here because the name is only compared; nothing is read from it.
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
    for source in _SOURCES:
        yield from _url_fields(event.get(source))


def _url_fields(source: Any) -> Iterator[str]:
    if isinstance(source, dict):
        for field in _FIELDS:
            if isinstance(source.get(field), str):
                yield source[field]
