"""URLs whose network location names several hosts, which urllib refuses to split when two of them are in brackets."""

from urllib.parse import urlsplit

import pytest

from argosy.base.urls import bracket_host, split_url


@pytest.mark.parametrize(
    "url",
    [
        "etcd://h1:1,h2:2/fleet/west?ca=a.pem&key=#end",
        "REDIS://user:p%40ss@[::1]:6379/3",
        "redis+sentinel://:pw@a,b:1/main/2",
        "file:///var/lib/argosy",
        "memory://",
        "host:port",
        "/path?query",
        "//netloc/path",
        "1scheme://host",
        "",
    ],
)
def test_urls_are_split_as_by_urllib(url: str) -> None:
    assert split_url(url) == urlsplit(url)


def test_several_bracketed_hosts_are_returned_unsplit() -> None:
    parts = split_url("etcds://user:pw@[::1]:3,[fe80::1],h/prefix?ca=ca.pem")
    assert (parts.scheme, parts.path, parts.query) == ("etcds", "/prefix", "ca=ca.pem")
    assert parts.netloc == "user:pw@[::1]:3,[fe80::1],h"


@pytest.mark.parametrize("url", ["redis://[::1", "redis://:pa[ss@h", "redis://a]b", "redis://h\nost"])
def test_a_bracket_without_its_partner_is_no_error_here(url: str) -> None:
    assert split_url(url).netloc == url.removeprefix("redis://")


def test_an_ipv6_address_stands_in_brackets() -> None:
    assert [bracket_host(host) for host in ("::1", "[::1]", "h", "127.0.0.1")] == ["[::1]", "[::1]", "h", "127.0.0.1"]
