"""The client for programs without an event loop."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from argosy.base.errors import Conflict, Invalid, NotFound
from argosy.jobs import BlockingClient, JobStatus, NotDone, new_job
from tests.jobs.sdk.threaded_server import run_server


def test_threads_can_enqueue_and_inspect_jobs() -> None:
    with run_server() as stage, BlockingClient.connect(stage.address) as client, ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda at: client.enqueue("mail", at, id=f"j-{at}"), range(50)))
        assert ids == [f"j-{at}" for at in range(50)]
        assert client.get("j-7").payload == 7
        answers = client.enqueue_many([new_job("mail", id="new"), new_job("mail", id="j-0")])
        assert answers[0] == "new"
        assert isinstance(answers[1], Conflict)
        assert len(client.find(status=JobStatus.SCHEDULED, limit=100)) == 51
        assert len(client.shards()) == 3


def test_jobs_are_controlled_and_errors_are_raised_in_the_callers_thread(tmp_path: Path) -> None:
    with BlockingClient.open_embedded(tmp_path) as client:
        id = client.enqueue("mail", delay_s=3600)
        with pytest.raises(NotDone):
            client.result(id, timeout_s=0)
        client.expedite(id)
        client.cancel(id)
        client.restart(id)
        client.cancel(id)
        assert client.requeue() == {}
        client.delete(id)
        with pytest.raises(NotFound):
            client.get(id)
        client.put_schedule("nightly", "0 3 * * *", "mail")
        assert [schedule.name for schedule in client.schedules()] == ["nightly"]
        client.delete_schedule("nightly")
        client.close()
        client.close()


def test_a_client_that_cannot_be_opened_leaves_no_thread(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    before = set(threading.enumerate())  # threads of earlier tests may still be ending
    with pytest.raises(Invalid):
        BlockingClient.open_embedded(tmp_path / "file")
    assert set(threading.enumerate()) - before == set()
