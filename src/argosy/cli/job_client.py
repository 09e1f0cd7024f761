"""The broker that job commands call: its options, its client, and the format of payloads and times."""

import asyncio
import functools
import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

import click

from argosy.base.errors import Invalid, NotFound, Unavailable
from argosy.cli.config import config_option, load
from argosy.cli.output import json_option, status

if TYPE_CHECKING:
    from argosy.jobs import JobsClient
    from argosy.jobs.settings import JobsSettings


C = TypeVar("C", bound=Callable[..., Any])
T = TypeVar("T")

FILE = click.Path(dir_okay=False, exists=True, path_type=Path)


@dataclass(frozen=True)
class BrokerOptions:
    """The broker that the options select, and the tenant."""

    addresses: tuple[str, ...]
    tenant: str | None
    token: str | None
    ca: Path | None
    cert: Path | None
    key: Path | None
    config: Path | None

    def client(self) -> "AbstractAsyncContextManager[JobsClient]":
        """Options that are not given default to the settings. A URL as the address runs a broker in this process."""
        from argosy.jobs import JobsClient
        from argosy.jobs.model import NO_TENANT

        tenant = self.tenant or NO_TENANT
        settings = _settings(self.config)
        addresses = self.addresses or (settings.grpc_address or f"{settings.grpc_host}:{settings.grpc_port}",)
        if any("://" in address for address in addresses):
            if len(addresses) > 1:
                raise Invalid("a broker in this process has a single address: the URL of its directory")
            return JobsClient.open_embedded(addresses[0], tenant=tenant)
        # The settings of the broker's host have its tokens, so that its operator need not type one.
        token = self.token or next(iter(settings.tokens), None)
        return JobsClient.connect(*addresses, tenant=tenant, token=token, credentials=self._credentials())

    def _check_exists(self) -> None:
        """Opening creates a broker in any directory, so a mistyped path would look like a broker without jobs."""
        for address in self.addresses:
            parts = urlsplit(address)
            if parts.scheme == "file" and not Path(unquote(parts.path)).exists():
                raise NotFound(f"no broker found at {address}; check --address")

    def _credentials(self) -> Any:
        from argosy.jobs.sdk.links import channel_credentials

        if (self.cert is None) != (self.key is None):
            raise Invalid("--cert and --key must be given together")
        if self.ca is None and self.cert is None:
            return None
        ca, cert, key = (None if path is None else path.read_bytes() for path in (self.ca, self.cert, self.key))
        return channel_credentials(ca=ca, cert=cert, key=key)

    def run(
        self, call: "Callable[[JobsClient], Awaitable[T]]", *, doing: str | None = None, may_create: bool = True
    ) -> T:
        """Runs `call` with a client, which is closed afterwards; `doing` is the status line on a terminal."""
        if not may_create:
            self._check_exists()

        async def run_with_client() -> T:
            async with self.client() as client:
                return await call(client)

        try:
            with nullcontext() if doing is None else status(doing):
                return asyncio.run(run_with_client())
        except Unavailable as error:
            # Only a broker that cannot be reached: a Fenced or a full one is running, and starting another would not
            # help.
            if type(error) is not Unavailable or " unreachable: " not in str(error):
                raise
            raise Unavailable(
                f"{error}; start a broker with `argosy serve --role jobs`, or pass its gRPC address with --address"
            ) from None


def _settings(config: Path | None) -> "JobsSettings":
    from argosy.jobs.settings import JobsSettings

    return load(config).get(JobsSettings)


_OPTIONS = (
    config_option,
    click.option("--key", type=FILE, help="Key of the client certificate."),
    click.option("--cert", type=FILE, help="Client certificate, if the broker requires one."),
    click.option("--ca", type=FILE, help="CA of the broker's certificate; turns TLS on."),
    click.option("--token", help="Bearer token; by default the first one of the setting jobs.tokens."),
    click.option("--tenant", "-t", help="Tenant of the jobs, if the broker has tenants."),
    click.option(
        "--address", "-a", "addresses", multiple=True, metavar="HOST:PORT|URL",
        help="Node of the broker; repeatable. By default that of the settings. "
        "A URL (file:///DIR) runs the broker in this process.",
    ),
)  # fmt: skip


def broker_options(command: C) -> C:
    """Adds the options, which the command receives as `broker`, and `--json`."""

    @functools.wraps(command)
    def with_options(*arguments: Any, **options: Any) -> Any:
        names = BrokerOptions.__dataclass_fields__
        broker = BrokerOptions(**{name: options.pop(name) for name in names})
        return command(*arguments, broker=broker, **options)

    wrapped: Any = json_option(with_options)
    for add in _OPTIONS:
        wrapped = add(wrapped)
    found: C = wrapped
    return found


def parse_payload(text: str | None) -> Any:
    if text is None:
        return None
    return parse_json(sys.stdin.read() if text == "-" else text, "the payload")


def parse_json(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise Invalid(f"{name} is not valid JSON: {error}; a string needs quotes, as in '\"hello\"'") from None


def format_time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(sep=" ", timespec="milliseconds") if ms else "-"
