"""Which URLs may be read: http and https addresses of a publisher outside private networks.

Anyone can announce any address, so an indexer that follows them could be used to reach hosts in its own network
(server-side request forgery). A name may resolve differently when it is checked and when it is used; so numeric
addresses are checked here, and names by what they resolve to at connect time.
"""

from collections.abc import Callable, Iterable
from urllib.parse import urljoin

from yarl import URL

from argosy.base.errors import Invalid
from argosy.base.urls import is_private
from argosy.ipni.formats import multiaddr
from argosy.ipni.model import Peer

ADDRESSES_MAX = 8  # of one publisher; further ones are not tried
URL_CHARS_MAX = 2048

AddressCheck = Callable[[str], bool]  # whether a numeric network address is private


def check_url(url: str, judge: AddressCheck | None) -> URL:
    """The URL, parsed once for the check and the request: two parsers could disagree about the host. Raises Invalid
    if it must not be read. Without a judge every network address is allowed.
    """
    try:
        # Not normalised: the bytes that are checked are the bytes that are sent.
        parsed = URL(url, encoded=True)
        host = parsed.raw_host or ""
    except (ValueError, TypeError):
        raise Invalid(f"{url[:200]!r} is not a URL") from None
    if parsed.scheme not in ("http", "https") or not host or len(url) > URL_CHARS_MAX:
        raise Invalid(f"{url[:200]!r} cannot be read: only http and https are supported")
    if parsed.raw_user is not None or parsed.raw_password is not None:
        raise Invalid(f"the URL of {host} contains a user name, which is not sent to publishers")
    # A numeric host is never resolved, so the resolver does not check it.
    if ":" in host or host.replace(".", "").isdigit():
        _check_number(host, judge)
    return parsed


def _check_number(host: str, judge: AddressCheck | None) -> None:
    is_private(host)  # raises Invalid for obfuscated forms, such as octal numbers
    if judge is not None and judge(host):
        raise Invalid(_refusal(host))


def _refusal(host: str) -> str:
    return f"{host} is at a private address, where publishers are not read; set ipni_sync.allow_private"


def bases(publisher: Peer, judge: AddressCheck | None) -> tuple[str, ...]:
    """The URLs at which the publisher's chain may be read, in its order; raises Invalid if there is none."""
    found: dict[str, None] = {}
    refusals = []
    for address in publisher.addresses:
        try:
            url = _url(address)
            check_url(url, judge)
            found[url] = None
        except Invalid as refusal:
            refusals.append(str(refusal))
    if not found:
        why = "; ".join(refusals[:ADDRESSES_MAX]) or "it has no address"
        raise Invalid(f"publisher {publisher.id} cannot be read: {why}")
    return tuple(found)[:ADDRESSES_MAX]


def _url(address: str) -> str:
    url = multiaddr.url_of(address)
    if url is None:
        raise Invalid(f"{address[:200]} is not an http address: only http and https are supported")
    return url.rstrip("/")


def redirect_target(url: str, location: str, judge: AddressCheck | None) -> str:
    """The target of a redirect; raises Invalid if it must not be read."""
    try:
        target = urljoin(url, location)
    except ValueError:
        raise Invalid(f"{url} redirects to {location[:200]!r}, which is not a URL") from None
    try:
        check_url(target, judge)
    except Invalid as refusal:
        raise Invalid(f"{url} redirects to a forbidden URL: {refusal}") from None
    return target


def check_resolved(numbers: Iterable[str], host: str, judge: AddressCheck | None) -> tuple[str, ...]:
    """The network addresses of a name. One private address rejects them all: a public one beside it proves nothing."""
    addresses = tuple(dict.fromkeys(numbers))
    if judge is not None and any(judge(number) for number in addresses):
        raise Invalid(_refusal(host))
    return addresses
