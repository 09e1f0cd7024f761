"""An assigner from its settings: the pool file is read, watched, and not applied when it is invalid."""

import asyncio
import json
from pathlib import Path

import pytest

from argosy.base.clock import SystemClock, seeded_random
from argosy.base.errors import Invalid
from argosy.base.metrics import Metrics
from argosy.ipni.assigner.runtime import Assigner
from argosy.ipni.assigner.telemetry import RELOADS
from argosy.ipni.settings import AssignerSettings
from tests.ipni.assigner.doubles import Double, Stage, announce_and_wait, peer, stage, until

P1 = peer("p1")


def write(path: Path, it: Stage, *names: str, **rest: object) -> None:
    urls = [it.urls[name] for name in names]
    pool = [{"AdminURL": url, "FindURL": url, "IngestURL": url} for url in urls]
    path.write_text(json.dumps({"IndexerPool": pool, **rest}))


def assigner(path: Path | None, **settings: object) -> Assigner:
    runtime = AssignerSettings(pool_file=None if path is None else str(path), **settings)  # type: ignore[arg-type]
    return Assigner(runtime, clock=SystemClock(), random=seeded_random(1), metrics=Metrics())


async def test_a_change_of_the_file_is_applied_without_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "pool.json"
    zero, one = Double("0", is_frozen=True, allowed={P1: ""}), Double("1")
    async with stage(zero, one) as it:
        write(path, it, "0")
        runtime = assigner(path, poll_s=0.0, watch_s=0.1)
        running = asyncio.ensure_future(runtime.run())
        await until(runtime.service.is_ready)
        write(path, it, "0", "1")
        await until(lambda: one.handoffs)
        await runtime.service.wait_idle()
        running.cancel()
        await asyncio.wait([running])
        await runtime.close()
        assert one.allowed == {P1: zero.id}


async def test_an_invalid_file_is_reported_and_the_former_configuration_stays(tmp_path: Path) -> None:
    path = tmp_path / "pool.json"
    only = Double("0")
    async with stage(only) as it:
        write(path, it, "0")
        runtime = assigner(path)
        await runtime.service.poll()
        path.write_text('{"IndexerPool": []')
        await runtime.reload_if_changed()
        await runtime.reload_if_changed()
        metrics = runtime.service.telemetry.metrics
        assert metrics.value(RELOADS, outcome="rejected") == 1
        with pytest.raises(Invalid, match=r"pool\.json: the pool file is not JSON"):
            await runtime.reload()
        path.unlink()
        await runtime.reload_if_changed()
        await announce_and_wait(runtime.service, "p1")
        assert set(only.allowed) == {P1}
        write(path, it)
        await runtime.reload_if_changed()
        assert metrics.value(RELOADS, outcome="accepted") == 1
        assert runtime.service.pool_state.urls() == ()
        await runtime.close()


async def test_values_absent_from_the_file_come_from_the_settings(tmp_path: Path) -> None:
    path = tmp_path / "pool.toml"
    path.write_text("PresetReplication = 3\n")
    runtime = assigner(path, replication=2, poll_s=9.0, exceptions=(P1,), forward_urls=("x:1/",))
    found = runtime.service.pool_state.configuration
    assert (found.replication, found.preset_replication, found.poll_s) == (2, 3, 9.0)
    assert (found.exceptions, found.forward_urls) == ({P1}, ("http://x:1",))
    await runtime.close()


async def test_a_start_with_a_file_that_is_wrong_or_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"cannot be read .* see assigner\.pool_file"):
        assigner(tmp_path / "none.json")
    (tmp_path / "pool.json").write_text('{"Replication": -1}')
    with pytest.raises(Invalid, match=r"pool\.json: Replication must be at least 1"):
        assigner(tmp_path / "pool.json")


async def test_without_a_file_it_only_forwards() -> None:
    target = Double("elsewhere", allowed={P1: ""})
    async with stage(target) as it:
        runtime = assigner(None, forward_urls=(it.urls["elsewhere"],), poll_s=0.0)
        running = asyncio.ensure_future(runtime.run())
        await until(runtime.service.is_ready)
        await announce_and_wait(runtime.service, "p1")
        assert target.heads("p1") == 1
        await runtime.reload()
        running.cancel()
        await asyncio.wait([running])
        await runtime.close()
