"""Running a query: the caller is woken when all is done or wrong, and a late request is hedged."""

from collections.abc import Collection, Mapping

import pytest

from argosy.base.clock import seeded_random
from argosy.base.errors import Invalid, Unavailable
from argosy.base.metrics import Metrics
from argosy.gateway.load_balancer import LoadBalancer
from argosy.gateway.scatter_machine import NodeRequest, ScatterMachine
from argosy.gateway.scatter_runner import ScatterRunner
from argosy.gateway.settings import GatewaySettings
from argosy.gateway.telemetry import GatewayTelemetry
from argosy.search.model import Missing, MissingReason
from argosy.sim.loop import SimClock, SimLoop
from tests.gateway.world import in_virtual_time

HEDGE_S = 0.5
DEADLINE_S = 5.0


class Others:
    """Every node that has no request yet can get one, after a delay."""

    def __init__(self, addresses: Collection[str]) -> None:
        self.addresses = addresses

    def another(self, name: str, tried: Collection[str], now: float) -> str | None:
        return next((each for each in self.addresses if each not in tried), None)

    def hedge_after_s(self, address: str) -> float:
        return HEDGE_S

    def may_hedge(self) -> bool:
        return True


class FakeNodes:
    """Nodes that respond with their address after a delay, or fail."""

    def __init__(
        self, loop: SimLoop, takes_s: Mapping[str, float], errors: Mapping[str, Exception] | None = None
    ) -> None:
        self.clock = SimClock(loop.time)
        self.sent: list[tuple[str, float]] = []
        self._takes_s = takes_s
        self._errors = errors or {}

    async def send(self, request: NodeRequest) -> str:
        self.sent.append((request.address, self.clock.now()))
        await self.clock.sleep(self._takes_s[request.address])
        if (error := self._errors.get(request.address)) is not None:
            raise error
        return request.address

    def scatter(self, first: Mapping[str, tuple[str, ...]], others: Collection[str] = ()) -> ScatterRunner[str]:
        deadline = self.clock.now() + DEADLINE_S
        return ScatterRunner(
            ScatterMachine(first.items(), Others(others), deadline=deadline),
            (),
            self.send,
            lambda _: (),
            balancer=LoadBalancer(GatewaySettings(), seeded_random(1)),
            telemetry=GatewayTelemetry(Metrics()),
            clock=self.clock,
        )


def test_the_whole_result_is_awaited_and_each_step_can_be() -> None:
    first = {"a": ("x",), "b": ("y",), "c": ("z",)}

    async def main(loop: SimLoop) -> tuple[list[str], float, list[list[str]]]:
        nodes = FakeNodes(loop, {"a": 0.1, "b": 0.3, "c": 0.2})
        async with nodes.scatter(first) as runner:
            await runner.wait_done()
            whole, took_s = runner.answers(), nodes.clock.now()
        async with nodes.scatter(first) as runner:
            steps = [runner.answers() for _ in range(3) if await runner.step()]
            assert not await runner.step()
        return whole, took_s, steps

    whole, took_s, steps = in_virtual_time(main)
    assert whole == ["a", "c", "b"]
    assert took_s == pytest.approx(0.3)
    assert steps == [["a"], ["a", "c"], ["a", "c", "b"]]


@pytest.mark.parametrize("is_by_steps", [True, False])
def test_an_invalid_request_ends_the_query_at_once(is_by_steps: bool) -> None:
    async def main(loop: SimLoop) -> float:
        nodes = FakeNodes(loop, {"a": 0.1, "b": 3.0}, {"a": Invalid("no such query")})
        async with nodes.scatter({"a": ("x",), "b": ("y",)}) as runner:
            with pytest.raises(Invalid, match="no such query"):
                await (runner.step() if is_by_steps else runner.wait_done())
        return nodes.clock.now()

    assert in_virtual_time(main) == pytest.approx(0.1)


def test_a_late_request_is_hedged_also_after_others_have_responded() -> None:
    async def main(loop: SimLoop) -> tuple[list[str], list[tuple[str, float]]]:
        nodes = FakeNodes(loop, {"a": 0.1, "slow": 60.0, "spare": 0.2})
        async with nodes.scatter({"a": ("x",), "slow": ("y",)}, others=["spare"]) as runner:
            await runner.wait_done()
            return runner.answers(), nodes.sent

    answers, sent = in_virtual_time(main)
    assert answers == ["a", "spare"]
    assert sent == [("a", 0.0), ("slow", 0.0), ("spare", pytest.approx(HEDGE_S))]


def test_what_no_node_has_answered_is_missing_at_the_deadline() -> None:
    async def main(loop: SimLoop) -> tuple[list[str], list[Missing], float]:
        nodes = FakeNodes(
            loop, {"a": 0.1, "refuses": 0.1, "slow": 60.0}, {"refuses": Unavailable("connection refused")}
        )
        async with nodes.scatter({"a": ("x",), "refuses": ("y",), "slow": ("z",)}) as runner:
            await runner.wait_done()
            return runner.answers(), runner.missing(), nodes.clock.now()

    answers, missing, ended_at = in_virtual_time(main)
    assert answers == ["a"]
    assert {each.repository: each.why for each in missing} == {"y": MissingReason.FAILED, "z": MissingReason.TIMED_OUT}
    assert ended_at == pytest.approx(DEADLINE_S, abs=0.01)


def test_a_response_that_arrives_during_a_delivery_is_delivered_next() -> None:
    async def main(loop: SimLoop) -> list[list[str]]:
        nodes = FakeNodes(loop, {"a": 0.1, "b": 0.2})
        async with nodes.scatter({"a": ("x",), "b": ("y",)}) as runner:
            await runner.step()
            delivered: set[str] = set()
            first = []
            for answer, _ in runner.fresh(delivered):
                first.append(answer)
                await runner.wait_done()  # as a slow client makes the stream wait
            return [first, [answer for answer, _ in runner.fresh(delivered)]]

    assert in_virtual_time(main) == [["a"], ["b"]]
