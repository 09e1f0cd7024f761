"""Addresses as text, bytes and URLs."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.ipni.formats import multiaddr
from argosy.ipni.formats.multiaddr import UnknownProtocol
from tests.ipni.formats.samples import PEER

ONION = "vww6ybal4bd7szmgncyruucpgfkqahzddi37ktceo3ah7ngmcopnpyyd:1234"
HASH = "uEiAkH5a4DPGKUuOBjYw0CgwjvcJCJMD2K_1aluKR_tpevQ"
ADDRESSES = [
    "/ip4/127.0.0.1/tcp/4001",
    "/ip6/2001:db8::1/udp/4001/quic-v1/webtransport/certhash/" + HASH,
    "/dns4/example.org/tcp/443/wss",
    "/dns/example.org/https/http-path/%2Fsub%2Fpath",
    "/dns/example.org/tcp/80/http/httpath/sub%2Fpath",
    "/dnsaddr/bootstrap.libp2p.io/p2p/" + PEER,
    f"/ip4/1.2.3.4/tcp/1/p2p/{PEER}/p2p-circuit/p2p/QmSPbSLo26Lt3SZ5r9ccqtoM6zjuxobLxc7JM4VivCMCmB",
    "/ip6zone/eth0/ip6/fe80::1/tcp/1",
    f"/onion3/{ONION}",
    "/dns/a.b/tcp/443/tls/sni/example.org/ws",
    "/ip4/1.2.3.4/udp/1/webrtc-direct",
]


@pytest.mark.parametrize("text", ADDRESSES)
def test_an_address_is_the_same_through_bytes(text: str) -> None:
    assert multiaddr.to_text(multiaddr.to_bytes(text)) == text


def test_the_known_address_has_the_known_bytes() -> None:
    text = f"/ip4/127.0.0.1/tcp/18081/http/p2p/{PEER}"
    assert multiaddr.to_bytes(text).hex() == (
        "047f0000010646a1e003a50326002408011220459ae05035d6c310b03ed6140064a85d73f1d41ab18bdc2f01f792b08bd46a05"
    )


def test_a_path_is_stored_unescaped_in_bytes_and_the_older_form_unchanged() -> None:
    assert multiaddr.to_bytes("/http/http-path/a%2Fb").endswith(b"\x03a/b")
    assert multiaddr.to_bytes("/http/httpath/a%2Fb").endswith(b"\x05a%2Fb")


def test_old_names_and_loose_forms_are_read_into_the_normal_form() -> None:
    assert multiaddr.to_text(multiaddr.to_bytes(f"/ip6/0:0::1/tcp/80/ipfs/{PEER}/")) == f"/ip6/::1/tcp/80/p2p/{PEER}"


@pytest.mark.parametrize(
    "text",
    [
        "", "/", "ip4/1.2.3.4", "/ip4", "/ip4/1.2.3", "/ip4/1.2.3.4/tcp", "/ip4/1.2.3.4/tcp/65536",
        "/ip4/1.2.3.4/tcp/-1", "/ip4/1.2.3.4/tcp/٣", "/ip6/fe80::1%eth0", "/dns/", "/dns/a@b", "/dns/a:80", "/dns/a#b",
        "/dns/a b", "/dns/ä.org", "/p2p/x", "/http/http-path", "/certhash/zabc", "/onion3/abc:1", "/dns/" + "a" * 254,
        "/ws" * 33, "/dns/\ud800",
    ],
)  # fmt: skip
def test_an_invalid_address_is_rejected(text: str) -> None:
    with pytest.raises(Invalid):
        multiaddr.to_bytes(text)


@pytest.mark.parametrize("data", ["", "04", "047f0000", "06", "a503", "a50300", "3502", "3501ff", "e103", "e10300"])
def test_bytes_that_are_no_address_are_refused(data: str) -> None:
    with pytest.raises(Invalid):
        multiaddr.to_text(bytes.fromhex(data))


def test_an_unknown_protocol_is_distinguished_from_an_invalid_address() -> None:
    with pytest.raises(UnknownProtocol, match="'smoke'"):
        multiaddr.to_bytes("/ip4/1.2.3.4/smoke/signal")
    with pytest.raises(UnknownProtocol, match="999999"):
        multiaddr.to_text(bytes.fromhex("bf843d"))


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("/ip4/127.0.0.1/tcp/8080/http", "http://127.0.0.1:8080"),
        ("/ip6/::1/tcp/8080/http", "http://[::1]:8080"),
        ("/dns/example.org/https", "https://example.org"),
        ("/dns4/example.org/tcp/443/tls/http", "https://example.org:443"),
        ("/dns/example.org/tcp/443/https/http-path/%2Fa%20b%2Fc", "https://example.org:443/a%20b/c"),
        ("/dns/example.org/http/httpath/a%2Fb", "http://example.org/a/b"),
        (f"/dns/example.org/http/p2p/{PEER}", "http://example.org"),
        ("/dns/example.org/tcp/443/wss", None),
        ("/ip4/127.0.0.1/udp/1/quic-v1", None),
        ("/http", None),
    ],
)
def test_an_address_of_http_is_a_url(text: str, url: str | None) -> None:
    assert multiaddr.url_of(text) == url


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://127.0.0.1:8080", "/ip4/127.0.0.1/tcp/8080/http"),
        ("http://127.0.0.1:8080/", "/ip4/127.0.0.1/tcp/8080/http"),
        ("https://[::1]", "/ip6/::1/https"),
        ("https://example.org/sub/path", "/dns/example.org/https/http-path/%2Fsub%2Fpath"),
    ],
)
def test_a_url_is_an_address(url: str, text: str) -> None:
    assert multiaddr.from_url(url) == text
    assert multiaddr.url_of(text) == url.rstrip("/")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.org",
        "ftp://example.org",
        "http://",
        "http://a:x",
        "http://u@a",
        "http://a?q",
        "http://a#f",
        "http://[",
    ],
)
def test_a_value_an_address_cannot_represent_is_rejected(url: str) -> None:
    with pytest.raises(Invalid):
        multiaddr.from_url(url)


def test_the_peer_at_the_end_is_removed_and_added() -> None:
    assert multiaddr.split_peer(f"/dns/a/http/p2p/{PEER}") == ("/dns/a/http", PEER)
    assert multiaddr.split_peer(f"/p2p/{PEER}") == ("", PEER)
    assert multiaddr.split_peer("/dns/a/http") == ("/dns/a/http", None)
    whole = multiaddr.with_peer("/dns/a/http", PEER)
    assert whole == f"/dns/a/http/p2p/{PEER}" == multiaddr.with_peer(whole, PEER)
    with pytest.raises(Invalid, match="not of Qm"):
        multiaddr.with_peer(whole, "QmSPbSLo26Lt3SZ5r9ccqtoM6zjuxobLxc7JM4VivCMCmB")


def test_protocols_are_named_in_order() -> None:
    assert multiaddr.protocols(f"/dns/a/tcp/1/tls/http/p2p/{PEER}") == ("dns", "tcp", "tls", "http", "p2p")


@pytest.mark.parametrize(
    "host",
    [
        "ip4/127.0.0.1", "ip4/10.1.2.3", "ip4/192.168.0.1", "ip4/172.16.0.1", "ip4/169.254.169.254", "ip4/0.0.0.0",
        "ip4/100.64.0.1", "ip4/224.0.0.1", "ip4/255.255.255.255", "ip6/::1", "ip6/::", "ip6/fe80::1", "ip6/fd00::1",
        "ip6/::ffff:127.0.0.1", "ip6/64:ff9b::10.0.0.1", "ip6/2002:7f00:1::", "ip6/ff02::1", "dns/localhost",
        "dns4/a.localhost.", "dns/LOCALHOST", "dns/127.0.0.1", "dns/2130706433", "dns/0x7f.1", "dns/printer.local",
    ],
)  # fmt: skip
def test_a_private_address_is_recognised(host: str) -> None:
    assert multiaddr.is_private(f"/{host}/tcp/80/http")


@pytest.mark.parametrize("host", ["ip4/1.1.1.1", "ip6/2606:4700::1111", "ip6/::ffff:1.1.1.1", "dns/example.org"])
def test_an_address_outside_is_not(host: str) -> None:
    assert not multiaddr.is_private(f"/{host}/tcp/80/http")


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_bytes_that_are_read_are_written_again(data: bytes) -> None:
    try:
        text = multiaddr.to_text(data)
    except Invalid:
        return
    assert multiaddr.to_bytes(text) == data
