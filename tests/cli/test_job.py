"""`argosy job`, `argosy shard` and `argosy worker` against a real server, and against a folder."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

import pytest
from click.testing import CliRunner, Result

from argosy.base.errors import Conflict, Unavailable
from argosy.cli import root
from argosy.jobs import JobsClient
from argosy.jobs.backends.shard_map_store import DirShardMapStore
from argosy.jobs.cluster.shard_map import SplitRequest
from argosy.jobs.ports import SplitStatus
from argosy.jobs.rpc.call_context import Access
from argosy.jobs.sdk.router import ShardRouter
from tests.jobs.rpc.stage import HERE, NOWHERE, Stage
from tests.jobs.sdk.threaded_server import run_server

HANDLERS = """
import asyncio
from pathlib import Path
from argosy.jobs import job

@job("greet")
async def greet(payload, context):
    context.progress("greeting")
    return f"hello {payload}"

@job("fail")
def fail(payload):
    raise ValueError("no such address")

@job("hold")
async def hold(payload):
    while not Path("let-go").exists():
        await asyncio.sleep(0.01)

@job("double")
def double(payload):
    return payload * 2

pair = [greet, double]
nothing = []
"""

SECOND_TRY = "99999999-9999-4999-8999-999999999999"

Run = Callable[..., Result]


@pytest.fixture
def stage() -> Iterator[Stage]:
    with run_server() as made:
        yield made


@pytest.fixture
def run(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Run:
    for name in ("job", "shard", "worker"):
        monkeypatch.setitem(root.COMMANDS, name, (f"argosy.cli.{name}:{name}", ""))

    def invoke(*arguments: str, stdin: str = "", address: str = stage.address) -> Result:
        group, command, *rest = arguments
        return CliRunner().invoke(root.cli, [group, command, "-a", address, *rest], input=stdin)

    return invoke


def output_of(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_job_is_put_shown_and_listed(run: Run) -> None:
    put = run("job", "enqueue", "mail", '{"to": "ada"}', "--id", "j-1", "-m", "kind=news", "--retries", "3")
    assert (put.exit_code, put.stdout) == (0, "j-1\n")
    shown = output_of(run("job", "get", "j-1", "--json", "--attempts"))
    assert (shown["payload"], shown["status"], shown["attempts"]) == ({"to": "ada"}, "scheduled", [])
    assert "scheduled" in run("job", "get", "j-1", "--attempts").stdout
    assert "j-1" in run("job", "list", "-m", "kind=news").stdout
    assert run("job", "list", "--status", "failed").stdout == "no jobs found\n"
    assert [each["id"] for each in output_of(run("job", "list", "--json", "--status", "scheduled"))] == ["j-1"]


def test_payloads_come_from_standard_input_too(run: Run) -> None:
    one = run("job", "enqueue", "mail", "-", "--json", stdin="[1, 2]")
    assert output_of(run("job", "get", output_of(one)["ids"][0], "--json"))["payload"] == [1, 2]
    many = output_of(run("job", "enqueue", "mail", "--lines", "--json", stdin='1\n"two"\n\n{"three": 3}\n'))
    assert len(set(many["ids"])) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mail", "no json"), "is not valid JSON"),
        (("mail", "--lines"), "no payloads"),
        (("mail", "1", "--lines"), "excludes PAYLOAD"),
        (("mail", "-m", "nothing"), "KEY=VALUE"),
    ],
)
def test_an_invalid_put_is_reported(run: Run, arguments: tuple[str, ...], message: str) -> None:
    answer = run("job", "enqueue", *arguments)
    assert answer.exit_code == 2
    assert message in answer.stderr


def test_an_id_in_use_is_an_error(run: Run) -> None:
    run("job", "enqueue", "mail", "--id", "mine")
    answer = run("job", "enqueue", "mail", "--id", "mine", "--json")
    assert (answer.exit_code, json.loads(answer.stderr)["error"]["kind"]) == (1, "Conflict")


def test_jobs_are_cancelled_restarted_expedited_and_deleted(run: Run) -> None:
    run("job", "enqueue", "mail", "--id", "j", "--delay", "3600")
    assert run("job", "expedite", "j").stdout == "expedited job j\n"
    assert run("job", "cancel", "j").stdout == "cancelled job j\n"
    assert "already cancelled" in run("job", "cancel", "j").stderr
    assert run("job", "restart", "j").stdout == "restarted job j\n"
    result = run("job", "result", "j")
    assert (result.exit_code, "scheduled" in result.stderr) == (1, True)
    run("job", "cancel", "j")
    assert output_of(run("job", "delete", "j", "--json")) == {"ids": ["j"]}
    assert "job not found" in run("job", "get", "j").stderr
    assert run("job", "requeue").stdout == "no dead-lettered jobs found\n"
    answer = run("job", "requeue", "nothing")
    assert (answer.exit_code, "1 of 1 jobs rejected" in answer.stderr) == (1, True)


def test_shards_are_listed_and_split(run: Run) -> None:
    shards = output_of(run("shard", "list", "--json"))
    assert shards[0]["id"] == HERE
    assert HERE in run("shard", "list").stdout
    split = output_of(run("shard", "split", HERE, "--json"))
    assert (split["point"], split["is_done"]) == ("4" + "0" * 15, False)
    assert "splitting shard" in run("shard", "split", HERE, "--at", "1" * 16).stdout
    late = run("shard", "split", HERE, "--wait", "0.01")
    assert (late.exit_code, "timed out after 0.01 s" in late.stderr) == (1, True)


def test_a_split_with_wait_is_retried_while_the_shard_moves(
    run: Run, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, refusals = stage.node, [Conflict("not served here: ask its owner"), Unavailable("acquisition in progress")]
    before, begins = node.topology(), node.split
    point = "4" + "0" * 15

    async def split(shard_id: str, at: str) -> SplitStatus:
        if refusals:
            raise refusals.pop()
        here, *others = before.shards
        halves = (replace(here, id=NOWHERE, range_end=at), replace(here, id=SECOND_TRY, range_start=at))
        monkeypatch.setattr(node, "topology", lambda: replace(before, shards=(*halves, *others)))
        return await begins(shard_id, at)

    monkeypatch.setattr(node, "split", split)
    answer = output_of(run("shard", "split", HERE, "--wait", "30", "--json"))
    assert refusals == []
    assert answer == {"shard": HERE, "left": NOWHERE, "right": SECOND_TRY, "point": point, "is_done": True}


def test_a_split_that_is_never_accepted_is_reported_with_the_reason(run: Run, stage: Stage) -> None:
    stage.node.failures[HERE] = Unavailable("shard not ready: acquisition in progress")
    answer = run("shard", "split", HERE, "--wait", "2")
    assert (answer.exit_code, "acquisition in progress" in answer.stderr) == (1, True)


def test_a_split_under_way_at_another_point_is_not_waited_for(
    run: Run, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def split(shard_id: str, at: str) -> SplitStatus:
        raise Conflict(f"shard {shard_id} is being split already, not at {at}")

    monkeypatch.setattr(stage.node, "split", split)
    stage.node.split_of = SplitStatus("SplitRequested", point="1" * 16)
    answer = run("shard", "split", HERE, "--at", "2" * 16, "--wait", "3600")
    assert (answer.exit_code, "being split already" in answer.stderr) == (1, True)


async def leave_split_request(maps: DirShardMapStore, shard_id: str, split_request: SplitRequest) -> None:
    """As after a broker that stopped too early."""
    shards = await maps.newest()
    assert shards is not None
    await maps.add(shards.with_split_request(shard_id, split_request))


def test_a_split_that_was_cut_short_is_done_when_the_broker_is_there_again(run: Run, tmp_path: Path) -> None:
    url = (tmp_path / "jobs").as_uri()
    shard_id = output_of(run("shard", "list", "--json", address=url))[0]["id"]
    asyncio.run(
        leave_split_request(DirShardMapStore(tmp_path / "jobs"), shard_id, SplitRequest("1" * 16, 1000, "gone"))
    )
    done = output_of(run("shard", "split", shard_id, "--wait", "60", "--json", address=url))
    assert (done["point"], done["is_done"]) == ("1" * 16, True)
    shards = {each["id"]: each for each in output_of(run("shard", "list", "--json", address=url))}
    assert shard_id not in shards
    assert shards[done["left"]]["range_end"] == shards[done["right"]]["range_start"] == done["point"]


def test_a_node_that_is_not_there_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_pause(*_: object) -> None:
        """Retries at once."""

    monkeypatch.setattr(ShardRouter, "_pause", no_pause)
    answer = run("job", "get", "x", address="127.0.0.1:9")
    assert answer.exit_code == 1
    assert answer.stderr.startswith("error: 127.0.0.1:9 unreachable")


def test_the_address_and_the_token_come_from_the_settings(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    with run_server(access=Access(["a-good-secret"])) as guarded:
        refused = run("job", "list", address=guarded.address)
        assert (refused.exit_code, "missing authorization" in refused.stderr) == (1, True)
        host, _, port = guarded.address.rpartition(":")
        monkeypatch.setenv("ARGOSY_JOBS_GRPC_HOST", host)
        monkeypatch.setenv("ARGOSY_JOBS_GRPC_PORT", port)
        monkeypatch.setenv("ARGOSY_JOBS_TOKENS", "a-good-secret")
        answer = CliRunner().invoke(root.cli, ["job", "enqueue", "mail", "--id", "j"])
        assert (answer.exit_code, answer.output) == (0, "j\n")


def test_a_folder_is_a_broker(run: Run, tmp_path: Path) -> None:
    url = (tmp_path / "jobs").as_uri()
    assert run("job", "enqueue", "mail", "7", "--id", "kept", address=url).exit_code == 0
    assert output_of(run("job", "get", "kept", "--json", address=url))["payload"] == 7


def test_watch_prints_every_change_until_the_end(run: Run, stage: Stage) -> None:
    run("job", "enqueue", "mail", "--id", "j")
    late = run("job", "watch", "j", "--timeout", "0.01")
    assert (late.exit_code, "not done: timed out after" in late.stderr) == (1, True)
    run("job", "cancel", "j")
    lines = [json.loads(line) for line in run("job", "watch", "j", "--json").stdout.splitlines()]
    assert [line["status"] for line in lines] == ["cancelled"]


def worker_process(folder: Path, address: str, *options: str, **streams: TextIO) -> "subprocess.Popen[str]":
    code = "from argosy.cli.worker import worker; worker()"
    command = [sys.executable, "-c", code, "run", "-a", address, *options]
    return subprocess.Popen(command, cwd=folder, env=dict(os.environ), stdout=subprocess.PIPE, text=True, **streams)


def test_a_worker_runs_the_jobs_of_a_module_and_stops_on_a_signal(run: Run, stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "handlers.py").write_text(HANDLERS)
    with worker_process(tmp_path, stage.address, "handlers:pair", "--name", "w") as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "worker w started: groups greet, double\n"
        assert output_of(run("job", "enqueue", "greet", '"ada"', "--wait", "60", "--json"))["result"] == "hello ada"
        assert run("job", "enqueue", "double", "21", "--wait", "60").stdout == "42\n"
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
    [done] = [each for each in output_of(run("job", "list", "--json")) if each["task_group"] == "greet"]
    assert output_of(run("job", "result", done["id"], "--json"))["result"] == "hello ada"
    assert "succeeded  attempt 1" in run("job", "watch", done["id"]).stdout


def test_a_worker_reports_failures_and_draining(run: Run, stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "handlers.py").write_text(HANDLERS)
    message = tmp_path / "said"
    with message.open("w") as stderr, worker_process(tmp_path, stage.address, "handlers", stderr=stderr) as worker:
        try:
            run("job", "enqueue", "hold", "--id", "held")
            run("job", "enqueue", "fail", "--id", "bad", "--wait", "60")
            assert "handler failed job=bad group=fail attempt=1 error=ValueError" in message.read_text()
            while output_of(run("job", "get", "held", "--json"))["status"] != "running":
                assert worker.poll() is None
            worker.send_signal(signal.SIGINT)
            while "draining; send the signal again to stop immediately tasks=" not in message.read_text():
                assert worker.poll() is None
            (tmp_path / "let-go").touch()
            assert worker.wait(60) == 0
        finally:
            worker.kill()
    assert run("job", "result", "held").stdout == "null\n"


@pytest.mark.parametrize(
    ("options", "stdout", "stderr"),
    [((), "", "enqueued job j\n"), (("--json",), '{\n  "ids": [\n    "j"\n  ]\n}\n', "")],
)
def test_an_interrupted_wait_prints_the_job_id(
    run: Run, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], stdout: str, stderr: str
) -> None:
    async def interrupted(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    monkeypatch.setattr(JobsClient, "result", interrupted)
    answer = run("job", "enqueue", "mail", "--id", "j", "--wait", "60", *options)
    assert (answer.exit_code, answer.stdout) == (130, stdout)
    assert answer.stderr.startswith(stderr)
    assert output_of(run("job", "get", "j", "--json"))["status"] == "scheduled"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("handlers:nothing", "no handlers in"),
        ("handlers:missing", "'missing' not found in module"),
        ("no_such_module_here", "not found; check its name"),
    ],
)
def test_a_target_without_handlers_is_reported(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, message: str
) -> None:
    (tmp_path / "handlers.py").write_text(HANDLERS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "handlers", raising=False)
    answer = run("worker", "run", target)
    assert answer.exit_code in (1, 2)
    assert message in answer.stderr


def test_schedules_are_put_listed_and_deleted(stage: Stage) -> None:
    def invoke(*arguments: str) -> Result:
        command, *rest = arguments
        return CliRunner().invoke(root.cli, ["job", "schedule", command, "-a", stage.address, *rest])

    put = invoke("put", "nightly", "0 3 * * *", "mail", '{"to": "all"}', "--timezone", "Europe/Rome", "--priority", "7")
    assert put.stdout == "created schedule nightly\n"
    assert invoke("put", "weekly", "0 4 * * 1", "mail", "--paused").stdout == "created schedule weekly (paused)\n"
    nightly, weekly = output_of(invoke("list", "--json"))
    assert nightly.pop("next_at_ms") > 0
    assert nightly == {
        "name": "nightly",
        "cron": "0 3 * * *",
        "timezone": "Europe/Rome",
        "task_group": "mail",
        "priority": 7,
        "is_paused": False,
    }
    assert weekly["is_paused"]
    assert "Europe/Rome" in invoke("list").stdout
    assert invoke("delete", "nightly").stdout == "deleted schedule nightly\n"
    assert [each["name"] for each in output_of(invoke("list", "--json"))] == ["weekly"]
    bad = invoke("put", "never", "61 * * * *", "mail")
    assert bad.exit_code != 0
    assert "61" in bad.stderr
