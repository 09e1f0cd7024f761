"""`argosy up` several times: unique names, own state, free ports, ready only when a search is answered."""

import os
import signal
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.journeys.fleet import eventually
from tests.newcomer.up_session import PATIENCE_S, Home, Session

SEARCHES = 20


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def check_searches(session: Session, query: str, files: int) -> None:
    assert [session.search(query) for _ in range(SEARCHES)] == [(200, files)] * SEARCHES


def test_any_number_run_side_by_side_also_with_folders_of_one_name(home: Home) -> None:
    first = home.folder_with("a/tool", one="def sail(): ...")
    second = home.folder_with("b/tool", one="def sail(): ...", two="def sail_on(): ...")
    with ExitStack() as closing:
        # The second has a folder of the same name, the third is the first one once more.
        sessions = [closing.enter_context(home.up(folder)) for folder in (first, second, first)]
        for session, files in zip(sessions, (1, 2, 1), strict=True):
            session.wait_ready()
            check_searches(session, "sail", files)
            assert session.names() == {"tool"}
        assert len({session.url for session in sessions}) == 3
        records = [session.record for session in sessions]
        data_dirs = [record["data_dir"] for record in records if record is not None]
        assert len(set(data_dirs)) == 3
        assert {Path(each).parent for each in data_dirs} == {home.data / "sets"}

        # Commands about the catalog ask which one is meant, and take the one that is named.
        refused = home.run("repo", "list")
        assert refused.returncode == 2
        assert all(each in refused.stderr for each in data_dirs)
        assert str(second) in home.run("repo", "list", "--data", data_dirs[1]).stdout
        for session in sessions:
            session.stop()
    assert list((home.data / "running").iterdir()) == []


def test_folders_of_one_name_get_distinct_names_in_one_process(home: Home) -> None:
    folders = [home.folder_with(f"{parent}/tool", one="def sail(): ...") for parent in ("a", "b")]
    with home.up(*folders, folders[0], "--port", "0") as session:
        session.wait_ready()
        assert session.names() == {"a/tool", "b/tool"}


def test_repositories_added_later_are_served_again_only_with_resume(home: Home) -> None:
    named, added = home.folder_with("named", one="sail = 1"), home.folder_with("added", one="sail = 2")
    with home.up(named, "--port", "0", "--name", "ship") as session:
        session.wait_ready()
        adding = home.run("repo", "add", added)  # finds the catalog of the one that runs
        assert adding.returncode == 0, adding.stderr
        assert session.url in adding.stderr
        eventually(lambda: session.search("sail") == (200, 2), within_s=PATIENCE_S, what="both are served")
        session.stop()
    with home.up(named, "--port", "0") as session:
        session.wait_ready()
        assert session.names() == {"ship"}
        assert "added" in session.log.read_text()
        session.stop()
    with home.up(named, "--port", "0", "--resume") as session:
        session.wait_ready()
        assert session.names() == {"ship", "added"}
        check_searches(session, "sail", 2)
        session.stop()
    assert home.run("repo", "list").stdout.startswith("no repositories found")


def test_nodes_are_ready_when_a_search_is_complete_and_come_back_when_killed(home: Home) -> None:
    folders = [home.folder_with(f"f{number}", one="def sail(): ...") for number in range(4)]
    soon = {"ARGOSY_OWNERSHIP_TTL_S": "10", "ARGOSY_OWNERSHIP_RENEW_S": "2"}
    with home.up(*folders, "--port", "0", "--nodes", "2", **soon) as session:
        session.wait_ready()
        check_searches(session, "sail", 4)
        children = Path(f"/proc/{session.process.pid}/task/{session.process.pid}/children").read_text().split()
        nodes = [pid for pid in children if b"argosy.cli" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        assert len(nodes) == 2
        os.kill(int(nodes[0]), signal.SIGKILL)
        eventually(lambda: bool(session.events("node died")), within_s=10, what="the death is reported")
        [died] = session.events("node died")
        assert (died["pid"], died["exit_code"]) == (int(nodes[0]), -signal.SIGKILL)
        assert died["next_attempt_s"] > 0
        assert Path(died["log"]).stat().st_size > 0
        eventually(lambda: bool(session.events("node restarted")), within_s=PATIENCE_S, what="it is restarted")
        eventually(lambda: session.search("sail") == (200, 4), within_s=PATIENCE_S, what="searches are complete again")
        again = session.events("node restarted")[0]["address"]
        eventually(lambda: again in session.addresses(), within_s=PATIENCE_S, what="it is a member of the fleet")
        session.stop()


def test_an_unfetchable_repository_is_reported_and_delays_nothing(home: Home) -> None:
    good = home.folder_with("good", one="sail = 1")
    with socket.socket() as closed:  # bound and not listening: connections are refused
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/owner/tool"
        with home.up(good, url, "--port", "0") as session:
            session.wait_ready()
            [failed] = session.events("repository not served")
            assert failed["repository"].endswith("/owner/tool")
            assert session.search("sail r:good") == (200, 1)
            session.stop()


def test_a_data_directory_serves_one_process_and_names_it(home: Home) -> None:
    folder, data = home.folder_with("one", one="sail = 1"), home.folder / "state"
    with home.up(folder, "--port", "0", "--data", data) as session:
        session.wait_ready()
        refused = home.run("up", folder, "--port", "0", "--data", data)
        assert refused.returncode == 1
        assert session.url in refused.stderr
        assert home.run("repo", "list", "--data", data).returncode == 0
        session.stop()
    assert not (home.data / "sets").exists()
    assert home.run("up", folder, "--data", home.folder).returncode == 2, "a folder of other files"


def starts_that_fail(home: Home, taken: str) -> list[tuple[str, subprocess.CompletedProcess[str]]]:
    """The start, and what its message must contain."""
    folder = home.folder_with("one", one="sail = 1")
    return [
        ("nowhere", home.run("up", folder, home.folder / "nowhere")),
        ("is not a directory", home.run("up", folder / "one.py")),
        ("one.py/below", home.run("up", os.path.relpath(folder / "one.py" / "below"))),
        ("missing-word", home.run("up", folder, "missing-word")),
        ("ftp://", home.run("up", folder, "ftp://host/path")),
        ("--name", home.run("up", folder, home.folder, "--name", "ship")),
        ("--port", home.run("up", folder, "--port", taken)),
        ("ARGOSY_NODE_PORT", home.run("up", folder, ARGOSY_NODE_PORT=taken)),
        ("ipni_http.port", home.run("up", folder, "--port", "0", ARGOSY_IPNI_HTTP_PORT=taken)),
    ]


def test_a_start_that_fails_is_one_message_and_leaves_nothing(home: Home) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        for expected, failed in starts_that_fail(home, str(other.getsockname()[1])):
            assert failed.returncode == 2, (expected, failed.stderr)
            assert expected in failed.stderr
            assert "Traceback" not in failed.stderr
        assert list(home.data.glob("sets/*")) == []
        assert list(home.data.glob("running/*")) == []


def test_a_start_that_fails_leaves_the_catalog_as_it_was(home: Home) -> None:
    old, new, data = home.folder_with("old", a="x"), home.folder_with("new", a="x"), home.folder / "state"
    data.mkdir()
    registry = f"sqlite:///{data}/registry.db"
    assert home.run("repo", "add", old, "--registry", registry).returncode == 0
    before = home.run("repo", "list", "--data", data, "--json").stdout
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = str(other.getsockname()[1])
        assert home.run("up", new, "--port", "0", "--data", data, ARGOSY_IPNI_HTTP_PORT=taken).returncode == 2
    assert str(old) in before
    after = home.run("repo", "list", "--data", data, "--json").stdout
    assert str(old) in after
    assert str(new) not in after
