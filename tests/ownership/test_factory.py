"""A URL names a store, and nothing falls back to another."""

import sys

import pytest

from argosy.base.clock import SystemClock, system_random
from argosy.base.errors import Invalid
from argosy.ownership.backends.memory import MemoryOwnershipStore
from argosy.ownership.factory import SCHEMES, open_ownership_store
from argosy.ownership.model import Space
from argosy.ownership.ports import OwnershipStore

SPACE = Space("repos", is_auctioned=True)


async def opened(url: str) -> OwnershipStore:
    return await open_ownership_store(url, SPACE, clock=SystemClock(), random=system_random(), grace_s=30.0)


async def test_memory_is_a_store_of_its_own_each_time() -> None:
    one, two = await opened("memory://"), await opened("memory://")
    assert isinstance(one, MemoryOwnershipStore)
    assert one is not two
    assert one.space == SPACE


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("reddis://host", "did you mean redis://?"),
        ("valky://host", "did you mean valkey://?"),
        ("etc://host", "etcd://"),
    ],
)
async def test_an_unknown_scheme_is_rejected_with_a_hint(url: str, hint: str) -> None:
    with pytest.raises(Invalid) as refusal:
        await opened(url)
    assert hint in str(refusal.value)
    assert all(f"{scheme}://" in str(refusal.value) for scheme in SCHEMES)


@pytest.mark.parametrize("url", ["", "memory", "host:6379", "://", "postgres://host"])
async def test_a_malformed_url_is_rejected(url: str) -> None:
    with pytest.raises(Invalid, match="unknown ownership store scheme"):
        await opened(url)


@pytest.mark.parametrize(("url", "package", "extra"), [("etcds://host", "grpc", "etcd")])
async def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, url: str, package: str, extra: str) -> None:
    for module in list(sys.modules):
        if module.startswith(f"argosy.ownership.backends.{extra}"):
            monkeypatch.delitem(sys.modules, module)
    for module in [package, *(name for name in sys.modules if name.startswith(f"{package}."))]:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(Invalid, match=f"the {extra} backend needs the package .* not installed: run `"):
        await opened(url)
