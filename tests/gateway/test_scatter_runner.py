"""A query on its way: who waits is woken when all is settled or wrong, and a late answer is asked for elsewhere."""

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
from argosy.sim.clocks import SimClock
from argosy.sim.loop import SimLoop
from tests.gateway.world import in_virtual_time

HEDGE_S = 0.5
DEADLINE_S = 5.0


class Others:
    """Whoever was not asked yet can be asked, after a while."""

    def __init__(self, addresses: Collection[str]) -> None:
        self.addresses = addresses

    def another(self, name: str, tried: Collection[str], now: float) -> str | None:
        return next((each for each in self.addresses if each not in tried), None)

    def hedge_after_s(self, address: str) -> float:
        return HEDGE_S

    def may_hedge(self) -> bool:
        return True


class Asking:
    """Answers with the address, after as long as is said for it; an error instead if one is."""

    def __init__(
        self, loop: SimLoop, takes_s: Mapping[str, float], errors: Mapping[str, Exception] | None = None
    ) -> None:
        self.clock = SimClock(loop.time)
        self.asked: list[tuple[str, float]] = []
        self._takes_s = takes_s
        self._errors = errors or {}

    async def ask(self, question: NodeRequest) -> str:
        self.asked.append((question.address, self.clock.now()))
        await self.clock.sleep(self._takes_s[question.address])
        if (error := self._errors.get(question.address)) is not None:
            raise error
        return question.address

    def scattering(self, first: Mapping[str, tuple[str, ...]], others: Collection[str] = ()) -> ScatterRunner[str]:
        deadline = self.clock.now() + DEADLINE_S
        return ScatterRunner(
            ScatterMachine(first.items(), Others(others), deadline=deadline),
            (),
            self.ask,
            lambda _: (),
            balancer=LoadBalancer(GatewaySettings(), seeded_random(1)),
            telemetry=GatewayTelemetry(Metrics()),
            clock=self.clock,
        )


def test_the_whole_is_waited_for_and_each_step_can_be() -> None:
    first = {"a": ("x",), "b": ("y",), "c": ("z",)}

    async def main(loop: SimLoop) -> tuple[list[str], float, list[list[str]]]:
        asking = Asking(loop, {"a": 0.1, "b": 0.3, "c": 0.2})
        async with asking.scattering(first) as work:
            await work.wait_done()
            whole, took_s = work.answers(), asking.clock.now()
        async with asking.scattering(first) as work:
            steps = [work.answers() for _ in range(3) if await work.step()]
            assert not await work.step()
        return whole, took_s, steps

    whole, took_s, steps = in_virtual_time(main)
    assert whole == ["a", "c", "b"]
    assert took_s == pytest.approx(0.3)
    assert steps == [["a"], ["a", "c"], ["a", "c", "b"]]


@pytest.mark.parametrize("is_by_steps", [True, False])
def test_a_question_that_is_wrong_ends_the_query_at_once(is_by_steps: bool) -> None:
    async def main(loop: SimLoop) -> float:
        asking = Asking(loop, {"a": 0.1, "b": 3.0}, {"a": Invalid("no such query")})
        async with asking.scattering({"a": ("x",), "b": ("y",)}) as work:
            with pytest.raises(Invalid, match="no such query"):
                await (work.step() if is_by_steps else work.wait_done())
        return asking.clock.now()

    assert in_virtual_time(main) == pytest.approx(0.1)


def test_who_is_late_is_asked_for_elsewhere_also_after_others_have_answered() -> None:
    async def main(loop: SimLoop) -> tuple[list[str], list[tuple[str, float]]]:
        asking = Asking(loop, {"a": 0.1, "slow": 60.0, "spare": 0.2})
        async with asking.scattering({"a": ("x",), "slow": ("y",)}, others=["spare"]) as work:
            await work.wait_done()
            return work.answers(), asking.asked

    answers, asked = in_virtual_time(main)
    assert answers == ["a", "spare"]
    assert asked == [("a", 0.0), ("slow", 0.0), ("spare", pytest.approx(HEDGE_S))]


def test_what_nobody_answers_for_is_missing_at_the_deadline() -> None:
    async def main(loop: SimLoop) -> tuple[list[str], list[Missing], float]:
        asking = Asking(loop, {"a": 0.1, "refuses": 0.1, "slow": 60.0}, {"refuses": Unavailable("connection refused")})
        async with asking.scattering({"a": ("x",), "refuses": ("y",), "slow": ("z",)}) as work:
            await work.wait_done()
            return work.answers(), work.missing(), asking.clock.now()

    answers, missing, ended_at = in_virtual_time(main)
    assert answers == ["a"]
    assert {each.repository: each.why for each in missing} == {"y": MissingReason.FAILED, "z": MissingReason.TIMED_OUT}
    assert ended_at == pytest.approx(DEADLINE_S, abs=0.01)


def test_an_answer_that_arrives_while_the_earlier_ones_are_delivered_is_delivered_next() -> None:
    async def main(loop: SimLoop) -> list[list[str]]:
        asking = Asking(loop, {"a": 0.1, "b": 0.2})
        async with asking.scattering({"a": ("x",), "b": ("y",)}) as work:
            await work.step()
            delivered: set[str] = set()
            first = []
            for answer, _ in work.fresh(delivered):
                first.append(answer)
                await work.wait_done()  # as a slow client makes the stream wait
            return [first, [answer for answer, _ in work.fresh(delivered)]]

    assert in_virtual_time(main) == [["a"], ["b"]]
