"""Spaces, quotes and letters beyond ASCII in the path of the checkout and of the home: set-up, search, and a server."""

import json
import os
import signal
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from tests.newcomer.checkout import PYTHON, STOP_S_MAX, Checkout, clone, wait_until
from tests.servers.valkey import free_port


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    parent = tmp_path_factory.mktemp("path") / "Büro, John's & $HOME"
    return clone(parent / "mein Klon", parent / "zu Hause – дом")


def read(url: str) -> bytes | None:
    """The body of a page, None without an answer or if the answer is an error."""
    try:
        with urlopen(url, timeout=STOP_S_MAX) as answer:
            body: bytes = answer.read()
            return body
    except HTTPError as error:
        error.close()
        return None
    except (URLError, ConnectionError, TimeoutError):
        return None


@pytest.mark.timeout(600)
def test_a_checkout_in_any_folder_is_set_up_searched_and_served(checkout: Checkout, tmp_path: Path) -> None:
    port = free_port()
    log = tmp_path / "run.log"
    arguments = f"ARGS=. --port {port}"
    with checkout.start("make", "run", f"PYTHON={PYTHON}", arguments, log=log) as running:
        address = f"http://127.0.0.1:{port}"

        def is_ready() -> bool:
            assert running.poll() is None, log.read_text(errors="replace")
            return read(f"{address}/readyz") is not None

        wait_until(is_ready, "make run is ready")

        def is_answered() -> bool:
            """The page of results names the file: the repository below this path is indexed."""
            page = read(f"{address}/search?q={quote('class SetupError')}")
            return page is not None and b"setup_env.py" in page

        wait_until(is_answered, "a search finds a file of the checkout")
        found = checkout.run(checkout.argosy, "search", "--json", "class SetupError", checkout.folder / "tools")
        assert found.returncode == 0, found.stderr
        assert "setup_env.py" in json.dumps(json.loads(found.stdout))
        os.killpg(running.pid, signal.SIGINT)
        wait_until(lambda: running.poll() is not None, "make run has stopped", STOP_S_MAX)
    assert "Traceback" not in log.read_text(errors="replace")
    assert (checkout.home / ".local" / "share" / "argosy").is_dir()


def test_the_launcher_does_not_import_from_the_working_directory(checkout: Checkout, tmp_path: Path) -> None:
    """A searched folder may contain a json.py."""
    (tmp_path / "json.py").write_text("raise SystemExit('imported from the working directory')\n")
    (tmp_path / "argosy").mkdir()
    (tmp_path / "argosy" / "__init__.py").write_text("raise SystemExit('imported from the working directory')\n")
    result = checkout.run(checkout.argosy, "--version", cwd=tmp_path)
    assert result.stdout.startswith("argosy "), result.stderr
    link = tmp_path / "link"
    link.symlink_to(checkout.argosy)
    assert checkout.run(link, "--version", cwd=tmp_path).stdout == result.stdout


@pytest.mark.parametrize("locale", ["C", "C.UTF-8", "POSIX"])
def test_the_package_is_found_in_every_locale(checkout: Checkout, locale: str) -> None:
    """Without PEP 538 and 540, so that the locale's own encoding is in force."""
    result = checkout.run(
        checkout.folder / ".venv" / "bin" / "python",
        "-P",
        "-c",
        "import argosy; print(len(argosy.__path__))",
        LC_ALL=locale,
        PYTHONCOERCECLOCALE="0",
        PYTHONUTF8="0",
    )
    assert (result.stdout, result.stderr) == ("1\n", "")
