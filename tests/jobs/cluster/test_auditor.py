"""The auditor of the journeys sees what it is there to see."""

from tests.jobs.cluster.auditor import Auditor, Run


def test_the_auditor_sees_a_job_that_runs_twice_and_a_limit_that_is_exceeded() -> None:
    runs = [Run("j", "t1", 0.0, 5.0, "k"), Run("j", "t2", 4.0, 6.0, "k"), Run("i", "t3", 5.0, 7.0, "k")]
    auditor = Auditor(runs=runs)
    assert [(a.task, b.task) for a, b in auditor.overlapping_runs()] == [("t1", "t2")]
    assert auditor.max_concurrent() == {"k": 2}
