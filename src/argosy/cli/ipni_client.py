"""The options of `argosy ipni` commands that select an indexer, and the client for it."""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from argosy.base.errors import Invalid
from argosy.cli.config import config_option, load
from argosy.cli.output import json_option

if TYPE_CHECKING:
    from argosy.ipni.indexer_client import IndexerClient


C = TypeVar("C", bound=Callable[..., Any])
T = TypeVar("T")


@dataclass(frozen=True)
class IndexerOptions:
    """The indexer that the options select."""

    url: str | None
    ingest_url: str | None
    admin_url: str | None
    token: str | None
    config: Path | None

    def client(self) -> "IndexerClient":
        """Options that are not given default to the indexer of the settings."""
        from argosy.app.settings import NodeSettings
        from argosy.ipni.indexer_client import IndexerClient
        from argosy.ipni.settings import IndexerHttpSettings

        loaded = load(self.config)
        here = loaded.get(IndexerHttpSettings)

        def url_of(port: int | None, option: str | None) -> str:
            url = option or self.url
            return check_url(url) if url else f"http://{here.host}:{here.port if port is None else port}"

        # Without options the three APIs are those of the indexer that the settings of this host describe.
        return IndexerClient(
            url_of(here.admin_port, self.admin_url),
            url_of(None, None),
            url_of(here.ingest_port, self.ingest_url),
            token=self.token or loaded.get(NodeSettings).admin_token,
        )

    def run(self, call: "Callable[[IndexerClient], Awaitable[T]]") -> T:
        """Runs `call` with a client, which is closed afterwards."""

        async def run_with_client() -> T:
            async with self.client() as client:
                return await call(client)

        return asyncio.run(run_with_client())


def check_url(text: str) -> str:
    """Returns an HTTP URL unchanged; raises Invalid for anything else, such as `host:port` without a scheme."""
    if not text.startswith(("http://", "https://")) or not text.partition("://")[2]:
        raise Invalid(f"invalid URL {text!r}: expected http://host:port or https://host")
    return text


_OPTIONS = (
    click.option("--url", help="Indexer; by default that of the settings [ipni_http]."),
    click.option("--ingest-url", help="Ingest API of the indexer, if it has another URL."),
    click.option("--admin-url", help="Admin API of the indexer, if it has another URL."),
    click.option("--token", help="Bearer token of the admin API; overrides the setting node.admin_token."),
    config_option,
    json_option,
)


def indexer_options(command: C) -> Any:
    """Adds the options; the command receives them as `indexer`, and `as_json`."""

    @functools.wraps(command)
    def with_options(
        *args: Any,
        url: str | None,
        ingest_url: str | None,
        admin_url: str | None,
        token: str | None,
        config: Path | None,
        **rest: Any,
    ) -> Any:
        return command(*args, indexer=IndexerOptions(url, ingest_url, admin_url, token, config), **rest)

    decorated: Any = with_options
    # Decorators apply from the last to the first; reversed, the help has the order of the list.
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated
