"""The ownership benchmark: every figure on real stores, and errors where a server is missing."""

import pytest

from argosy.base.backends import servers
from argosy.base.backends.server_programs import ServerProgram
from argosy.base.errors import Invalid
from argosy.bench.harness import Bench
from argosy.bench.ownership import run
from argosy.bench.ownership.run import FULL, QUICK, STORES, OwnershipSizes, ownership

TINY = OwnershipSizes(operations=40, auctions=16, fleet_units=5)


@pytest.fixture(autouse=True)
def _tiny_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "QUICK", dict.fromkeys(QUICK, TINY))


@pytest.mark.parametrize("store", STORES)
async def test_every_figure_is_measured(store: str) -> None:
    bench = Bench("ownership", is_quick=True, only=f".{store}")
    await ownership(bench)
    figures = {result.figure.id: result for result in bench.results}
    measured = {name.rsplit(".", 1)[0] for name in figures}
    assert measured >= {"lease.acquire", "lease.renew", "lease.release", "lease.cpu"}
    assert measured >= {"auction.close", "auction.cpu", "fleet.owned_5x20"}
    assert [(name, result.error) for name, result in figures.items() if not result.value] == []


async def test_a_peer_runs_on_the_same_server() -> None:
    bench = Bench("ownership", is_quick=True, only="lease.acquire.valkey")
    await ownership(bench)
    assert bench.results[0].peers["redis-py Lock"] > 0


async def test_without_the_servers_the_rest_is_still_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(server: ServerProgram, explicit: str | None = None) -> None:
        raise Invalid(f"no {server.title} found: run `make setup`")

    monkeypatch.setattr(servers, "find_program", missing)
    bench = Bench("ownership", is_quick=True, only="lease.")
    await ownership(bench)
    values = {result.figure.id: result.value for result in bench.results}
    assert values["lease.acquire.memory"]
    assert values["lease.acquire.valkey"] is None
    assert "run `make setup`" in str(next(r.error for r in bench.results if r.figure.id == "lease.acquire.etcd"))


def test_the_quick_run_has_the_full_fleet_except_on_etcd() -> None:
    assert {name: plan.fleet_units for name, plan in FULL.items()} == dict.fromkeys(STORES, 500)
    assert QUICK["memory"].fleet_units == QUICK["valkey"].fleet_units == 500
