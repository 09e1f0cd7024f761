"""`argosy job` and `argosy worker` with invalid arguments: a one-line error, and no unintended effect on jobs."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from argosy.cli.root import cli
from argosy.jobs.sdk.router import ShardRouter
from tests.jobs.rpc.stage import Stage
from tests.jobs.sdk.threaded_server import run_server

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with run_server() as made:
        yield made


@pytest.fixture
def run(stage: Stage) -> Run:
    return lambda *words: CliRunner().invoke(cli, [*words, "-a", stage.address])


@pytest.mark.parametrize(
    "words",
    [
        ("job", "enqueue", "mail", "--delay", "inf"),
        ("job", "enqueue", "mail", "--delay", "nan"),
        ("job", "enqueue", "mail", "--delay", "1e12"),
        ("job", "enqueue", "mail", "--wait", "nan"),
        ("job", "enqueue", "mail", "--retry-interval", "inf", "--retries", "1"),
        ("job", "result", "j", "--wait", "nan"),
        ("job", "watch", "j", "--timeout", "inf"),
        ("worker", "run", "handlers", "--stop", "nan"),
        ("shard", "split", "s", "--wait", "nan"),
    ],
)
def test_a_delay_out_of_range_is_rejected(run: Run, words: tuple[str, ...]) -> None:
    answer = run(*words)
    assert answer.exit_code == 2
    assert "is not a number of seconds" in answer.stderr


def test_more_retries_than_the_protocol_allows_are_rejected(run: Run) -> None:
    answer = run("job", "enqueue", "mail", "--retries", "99999999999")
    assert answer.exit_code == 2
    assert "'--retries': 99999999999 is not in the range" in answer.stderr


@pytest.mark.parametrize("id", ["never", "j"])
@pytest.mark.parametrize("command", ["get", "result", "watch", "cancel", "restart", "expedite"])
def test_a_job_that_is_not_there_is_named(run: Run, command: str, id: str) -> None:
    answer = run("job", command, id)
    assert (answer.exit_code, answer.stderr) == (1, f"error: {id}: job not found\n")


def test_a_rejected_job_does_not_stop_the_others(run: Run) -> None:
    for id in ("first", "second"):
        run("job", "enqueue", "mail", "--id", id)
    answer = run("job", "cancel", "first", "never", "second")
    assert answer.exit_code == 1
    assert answer.stdout == "cancelled job first\ncancelled job second\n"
    assert answer.stderr == "error: never: job not found\n"
    again = run("job", "cancel", "second", "never", "--json")
    assert again.exit_code == 1
    job = json.loads(again.stdout)
    assert (job["ids"], set(job["rejected"])) == ([], {"second", "never"})
    assert "already cancelled" in job["rejected"]["second"]


def test_without_a_broker_the_error_names_how_to_start_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_pause(*_: object) -> None:
        """Retries at once."""

    monkeypatch.setattr(ShardRouter, "_pause", no_pause)
    answer = CliRunner().invoke(cli, ["job", "list", "-a", "127.0.0.1:9"])
    assert answer.exit_code == 1
    assert answer.stderr.startswith("error: 127.0.0.1:9 unreachable")
    assert "start a broker with `argosy serve --role jobs`" in answer.stderr


def test_an_unfinished_job_does_not_suggest_starting_a_broker(run: Run) -> None:
    run("job", "enqueue", "mail", "--id", "waits")
    answer = run("job", "result", "waits")
    assert (answer.exit_code, "is a broker up" in answer.stderr) == (1, False)


@pytest.mark.parametrize(
    "words",
    [
        ("list",), ("get", "j"), ("result", "j"), ("watch", "j"), ("cancel", "j"), ("requeue",),
        ("schedule", "list"), ("schedule", "delete", "nightly"),
    ],
)  # fmt: skip
def test_reading_a_missing_folder_does_not_create_a_broker(tmp_path: Path, words: tuple[str, ...]) -> None:
    url = (tmp_path / "jubs").as_uri()
    answer = CliRunner().invoke(cli, ["job", *words, "-a", url])
    assert (answer.exit_code, answer.stderr) == (1, f"error: no broker found at {url}; check --address\n")
    assert not (tmp_path / "jubs").exists()


@pytest.mark.parametrize("target", ["./handlers", "handlers.py", "", ".handlers", "folder/handlers:greet"])
def test_the_path_of_a_file_is_no_module(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    (tmp_path / "handlers.py").write_text("raise AssertionError('not to be imported')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "handlers", raising=False)
    answer = run("worker", "run", target)
    assert answer.exit_code == 2
    assert "expected package.module as in an import" in answer.stderr
