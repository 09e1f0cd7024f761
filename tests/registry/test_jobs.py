"""Control jobs: claimed under a lease, finished once, hidden by nothing."""

import pytest

from argosy.base.errors import Conflict, Invalid, NotFound
from argosy.registry import jobs
from argosy.registry.rows import ControlJob, ControlJobState
from tests.registry.interpreter import START_MS, Interpreter


def queue(store: Interpreter, *job_ids: str, **given: object) -> None:
    for job_id in job_ids:
        store.run(jobs.enqueue(job_id, "import", {"n": 1}, **given))  # type: ignore[arg-type]


def claim(store: Interpreter, worker: str = "w1", lease_ms: int = 100, **given: object) -> ControlJob | None:
    return store.run(jobs.claim(worker, lease_ms=lease_ms, **given))  # type: ignore[arg-type]


def claimed(store: Interpreter, worker: str = "w1", **given: object) -> ControlJob:
    job = claim(store, worker, **given)  # type: ignore[arg-type]
    assert job is not None
    return job


def test_a_claim_returns_the_updated_job() -> None:
    """ "Fixed job_dequeue() to properly fetch the updated job after transaction" """
    store = Interpreter()
    queue(store, "j")
    job = claimed(store)
    assert (job.state, job.claimed_by, job.claim_expires_at) == (ControlJobState.IN_PROGRESS, "w1", START_MS + 100)
    assert (job.fence, job.attempts, job.version) == (1, 1, 2)
    assert store.run(jobs.read("j")) == job
    assert claim(store, "w2") is None


def test_jobs_come_by_priority_and_then_by_arrival() -> None:
    """Defect R9: ordered by random id."""
    store = Interpreter()
    for job_id, priority in (("z", 0), ("a", 0), ("urgent", 5), ("idle", -5)):
        queue(store, job_id, priority=priority)
        store.pass_time(1)
    assert [claimed(store).job_id for _ in range(4)] == ["urgent", "z", "a", "idle"]


def test_a_job_is_claimed_by_one_of_two_who_come_at_once() -> None:
    """Defect R7: both got the job."""
    store = Interpreter()
    queue(store, "a", "b")
    store.meanwhile(jobs.claim("w2"))
    assert claimed(store).job_id == "b"


def test_a_job_whose_worker_died_is_claimed_before_a_new_one() -> None:
    """Defect R8: a crash after the claim lost the job."""
    store = Interpreter()
    queue(store, "j")
    first = claimed(store)
    queue(store, "fresh", priority=9)
    store.pass_time(100)
    second = claimed(store, "w2")
    assert (second.job_id, second.fence, second.attempts) == ("j", 2, 2)
    assert not store.run(jobs.complete("j", "w1", first.fence))
    assert not store.run(jobs.heartbeat("j", "w1", first.fence))
    assert store.run(jobs.complete("j", "w2", second.fence, {"rows": 3}))


def test_a_completed_job_is_not_queued_again() -> None:
    """Defect R6."""
    store = Interpreter()
    queue(store, "j")
    store.run(jobs.complete("j", "w1", claimed(store).fence, {"rows": 3}))
    store.pass_time(10**9)
    assert claim(store) is None
    done = store.run(jobs.read("j"))
    assert done is not None
    assert (done.state, done.claimed_by, done.progress) == (ControlJobState.COMPLETED, None, {"rows": 3})
    assert not store.run(jobs.complete("j", "w1", 1))


def test_a_heartbeat_extends_the_claim_and_keeps_progress_without_a_result() -> None:
    store = Interpreter()
    queue(store, "j")
    fence = claimed(store).fence
    store.pass_time(99)
    assert store.run(jobs.heartbeat("j", "w1", fence, lease_ms=100, progress={"cursor": 7}))
    store.pass_time(99)
    assert claim(store, "w2") is None
    assert store.run(jobs.complete("j", "w1", fence))
    done = store.run(jobs.read("j"))
    assert done is not None
    assert done.progress == {"cursor": 7}


def test_a_claim_that_ran_out_is_no_longer_prolonged_but_finished_work_counts() -> None:
    store = Interpreter()
    queue(store, "j")
    fence = claimed(store).fence
    store.pass_time(100)
    assert not store.run(jobs.heartbeat("j", "w1", fence))
    assert store.run(jobs.complete("j", "w1", fence))


def test_a_failed_attempt_waits_and_is_tried_again_until_attempts_are_out() -> None:
    store = Interpreter()
    queue(store, "j", max_attempts=2)
    retry_at = START_MS + 50
    assert store.run(jobs.fail("j", "w1", claimed(store).fence, "away", retry_at=retry_at))
    assert claim(store) is None
    store.pass_time(50)
    assert store.run(jobs.fail("j", "w1", claimed(store).fence, "away still", retry_at=retry_at))
    failed = store.run(jobs.read("j"))
    assert failed is not None
    assert (failed.state, failed.error) == (ControlJobState.FAILED, "away still")
    assert not store.run(jobs.fail("j", "w1", 9, "x"))


def test_a_job_out_of_attempts_is_failed_and_skipped() -> None:
    store = Interpreter()
    queue(store, "bad", max_attempts=1)
    claimed(store)
    queue(store, "good")
    store.pass_time(100)
    assert claimed(store).job_id == "good"
    bad = store.run(jobs.read("bad"))
    assert bad is not None
    assert (bad.state, bad.error) == (ControlJobState.FAILED, "out of attempts")


def test_a_claim_that_finds_only_exhausted_jobs_fails_them() -> None:
    store = Interpreter()
    queue(store, "bad", max_attempts=1)
    claimed(store)
    store.pass_time(100)
    assert claim(store) is None
    assert store.run(jobs.count(ControlJobState.FAILED)) == 1


def test_waiting_jobs_and_jobs_of_other_workers_hide_no_later_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "CANDIDATES", 2)
    monkeypatch.setattr(jobs, "FIND_MAX", 4)
    store = Interpreter()
    queue(store, *(f"later{n}" for n in range(3)), not_before=START_MS + 9)
    store.pass_time(1)
    queue(store, *(f"later{n}" for n in range(3, 9)), not_before=START_MS + 9)
    store.pass_time(1)
    queue(store, "now")
    assert claimed(store, types=["import", "other"]).job_id == "now"
    assert claim(store, types=["other"]) is None


def test_ids_and_dedupe_keys_of_live_jobs_are_unique() -> None:
    store = Interpreter()
    queue(store, "j", dedupe_key="nightly")
    with pytest.raises(Conflict, match="'j' already exists"):
        queue(store, "j")
    with pytest.raises(Conflict, match="'j' already has dedupe_key 'nightly'"):
        queue(store, "k", dedupe_key="nightly")
    store.run(jobs.cancel("j"))
    queue(store, "k", dedupe_key="nightly")
    assert store.run(jobs.count(ControlJobState.QUEUED)) == 1


def test_a_canceled_job_rejects_its_worker() -> None:
    store = Interpreter()
    queue(store, "j")
    fence = claimed(store).fence
    canceled = store.run(jobs.cancel("j"))
    assert canceled.state is ControlJobState.CANCELED
    assert not store.run(jobs.complete("j", "w1", fence))
    assert store.run(jobs.cancel("j")) == canceled
    with pytest.raises(NotFound):
        store.run(jobs.cancel("k"))


def test_a_job_is_split_once_and_its_parts_keep_their_order() -> None:
    store = Interpreter()
    queue(store, "big", priority=3)
    fence = claimed(store).fence
    parts = store.run(jobs.split("big", "w1", fence, [{"part": n} for n in range(12)]))
    assert [part.job_id for part in parts] == [f"big.{n}" for n in range(12)]
    assert store.run(jobs.list_jobs(parent="big")) == parts
    assert [claimed(store).chunk_index for _ in range(12)] == list(range(12))
    with pytest.raises(Conflict, match="already split into 12"):
        store.run(jobs.split("big", "w1", fence, [{}]))
    with pytest.raises(Conflict, match="not claimed"):
        store.run(jobs.split("big", "w2", fence, [{}]))
    with pytest.raises(Invalid, match="1 to 1000"):
        store.run(jobs.split("big", "w1", fence, []))


def test_a_split_into_an_existing_job_does_nothing() -> None:
    store = Interpreter()
    queue(store, "big")
    fence = claimed(store).fence
    queue(store, "big.1")
    with pytest.raises(Conflict, match=r"'big\.1' already exists"):
        store.run(jobs.split("big", "w1", fence, [{}, {}]))
    assert store.run(jobs.read("big.0")) is None


def test_claims_that_ran_out_are_reaped() -> None:
    store = Interpreter()
    queue(store, "once", max_attempts=1)
    queue(store, "again")
    claimed(store)
    claimed(store)
    store.pass_time(100)
    assert [store.run(jobs.reap()) for _ in range(2)] == [2, 0]
    assert [store.run(jobs.count(state)) for state in (ControlJobState.QUEUED, ControlJobState.FAILED)] == [1, 1]


def test_only_jobs_that_ended_before_a_time_are_pruned() -> None:
    store = Interpreter()
    queue(store, "a", "b", "living")
    store.run(jobs.cancel("a"))
    store.pass_time(1)
    store.run(jobs.cancel("b"))
    assert [store.run(jobs.prune(START_MS + 1)) for _ in range(2)] == [1, 0]
    assert [job.job_id for job in store.run(jobs.list_jobs())] == ["living", "b"]


def test_all_jobs_are_listed_not_only_the_queue() -> None:
    """Defect R9: the list read only the queue."""
    store = Interpreter()
    queue(store, "a", "b", "c")
    claimed(store)
    store.run(jobs.cancel("b"))
    found = {state: store.run(jobs.list_jobs(state=state)) for state in (None, *ControlJobState)}
    assert {state: [job.job_id for job in listed] for state, listed in found.items()} == {
        None: ["c", "b", "a"],
        ControlJobState.QUEUED: ["c"],
        ControlJobState.IN_PROGRESS: ["a"],
        ControlJobState.CANCELED: ["b"],
        ControlJobState.COMPLETED: [],
        ControlJobState.FAILED: [],
    }
    assert store.run(jobs.list_jobs(type="other")) == []
    assert len(store.run(jobs.list_jobs(limit=1))) == 1


@pytest.mark.parametrize("wrong", [{"priority": 1001}, {"max_attempts": 0}, {"max_attempts": 101}, {"not_before": -1}])
def test_bad_input_is_rejected(wrong: dict[str, object]) -> None:
    store = Interpreter()
    with pytest.raises(Invalid):
        queue(store, "j", **wrong)
    with pytest.raises(Invalid, match="name"):
        claim(store, "")
    with pytest.raises(Invalid, match="a claim must be 1 to"):
        claim(store, lease_ms=0)
