"""How an etcd URL is read, and that it never shows its password."""

import pytest

from argosy.base.errors import Invalid
from argosy.ownership.backends.etcd_client import EtcdUrl


def test_one_endpoint_has_etcds_own_port_by_default() -> None:
    assert EtcdUrl.parse("etcd://store") == EtcdUrl(endpoints=("store:2379",))


def test_several_endpoints_and_a_prefix() -> None:
    url = EtcdUrl.parse("etcd://h1:1,h2:2,[::1]:3,[fe80::1]/fleet/west/")
    assert url.endpoints == ("h1:1", "h2:2", "[::1]:3", "[fe80::1]:2379")
    assert url.prefix == "fleet/west"


def test_tls_with_files_and_a_login() -> None:
    url = EtcdUrl.parse("etcds://us%2Fer:p%40ss%3Aword@h1:1,h2:2/?ca=/etc/ca.pem&cert=c.pem&key=k.pem")
    assert url == EtcdUrl(
        endpoints=("h1:1", "h2:2"),
        user="us/er",
        password="p@ss:word",
        is_tls=True,
        ca="/etc/ca.pem",
        cert="c.pem",
        key="k.pem",
    )


def test_the_password_is_never_printed() -> None:
    url = EtcdUrl.parse("etcd://root:hunter2@h:1/p")
    assert "hunter2" not in f"{url} {url!r}"
    assert str(url) == "etcd://root:***@h:1/p"


@pytest.mark.parametrize(
    "text",
    [
        "redis://h:1",
        "etcd://",
        "etcd://h:port",
        "etcd://h:70000",
        "etcd://h1:1,,h2:2",
        "etcd://::1",
        "etcd://user@h:1",
        "etcd://h:1?ca=ca.pem",
        "etcds://h:1?cert=c.pem",
        "etcds://h:1?ca=",
        "etcds://h:1?colour=blue",
        "etcds://h:1?nonsense",
        "etcd://h:1]",
    ],
)
def test_an_unsupported_url_is_rejected(text: str) -> None:
    with pytest.raises(Invalid):
        EtcdUrl.parse(text)


def test_a_rejected_url_does_not_show_its_password_either() -> None:
    with pytest.raises(Invalid) as caught:
        EtcdUrl.parse("etcd://root:hunter2@h:port")
    assert "hunter2" not in str(caught.value)
    with pytest.raises(Invalid) as caught:
        EtcdUrl.parse("ecd://root:hunter2@h:1")
    assert "hunter2" not in str(caught.value)
