"""Virtual time, and processes that can be paused and killed."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator

import pytest

from argosy.sim.loop import OUTSIDE, SimLoop, SimProcess, Stuck, run


def test_an_idle_day_takes_no_time() -> None:
    async def main(loop: SimLoop) -> float:
        await asyncio.sleep(86_400)
        return loop.time()

    began = time.monotonic()
    assert run(main) == pytest.approx(86_400)
    assert time.monotonic() - began < 5


def test_timeouts_fire_at_their_virtual_instant() -> None:
    async def main(loop: SimLoop) -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(7.5):
                await asyncio.Event().wait()
        return loop.time()

    assert run(main) == pytest.approx(7.5)


def test_a_deadlock_is_an_error() -> None:
    async def main(loop: SimLoop) -> None:
        await asyncio.sleep(3)
        await asyncio.Event().wait()

    with pytest.raises(Stuck, match=r"deadlock: at 3\.000 s .* nothing is scheduled"):
        run(main)


def test_a_program_that_never_waits_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("argosy.sim.loop.STEPS_MAX_AT_ONE_INSTANT", 100)

    async def main(loop: SimLoop) -> None:
        while loop.time() < 1:  # noqa: ASYNC110
            await asyncio.sleep(0)

    with pytest.raises(Stuck, match="without waiting"):
        run(main)


def test_threads_are_refused() -> None:
    async def main(loop: SimLoop) -> None:
        await asyncio.to_thread(time.time)

    with pytest.raises(RuntimeError, match="threads"):
        run(main)


def test_an_uncaught_exception_fails_the_run() -> None:
    async def main(loop: SimLoop) -> None:
        loop.call_later(1, lambda: 1 / 0)
        await asyncio.sleep(2)

    with pytest.raises(RuntimeError, match=r"at 1\.000 s.*ZeroDivisionError"):
        run(main)


async def _tick(loop: SimLoop, log: list[str], name: str, every_s: float = 1.0) -> None:
    while True:
        log.append(f"{name}@{loop.time():.1f}")
        await asyncio.sleep(every_s)


def test_a_paused_process_stops_and_others_continue() -> None:
    async def main(loop: SimLoop) -> list[str]:
        log: list[str] = []
        a, b = SimProcess("a", loop), SimProcess("b", loop)
        a.spawn(_tick(loop, log, "a"))
        b.spawn(_tick(loop, log, "b", 2.0))
        await asyncio.sleep(1.5)
        a.pause()
        await asyncio.sleep(4)
        a.resume()
        await asyncio.sleep(1.1)
        return log

    assert run(main) == ["a@0.0", "b@0.0", "a@1.0", "b@2.0", "b@4.0", "a@5.5", "b@6.0", "a@6.5"]


def test_what_a_process_starts_belongs_to_it() -> None:
    async def main(loop: SimLoop) -> list[str]:
        log: list[str] = []
        process = SimProcess("a", loop)

        async def parent() -> None:
            task = asyncio.create_task(_tick(loop, log, "child"))
            loop.call_later(1.2, log.append, "timer")
            loop.call_later(1.2, log.append, "network", context=OUTSIDE)
            await task

        process.spawn(parent())
        await asyncio.sleep(0.5)
        process.pause()
        await asyncio.sleep(2)
        seen_while_paused = list(log)
        process.resume()
        await asyncio.sleep(0.1)
        return [*seen_while_paused, "|", *log]

    # Held callbacks run in the order in which they fell due: the child's sleep ended before the timer fired.
    assert run(main) == ["child@0.0", "network", "|", "child@0.0", "network", "timer", "child@2.5"]


def test_an_answer_received_during_a_pause_is_handled_on_resume() -> None:
    async def main(loop: SimLoop) -> float:
        process = SimProcess("a", loop)
        answer: asyncio.Future[str] = loop.create_future()

        async def wait_for_it() -> float:
            await answer
            return loop.time()

        task = process.spawn(wait_for_it())
        await asyncio.sleep(1)
        process.pause()
        answer.set_result("late")
        await asyncio.sleep(10)
        process.resume()
        return await task

    assert run(main) == pytest.approx(11)


def test_a_handle_cancelled_while_held_back_stays_cancelled() -> None:
    async def main(loop: SimLoop) -> list[str]:
        log: list[str] = []
        process = SimProcess("a", loop)
        handles: list[asyncio.Handle] = []

        async def schedule() -> None:
            handles.append(loop.call_later(1, log.append, "cancelled"))
            handles.append(loop.call_later(1, log.append, "kept"))

        await process.spawn(schedule())
        process.pause()
        await asyncio.sleep(2)
        handles[0].cancel()
        process.resume()
        await asyncio.sleep(1)
        return log

    assert run(main) == ["kept"]


def test_a_killed_process_does_nothing_more_not_even_its_finally_blocks(capfd: pytest.CaptureFixture[str]) -> None:
    async def main(loop: SimLoop) -> list[str]:
        log: list[str] = []
        process = SimProcess("a", loop)

        async def stubborn() -> None:
            try:
                await _tick(loop, log, "a")
            finally:
                log.append("finally")
                await asyncio.sleep(1)
                log.append("finally, later")

        process.spawn(stubborn())
        await asyncio.sleep(1.5)
        process.spawn(_tick(loop, log, "never started"))
        process.kill()
        await asyncio.sleep(10)
        return list(log)

    assert run(main) == ["a@0.0", "a@1.0"]
    assert capfd.readouterr().err == ""


def test_tasks_left_at_the_end_report_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    async def facts() -> AsyncIterator[int]:
        try:
            while True:
                await asyncio.sleep(1)
                yield 1
        finally:
            await asyncio.sleep(1)

    async def listen() -> None:
        async for _ in facts():
            pass

    async def main(loop: SimLoop) -> None:
        for _ in range(3):
            loop.create_task(listen())
        await asyncio.sleep(2.5)

    run(main)
    assert capfd.readouterr().err == ""


PROGRAM = """
import asyncio, random
from argosy.sim.loop import SimProcess, run

async def main(loop):
    draw = random.Random(5)
    log = []
    async def worker(name):
        for _ in range(20):
            await asyncio.sleep(draw.choice([0.0, 0.1, 0.5]))
            log.append(f"{name}@{loop.time():.2f}")
    processes = [SimProcess(name, loop) for name in ("ant", "bee", "cat")]
    tasks = [p.spawn(worker(p.name + str(i))) for p in processes for i in range(3)]
    await asyncio.sleep(1)
    processes[1].pause()
    await asyncio.sleep(3)
    processes[1].resume()
    await asyncio.gather(*tasks)
    return log

print(run(main))
"""


def test_a_run_repeats_whatever_the_hash_seed() -> None:
    outputs = []
    for seed in ("0", "1", "77"):
        environ = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", PROGRAM], env=environ, capture_output=True, check=True, text=True)
        outputs.append(done.stdout)
    assert outputs[0].count("@") == 180
    assert len(set(outputs)) == 1
