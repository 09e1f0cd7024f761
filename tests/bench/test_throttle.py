"""The throttle benchmark: every figure on a real server with its peers, and errors where it cannot be measured."""

from dataclasses import replace

import pytest

from argosy.base.backends import servers
from argosy.base.backends.server_programs import ServerProgram
from argosy.base.errors import Invalid
from argosy.bench import harness
from argosy.bench.harness import Bench
from argosy.bench.throttle import run, shared_instances
from argosy.bench.throttle.run import ThrottleSizes, throttle

TINY = ThrottleSizes(rounds=2, tail_s=0.05, tail_rounds=2, seeds=1, fleet_s=5, fleet_seeds=1)
SHORT = {name: replace(each, duration_s=20) for name, each in run.SCENARIOS.items()}


@pytest.fixture(autouse=True)
def _tiny_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "QUICK", TINY)
    monkeypatch.setattr(run, "SCENARIOS", SHORT)
    monkeypatch.setattr(harness, "REPEATS_QUICK", 1)
    monkeypatch.setattr(shared_instances, "WRITE_S", 0.1)


async def test_every_figure_is_measured_beside_its_peers() -> None:
    bench = Bench("throttle", is_quick=True)
    await throttle(bench)
    peers = {result.figure.id: set(result.peers) for result in bench.results}
    limits = {"limits fixed", "limits moving"}
    assert peers == {
        "decide.healthy": {"token-bucket"},
        "decide.healthy.of_token_bucket": set(),
        "decide.congested": limits,
        "decide.congested.of_limits_memory": set(),
        "decide.congested_admitted": limits,
        "decide.congested_admitted_shared": limits,
        "decide.congested_admitted.of_limits_memory": set(),
        "decide.wait": {"limits on Valkey"},
        "decide.wait.limits_valkey_over_ours": set(),
        "hot_path.p999": {"alone"},
        "hot_path.p999.sharing_over_alone": set(),
        "converge.valkey": set(),
        "restore.valkey_emptied": set(),
        "fleet.noisy.jain_shared": {"one instance"},
        "fleet.noisy.jain_gap": set(),
        "fleet.noisy.jain_unshared": {"one instance"},
        "fair.noisy.jain": {"no throttle"},
        "fair.noisy.jain_min": set(),
        "fair.noisy.published.jain": {"no throttle"},
        "fair.noisy.published.strict.jain": {"no throttle"},
        "fair.noisy.published.utilisation": set(),
        "fair.noisy.utilisation": set(),
        "fair.noisy.strict.jain": {"no throttle"},
        "fair.surge.jain": {"no throttle"},
    }
    assert [result.error for result in bench.results if result.value is None] == []
    assert all("virtual time" in note or "seeds" in note for note in bench.notes)


async def test_without_a_server_the_rest_is_still_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(server: ServerProgram, explicit: str | None = None) -> None:
        raise Invalid(f"no {server.title} found: run `make setup`")

    monkeypatch.setattr(servers, "find_program", missing)
    bench = Bench("throttle", is_quick=True, only="decide")
    await throttle(bench)
    values = {result.figure.id: result.value for result in bench.results}
    assert values["decide.healthy"]
    assert values["decide.wait"] is None


def test_goals() -> None:
    figures = (
        run.HEALTHY_RATIO,
        run.CONGESTED_RATIO,
        run.ADMITTED_RATIO,
        run.WAIT_RATIO,
        run.TAIL_RATIO,
        run.CONVERGENCE,
        run.GAP,
        run.UNSHARED,
        run.NOISY,
        run.NOISY_USE,
        run.STRICT,
        run.SURGE,
    )
    assert [figure.goal for figure in figures] == [1, 1, 1, 30, 3, 2.25, 0.02, 0.4, 0.66, 0.99, 0.84, 0.99]
