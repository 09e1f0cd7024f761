"""Client ids: the same from either kind of server, and none that a client can forge."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.throttle.middleware.extractors import (
    ID_LENGTH_MAX,
    AsgiRequest,
    Extractor,
    HttpRequest,
    WsgiRequest,
    all_of,
    by_address,
    by_api_key,
    by_header,
    by_path,
    first_of,
    log_digest,
    shorten_id,
)
from tests.throttle.middleware.stage import scope_of

KEY = b"of this process"


def asgi(path: str = "/", *, address: str | None = "192.0.2.1", **headers: str) -> HttpRequest:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return AsgiRequest(scope_of(path, headers=named, client=(address, 1) if address else None))


def wsgi(path: str = "/", *, address: str | None = "192.0.2.1", **headers: str) -> HttpRequest:
    environ: dict[str, Any] = {"SCRIPT_NAME": "", "PATH_INFO": path.encode().decode("latin-1"), "REMOTE_ADDR": address}
    return WsgiRequest(environ | {f"HTTP_{name.upper()}": value for name, value in headers.items()})


def client_id(extract: Extractor, path: str = "/", *, address: str | None = "192.0.2.1", **headers: str) -> Any:
    """The id, which is the same for ASGI and WSGI requests."""
    ids = [extract(kind(path, address=address, **headers)) for kind in (asgi, wsgi)]
    assert ids[0] == ids[1]
    return ids[0]


def test_a_header_names_the_client() -> None:
    assert client_id(by_header("X-Client"), x_client="acme") == "header:x-client:acme"
    assert client_id(by_header("X-Client")) is None
    assert client_id(by_header("X-Client"), x_client="") is None


def test_a_header_given_twice_counts_as_both() -> None:
    twice = AsgiRequest(scope_of() | {"headers": [(b"x-client", b"a"), (b"x-client", b"b")]})
    assert by_header("x-client")(twice) == "header:x-client:a,b"


def test_an_api_key_is_identified_by_its_digest_only() -> None:
    client = client_id(by_api_key(), authorization="Bearer hunter2")
    assert client.startswith("key:")
    assert "hunter2" not in client
    assert client == client_id(by_api_key(), authorization="bearer  hunter2")
    assert client != client_id(by_api_key(), authorization="Bearer hunter3")
    assert client != client_id(by_api_key(secret=b"s"), authorization="Bearer hunter2")
    assert client_id(by_api_key()) is None


def test_an_api_key_in_a_header_of_its_own_has_no_scheme() -> None:
    keys = {client_id(by_api_key("x-api-key"), x_api_key=key) for key in ("one key", "two key", "key")}
    assert len(keys) == 3


def test_a_key_of_any_length_may_be_the_secret() -> None:
    assert client_id(by_api_key(secret=b"x" * 500), authorization="a") != client_id(by_api_key(), authorization="a")


def test_without_proxies_a_forwarded_header_is_ignored() -> None:
    assert client_id(by_address(), x_forwarded_for="203.0.113.9") == "address:192.0.2.1"


@pytest.mark.parametrize(
    ("proxies", "forwarded", "client"),
    [
        (1, "203.0.113.9", "203.0.113.9"),
        (1, "10.6.6.6, 203.0.113.9", "203.0.113.9"),  # the client wrote the first itself
        (2, "10.6.6.6, 203.0.113.9, 198.51.100.2", "203.0.113.9"),
        (2, "203.0.113.9", "203.0.113.9"),  # bypassed the outer proxy
        (1, "", "192.0.2.1"),
        (1, "unknown", "192.0.2.1"),
        (2, "unknown, 198.51.100.2", "198.51.100.2"),
        (1, "203.0.113.9:4711", "203.0.113.9"),
        (1, '"[2001:db8::1]:4711"', "2001:db8::/64"),
        (1, "::ffff:203.0.113.9", "203.0.113.9"),
        (1, "fe80::1%eth0", "fe80::/64"),
        (1, "1" * 70, "192.0.2.1"),
    ],
)
def test_only_entries_of_trusted_proxies_are_used(proxies: int, forwarded: str, client: str) -> None:
    assert client_id(by_address(proxies), x_forwarded_for=forwarded) == f"address:{client}"


def test_an_ipv6_client_is_its_network() -> None:
    assert client_id(by_address(), address="2001:db8::1") == client_id(by_address(), address="2001:db8::ffff:2")
    assert client_id(by_address(), address="2001:db8::1") != client_id(by_address(), address="2001:db8:0:1::1")
    assert client_id(by_address(ipv6_prefix=128), address="2001:db8::1") == "address:2001:db8::1/128"


def test_on_a_unix_socket_the_address_comes_from_a_proxy_only() -> None:
    assert client_id(by_address(), address=None) is None
    assert client_id(by_address(1), address=None, x_forwarded_for="203.0.113.9") == "address:203.0.113.9"


@given(st.text(st.characters(codec="latin-1", exclude_characters=",\r\n"), max_size=200))
def test_entries_a_client_adds_before_the_proxy_change_nothing(written: str) -> None:
    assert client_id(by_address(1), x_forwarded_for=f"{written},203.0.113.9") == "address:203.0.113.9"


def test_a_path_names_the_tenant() -> None:
    assert client_id(by_path(), "/acme/users/7") == "path:/acme"
    assert client_id(by_path(2), "/acme/users/7") == "path:/acme/users"
    assert client_id(by_path(2), "/acme") == "path:/acme"
    assert client_id(by_path(), "/grün/x") == "path:/grün"
    assert client_id(by_path(), "/") is None


def test_the_first_extractor_with_an_id_decides() -> None:
    either = first_of(by_header("x-client"), by_address())
    assert client_id(either, x_client="acme") == "header:x-client:acme"
    assert client_id(either) == "address:192.0.2.1"
    assert client_id(first_of(by_header("x-client"))) is None


def test_combined_extractors_need_every_id() -> None:
    both = all_of(by_header("a"), by_header("b"))
    assert client_id(both, a="1") is None
    assert client_id(both, a="1", b="2") is not None


@given(*[st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=1, max_size=9)] * 4)
def test_no_two_clients_are_one_because_their_parts_read_the_same(a: str, b: str, c: str, d: str) -> None:
    both = all_of(by_header("a"), by_header("b"))
    assert (client_id(both, a=a, b=b) == client_id(both, a=c, b=d)) == ((a, b) == (c, d))


def test_a_function_of_ones_own_is_an_extractor() -> None:
    def by_session(call: HttpRequest) -> bytes | None:
        return bytes(call.raw.get("session", b"")) or None

    assert first_of(by_session, by_address())(AsgiRequest(scope_of() | {"session": b"s1"})) == b"s1"
    assert all_of(by_session)(AsgiRequest(scope_of() | {"session": b"s1"})) == "all:2:s1"


def test_an_id_has_a_bounded_length() -> None:
    assert shorten_id("x" * ID_LENGTH_MAX) == "x" * ID_LENGTH_MAX
    long, other = shorten_id("x" * (ID_LENGTH_MAX + 1)), shorten_id("x" * (ID_LENGTH_MAX + 2))
    assert len(long) <= ID_LENGTH_MAX
    assert long != other


def test_a_log_contains_nothing_that_identifies_the_client() -> None:
    assert log_digest("192.0.2.1", KEY) == log_digest(b"192.0.2.1", KEY)
    assert log_digest("192.0.2.1", KEY) != log_digest("192.0.2.1", b"another process")
    assert "192" not in log_digest("192.0.2.1", b"k")


@pytest.mark.parametrize(
    "make",
    [
        lambda: by_header(""),
        lambda: by_header("x client"),
        lambda: by_header("größe"),
        lambda: by_api_key("a:b"),
        lambda: by_address(-1),
        lambda: by_address(17),
        lambda: by_address(1, header=""),
        lambda: by_address(ipv6_prefix=0),
        lambda: by_path(0),
        lambda: first_of(),
        lambda: all_of(),
    ],
)
def test_inconsistent_arguments_are_rejected(make: Any) -> None:
    with pytest.raises(Invalid):
        make()


def test_headers_that_wsgi_stores_separately_are_found() -> None:
    call = WsgiRequest(
        {"CONTENT_TYPE": "text/plain", "REQUEST_METHOD": "POST", "SCRIPT_NAME": "/app", "PATH_INFO": "/x"}
    )
    assert (call.header("Content-Type"), call.header("accept")) == ("text/plain", None)
    assert (call.method, call.path, call.address) == ("POST", "/app/x", None)
