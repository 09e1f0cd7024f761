"""The auditor detects the violations it exists for."""

from tests.jobs.cluster.auditor import Auditor, Run


def test_the_auditor_reports_a_job_run_twice_and_an_exceeded_limit() -> None:
    runs = [Run("j", "t1", 0.0, 5.0, "k"), Run("j", "t2", 4.0, 6.0, "k"), Run("i", "t3", 5.0, 7.0, "k")]
    auditor = Auditor(runs=runs)
    assert [(a.task, b.task) for a, b in auditor.overlapping_runs()] == [("t1", "t2")]
    assert auditor.max_concurrent() == {"k": 2}
