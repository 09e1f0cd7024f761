"""Which network addresses are of the open internet."""

import pytest

from argosy.base.errors import Invalid
from argosy.base.urls import is_private

PUBLIC = ("93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946", "::ffff:93.184.216.34", "64:ff9b::5db8:d822")
PRIVATE = (
    "127.0.0.1", "10.0.0.1", "172.16.3.4", "192.168.1.1", "169.254.169.254", "0.0.0.0", "224.0.0.1", "240.0.0.1",
    "100.64.0.1", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "ff02::1", "::ffff:10.0.0.1", "2002:7f00:1::",
    "64:ff9b::a00:1", "2001:0:4136:e378:8000:63bf:f5ff:fffe",
)  # fmt: skip


@pytest.mark.parametrize("number", PUBLIC)
def test_a_public_address_is_one(number: str) -> None:
    assert not is_private(number)


@pytest.mark.parametrize("number", PRIVATE)
def test_addresses_of_internal_networks_are_private(number: str) -> None:
    assert is_private(number)


@pytest.mark.parametrize("number", ["", "localhost", "1.2.3", "1.2.3.4.5", "12345"])
def test_an_invalid_address_is_rejected(number: str) -> None:
    with pytest.raises(Invalid, match="is not an IP address"):
        is_private(number)
