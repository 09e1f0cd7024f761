"""Routes to origins: resolves redirects and hosts, and checks that they may be connected to (decision 0023).

A user who may add a repository could otherwise make this machine connect to private networks: by a private address, by
a public one that redirects there, or by a name that resolves differently when it is checked and when it is used (DNS
rebinding). Therefore git follows no redirects: each is resolved and checked here, and git connects only to the network
addresses that were checked.
"""

import asyncio
import socket
from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from urllib.parse import urljoin

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from argosy.base.cache import Cache
from argosy.base.errors import ArgosyError, Forbidden, Invalid, Unavailable
from argosy.base.urls import is_private
from argosy.search.backends.remote_credentials import Credentials
from argosy.search.backends.remote_git import OriginRoute
from argosy.search.catalog.addresses import Address, address_of

# git's own default is 20; code hosts need one or two (http to https, a renamed repository).
REDIRECTS_MAX = 5
REDIRECTS_CACHED_MAX = 10_000  # origins
RESOLVE_S_MAX = 10.0
_REFS_PATH = "/info/refs?service=git-upload-pack"  # the first request of every fetch over HTTP
_REDIRECT_STATUSES = {301, 302, 303, 307, 308}

Resolver = Callable[[str, int], Awaitable[tuple[str, ...]]]  # a host and port to network addresses


async def resolve(host: str, port: int) -> tuple[str, ...]:
    """The host's network addresses, the preferred first."""
    try:
        async with asyncio.timeout(RESOLVE_S_MAX):
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError, UnicodeError):
        raise Unavailable(f"cannot resolve host {host}; check the address, or DNS") from None
    return tuple(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


@dataclass(frozen=True)
class _ResolvedHost:
    """The network addresses a host has now."""

    numbers: tuple[str, ...]
    is_private: bool


class OriginRoutes:
    """Finds routes to origins, and caches where redirects lead."""

    def __init__(
        self,
        credentials: Credentials,
        *,
        allow_private: bool,
        resolver: Resolver = resolve,
        private: Callable[[str], bool] = is_private,
        timeout_s: float = 30.0,
    ) -> None:
        self._credentials = credentials
        self._allow_private = allow_private
        self._resolver = resolver
        self._private = private
        self._timeout_s = timeout_s
        # Bounded, because addresses come from users.
        self._targets: Cache[str, Address] = Cache(entries_max=REDIRECTS_CACHED_MAX)

    async def route(self, origin: Address) -> OriginRoute:
        """The route to an origin, along redirects that are known already."""
        target = self._targets.get(origin.url)
        if target is not None:
            return await self._route_to_target(origin, target)
        # Not resolved where private addresses are allowed: there is nothing to check, and git resolves the host itself.
        host = None if self._allow_private else await self._resolve_host(origin)
        if host is not None and host.is_private:
            raise Forbidden(
                f"{origin.host_port} has a private address, which is not allowed; set fetch.allow_private to allow it"
            )
        if host is not None and origin.scheme == "git":
            # git:// has no option to pin the network address.
            raise Forbidden(f"the address of {origin.url} cannot be pinned; use its https or ssh address")
        return await self._with_credential(OriginRoute(origin, host.numbers if host else ()))

    async def follow_redirects(self, origin: Address) -> OriginRoute:
        """Resolves the redirects of an origin step by step, and caches where they end."""
        if not origin.is_web:
            raise Invalid(f"{origin.url} redirects; use the address it redirects to")
        here = origin
        for _ in range(REDIRECTS_MAX):
            target = await self._next_target(origin, here)
            if target is None:
                self._targets.put(origin.url, here)
                return await self._route_to_target(origin, here)
            here = target
        raise Invalid(f"{origin.url} redirects more than {REDIRECTS_MAX} times; use the address it redirects to")

    def is_redirected(self, origin: Address) -> bool:
        return origin.url in self._targets

    def invalidate(self, origin: Address) -> None:
        """Drops what is known of the origin's redirects."""
        self._targets.remove(origin.url)

    async def _route_to_target(self, origin: Address, target: Address) -> OriginRoute:
        """The route to the target of a redirect; its host is checked as it resolves now."""
        # Resolved again for each use: a cached target may have moved to a private address since (DNS rebinding).
        host = await self._resolve_host(target)
        # A public origin never leads to a private address. A private one may, where private origins are allowed.
        if host.is_private and (not self._allow_private or not (await self._resolve_host(origin)).is_private):
            raise Forbidden(f"{origin.host_port} redirects to {target.host_port}, a private address: never followed")
        route = OriginRoute(target, host.numbers)
        return await self._with_credential(route) if _may_share_credential(origin, target) else route

    async def _resolve_host(self, address: Address) -> _ResolvedHost:
        numbers = await self._resolver(address.host, address.port)
        if not numbers:
            raise Unavailable(f"{address.host} has no network address; check the address, or DNS")
        return _ResolvedHost(numbers, any(self._private(number) for number in numbers))

    async def _with_credential(self, route: OriginRoute) -> OriginRoute:
        credential = await self._credentials.for_address(route.address)
        return replace(route, user=credential.user, secret=credential.secret) if credential else route

    async def _next_target(self, origin: Address, here: Address) -> Address | None:
        """Where `here` redirects to; None if it responds itself, even with an error."""
        route = await self._route_to_target(origin, here)
        headers = {"user-agent": "git/argosy", "git-protocol": "version=2"}
        if route.secret:
            headers["authorization"] = "Basic " + b64encode(f"{route.user}:{route.secret}".encode()).decode()
        timeout = aiohttp.ClientTimeout(total=self._timeout_s)
        # A connection of its own for each step, because each host has other pinned addresses.
        connector = aiohttp.TCPConnector(resolver=_PinnedResolver(route.pinned), force_close=True)
        try:
            async with (
                aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
                session.get(here.url + _REFS_PATH, headers=headers, allow_redirects=False) as response,
                # A redirect is followed by the loop above, which checks every step.
            ):
                is_redirect = response.status in _REDIRECT_STATUSES
                location = response.headers.get("location", "") if is_redirect else ""
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            why = type(error).__name__
            raise Unavailable(f"{here.host_port} unreachable: {why}; retrying later") from None
        return _redirect_target(origin, here, location) if location else None


def _redirect_target(origin: Address, here: Address, location: str) -> Address:
    """The address of the repository behind a redirect, which must be a redirect of the same request."""
    url = urljoin(here.url + _REFS_PATH, location)
    remedy = "use the address of the repository itself"
    if not url.endswith(_REFS_PATH):
        raise Invalid(f"{origin.url} redirects to a page that is not a repository; {remedy}")
    try:
        target = address_of(url.removesuffix(_REFS_PATH))
    except ArgosyError:
        raise Invalid(f"{origin.url} redirects to an unsupported address; {remedy}") from None
    if not target.is_web or (here.scheme == "https" and target.scheme != "https"):
        raise Forbidden(f"{origin.url} redirects to a {target.scheme} address, which is less secure; {remedy}")
    return target


def _may_share_credential(origin: Address, target: Address) -> bool:
    """Whether both are the same host: at the same port, or at the default ports of http and https."""
    if origin.host != target.host:
        return False
    # A redirect from http to https of one host is common and sends the credential more safely than before.
    return origin.port == target.port or (origin.port, target.port) == (80, 443)


class _PinnedResolver(AbstractResolver):
    """Resolves every host to the network addresses that were checked."""

    def __init__(self, numbers: tuple[str, ...]) -> None:
        self._numbers = numbers

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=number,
                port=port,
                family=socket.AF_INET6 if ":" in number else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for number in self._numbers
        ]

    async def close(self) -> None:
        pass
