"""Every indexed file is findable by its content: `argosy up` advertises, `argosy find` finds, without settings."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.journeys.fleet import eventually
from tests.journeys.up_process import PATIENCE_S, Up
from tests.search.backends.repositories import Repo


class Origin:
    """A bare repository, and the working copy that is pushed to it."""

    def __init__(self, folder: Path, name: str) -> None:
        self.copy = Repo.create(folder / "copies" / name)
        self.copy.commit({"begun": b"begun\n"})
        self.path = self.copy.clone(folder / f"{name}.git", "--bare").path

    def push(self, files: dict[str, bytes]) -> str:
        commit = self.copy.commit(files)
        self.copy.git("push", "-q", str(self.path), "main")
        return commit


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    with Up(tmp_path) as new_up:
        yield new_up


def test_found_files_follow_commits_and_removed_repositories(up: Up, tmp_path: Path) -> None:
    ship, boat = Origin(tmp_path, "ship"), Origin(tmp_path, "boat")
    one = ship.push({"keel.py": b"keel = 1\n", "mast.py": b"mast = 1\n"})
    other = boat.push({"same.py": b"keel = 1\n"})
    up.start(str(ship.path), str(boat.path))
    up.wait_held(b"keel = 1\n", f"ship@{one}", f"boat@{other}")

    answer = up.find(str(ship.copy.path / "mast.py"))
    cid = answer.stdout.split()[1]
    assert answer.stdout.splitlines()[:2] == [
        f"{ship.copy.path / 'mast.py'}  {cid}",
        f"  ship@{one[:12]}  {up.url}/ipfs/{cid}",
    ]
    assert answer.exit_code == 0
    with urlopen(f"{up.url}/ipfs/{cid}", timeout=PATIENCE_S) as file:
        assert (file.read(), file.headers["x-argosy-file"]) == (b"mast = 1\n", "ship/mast.py")

    with urlopen(f"{up.url}/r/ship/-/keel.py", timeout=PATIENCE_S) as page:
        assert f'identical file in <a href="/r/boat">boat@{other[:10]}</a>' in page.read().decode()

    (tmp_path / "absent").write_bytes(b"in no repository")
    absent = up.find(str(tmp_path / "absent"), cid)
    assert absent.exit_code == 1
    assert "  not found\n" in absent.stdout

    two = ship.push({"mast.py": b"mast = 2\n"})
    up.wait_held(b"mast = 2\n", f"ship@{two}")
    up.wait_held(b"mast = 1\n")
    up.wait_held(b"keel = 1\n", f"ship@{two}", f"boat@{other}")
    with pytest.raises(HTTPError, match="404") as missing:
        urlopen(f"{up.url}/ipfs/{cid}", timeout=PATIENCE_S)
    missing.value.close()

    up.stop(signal.SIGKILL)  # the chain and the index resume from disk
    three = ship.push({"mast.py": b"mast = 3\n"})
    up.start(str(ship.path), str(boat.path))
    up.wait_held(b"mast = 3\n", f"ship@{three}")
    up.wait_held(b"mast = 2\n")
    up.wait_held(b"keel = 1\n", f"ship@{three}", f"boat@{other}")

    data = {**os.environ, "ARGOSY_NODE_DATA_DIR": str(tmp_path / "data")}
    subprocess.run([sys.executable, "-m", "argosy.cli", "repo", "remove", "boat"], env=data, check=True)
    up.wait_held(b"keel = 1\n", f"ship@{three}")
    up.stop(signal.SIGTERM)
    assert up.process is not None
    assert up.process.returncode == 0


def test_each_node_of_a_fleet_advertises_its_own_files(up: Up, tmp_path: Path) -> None:
    folders = []
    for name in ("a", "b", "c"):
        folders.append(tmp_path / name)
        folders[-1].mkdir()
        (folders[-1] / "common.py").write_bytes(b"common = 1\n")
        (folders[-1] / "own.py").write_text(f"{name} = 1\n")
    up.start(*map(str, folders), "--nodes", "2")
    eventually(
        lambda: [holder.partition("@")[0] for holder in up.holders(b"common = 1\n")] == ["a", "b", "c"],
        within_s=PATIENCE_S,
        what="all three nodes hold the file",
    )
    [result] = json.loads(up.find(str(folders[1] / "own.py"), "--json").stdout)
    [holder] = result["holders"]
    assert holder["repository"] == "b"
    with urlopen(holder["urls"][0], timeout=PATIENCE_S) as file:
        assert file.read() == b"b = 1\n"


def test_find_reports_that_there_is_no_content_index_without_advertising(up: Up, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_bytes(b"a = 1\n")
    up.start(str(tmp_path / "src"), search_advertise="false")
    answer = up.find(str(tmp_path / "src" / "a.py"))
    assert answer.exit_code == 2
    assert "does not serve find requests; pass a gateway or indexer with --url" in answer.stderr
    assert list((tmp_path / "data" / "sets").glob("*/ipni")) == []
