"""`argosy throttle`: the fairness evaluation, and the current state of clients."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from argosy.cli import root, throttle_snapshot
from argosy.cli.root import cli
from argosy.sim import throttle_eval
from argosy.throttle import FairThrottle, Outcome, ThrottleSettings, ThrottleSync
from tests.servers.valkey import Valkey


@pytest.fixture(autouse=True)
def _is_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(root.COMMANDS, "throttle", ("argosy.cli.throttle:throttle", "Fair admission."))


@pytest.fixture(scope="module")
def server() -> Iterator[Valkey]:
    with Valkey() as server:
        yield server


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["throttle", *words])


# -- eval -------------------------------------------------------------------------------------------------------------

SHORT = ("eval", "--scenario", "flash", "--seeds", "1", "--instances", "1", "--jobs", "1")


def test_fairness_is_printed_and_plotted(tmp_path: Path) -> None:
    answer = run(*SHORT, "--out", str(tmp_path / "pictures"))
    assert answer.exit_code == 0, answer.stderr
    rows = [line.split()[1] for line in answer.output.splitlines() if line.startswith("flash")]
    assert rows == ["none", "standard", "strict"]
    assert "all buckets of 16 instances converge" in answer.output
    assert sorted(path.name for path in (tmp_path / "pictures").iterdir()) == [
        "throttle-allocation.svg",
        "throttle-convergence.svg",
        "throttle-jain.svg",
    ]


def test_json_has_every_figure() -> None:
    report = json.loads(run(*SHORT, "--json").output)
    assert [each["setup"]["preset"] for each in report["evaluations"]] == ["none", "standard", "strict"]
    assert {"entitlement_jain", "raw_jain", "utilisation", "worst_ratio"} <= set(report["evaluations"][0]["figures"])
    assert report["evaluations"][0]["figures"]["entitlement_jain"]["mean"] == pytest.approx(0.986, abs=0.01)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--instances", "1,many"), "invalid --instances"),
        (("--instances", "0"), "invalid --instances"),
        (("--instances", "5000"), "the number of instances must be 1 to 1000"),
        (("--scenario", "quiet"), "invalid value for '--scenario'"),
    ],
)
def test_an_evaluation_that_cannot_be_is_refused(words: tuple[str, str], complaint: str) -> None:
    answer = run("eval", *words)
    assert answer.exit_code == 2
    assert complaint in answer.stderr


def test_pictures_that_cannot_be_drawn_are_refused_before_anything_is_reckoned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttle_eval, "evaluate", lambda *_, **__: pytest.fail("it was reckoned"))
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "pictures"
    answer = run("eval", "--out", str(folder))
    assert (answer.exit_code, answer.stderr) == (2, f"error: cannot create directory {folder}: Not a directory\n")


# -- top --------------------------------------------------------------------------------------------------------------


def throttle_with_noisy_client(server: Valkey, namespace: str) -> FairThrottle:
    """An instance that has shared one noisy and one less noisy client."""
    throttle = FairThrottle()
    with ThrottleSync.open(throttle, ThrottleSettings(store=server.url, namespace=namespace, call_timeout_s=10.0)):
        for client, failures in (("noisy", 20), ("other", 5)):
            for _ in range(failures):
                throttle.report(client, Outcome.FAILURE)
    return throttle


def test_the_hottest_buckets_of_the_running_instances_are_shown(server: Valkey) -> None:
    throttle = throttle_with_noisy_client(server, "hot")
    arguments = ("top", "--url", server.url, "--namespace", "hot", "--once", "--client", "noisy", "--client", "nobody")
    report = json.loads(run(*arguments, "--json").output)
    assert report["window_seed"] in throttle.seeds
    assert (report["blamed"], report["writers"]) == (6, 1)
    worst = [(each["level"], each["bucket"]) for each in report["hottest"][:3]]
    assert sorted(worst) == [(each.level, each.bucket) for each in throttle.explain("noisy").buckets]
    assert [each["clients"] for each in report["hottest"]] == [["noisy"]] * 3 + [[]] * 3
    state = {each["client"]: each["probability"] for each in report["clients"]}
    assert 0.4 < state["noisy"] <= 0.8
    assert state["nobody"] == 0.0


def test_looking_leaves_no_trace(server: Valkey) -> None:
    throttle_with_noisy_client(server, "quiet")
    arguments = ("top", "--url", server.url, "--namespace", "quiet", "--once", "--json")
    first, second = json.loads(run(*arguments).output), json.loads(run(*arguments).output)
    assert first["writers"] == second["writers"] == 1
    assert len(second["hottest"]) == 6


def test_the_table_is_for_people_and_counts_are_obeyed(server: Valkey) -> None:
    throttle_with_noisy_client(server, "table")
    answer = run("top", "--url", server.url, "--namespace", "table", "--once", "--count", "2", "--client", "noisy")
    assert answer.exit_code == 0, answer.stderr
    assert "1 instances · 6 buckets blamed" in answer.output
    rows = [line.split() for line in answer.output.splitlines() if line.rstrip().endswith("noisy")]
    assert [len(row) for row in rows] == [5, 5, 2]  # its two buckets and its probability


def test_top_refreshes_until_interrupted(server: Valkey, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    def wait(watch: throttle_snapshot.WindowReader, seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(throttle_snapshot.WindowReader, "wait", wait)
    answer = run("top", "--url", server.url, "--namespace", "none", "--interval", "0.5")
    assert answer.output.count("0 buckets blamed") == 3
    assert waits == [0.5] * 3


def test_without_a_store_there_is_nothing_to_show() -> None:
    answer = run("top", "--once")
    assert answer.exit_code == 2
    assert "no shared store configured; pass --url" in answer.stderr


def test_an_unavailable_store_is_reported_without_the_password(server: Valkey) -> None:
    answer = run("top", "--url", "redis://:hidden-word@127.0.0.1:1/0", "--once", "--json")
    assert answer.exit_code == 1
    assert "unreachable" in json.loads(answer.stderr)["error"]["message"]
    assert "hidden-word" not in answer.stderr


def test_an_invalid_refresh_interval_is_rejected(server: Valkey) -> None:
    answer = run("top", "--url", server.url, "--interval", "nan")
    assert answer.exit_code == 2
    assert "nan is not a number of seconds" in answer.stderr
