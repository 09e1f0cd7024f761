"""How fair it is: the evaluator's scenarios over several seeds, and instances that share through a real server.

Scenarios last minutes, so they are played in virtual time; the server is real, its scripts do the arithmetic, and every
exchange goes over the wire. Virtual time lies in the past, because a server brings back whatever is ahead of its clock.
"""

import secrets
from collections.abc import Sequence

from argosy.base.backends.servers import Valkey
from argosy.sim.throttle_eval import Setup, run_once, still
from argosy.sim.throttle_load import Allocation, Scenario, arrivals
from argosy.throttle import RowStore, ThrottleSettings
from argosy.throttle.factory import open_row_store
from argosy.throttle.rows import row_rules

TIMEOUT_S = 10.0  # the machine may be busy, and the world's time stands still meanwhile


def allocations(scenario: Scenario, setup: Setup, seeds: int) -> list[Allocation]:
    """One run for each seed, from the original's on."""
    numbers = range(scenario.seed, scenario.seed + seeds)
    return [run_once(scenario, arrivals(scenario, seed), setup, seed) for seed in numbers]


def jains(runs: Sequence[Allocation]) -> list[float]:
    return [run.entitlement_jain for run in runs]


def through_server(
    server: Valkey, scenario: Scenario, setup: Setup, seeds: int, settings: ThrottleSettings
) -> list[Allocation]:
    """The same, with instances that share through the server."""
    numbers = range(scenario.seed, scenario.seed + seeds)
    return [_through_server(server, scenario, setup, seed, settings) for seed in numbers]


def _through_server(
    server: Valkey, scenario: Scenario, setup: Setup, seed: int, settings: ThrottleSettings
) -> Allocation:
    config, opened = still(setup.preset), []
    chosen = ThrottleSettings(namespace=f"bench-{secrets.token_hex(4)}", call_timeout_s=TIMEOUT_S)

    def rows_of(instance: str) -> RowStore:
        opened.append(open_row_store(server.url, row_rules(config), instance=instance, settings=chosen))
        return opened[-1]

    try:
        return run_once(scenario, arrivals(scenario, seed), setup, seed, settings=settings, rows_of=rows_of)
    finally:
        for rows in opened:
            rows.close()
