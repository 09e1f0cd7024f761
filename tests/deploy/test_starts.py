"""Starts what each deploy artefact would start: the image's layout, compose's services, the chart's pods, the units.

There is no container runtime here. The image's file system is built as in its Dockerfile, read-only but for /data,
/mirrors and /tmp; commands and environments are those of the artefacts, with addresses of this machine put in.
"""

import json
import os
import re
import shlex
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.journeys.fleet import eventually
from tests.servers.read_only import UNPRIVILEGED, environment, install, run, seal, unseal
from tests.servers.valkey import Valkey, free_port
from tools import render_chart

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
DOCKERFILE = (DEPLOY / "image" / "Dockerfile").read_text()
START_S_MAX = 120.0


class Image:
    """The image's file system: everything in it is read-only but three folders."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.python = install(root / "argosy", with_kernels=True)
        self.bin = root / "argosy" / "bin"
        (root / "home").mkdir()
        text = root / "text"
        text.mkdir()
        (text / "a.py").write_text("def needle():\n    return 1\n")
        steps = re.findall(r"^RUN python (.+[^\\])$", DOCKERFILE, re.MULTILINE)
        assert len(steps) == 1
        done = run([str(self.python), *steps[0].split()], self.environment(root), within_s=START_S_MAX)
        assert (done.returncode, done.stderr) == (0, "")
        seal(root)

    def environment(self, volumes: Path, **changes: str) -> dict[str, str]:
        settings_given = dict(
            re.findall(r"(\w+)=(\S+)", "\n".join(re.findall(r"^ENV (.+)$", DOCKERFILE, re.MULTILINE)))
        )
        path = settings_given.pop("PATH").replace("/argosy/bin", str(self.bin)).replace("$PATH", os.environ["PATH"])
        return environment(self.root / "home", **settings_given, PATH=path, TMPDIR=str(volumes), **changes)


class Container:
    """A process of the image with its own volumes."""

    def __init__(self, image: Image, volumes: Path, command: list[str], environ: dict[str, str]) -> None:
        self.port = free_port()
        self.log = volumes / "log"
        for name in ("data", "mirrors"):
            (volumes / name).mkdir(parents=True, exist_ok=True)
        here = {
            "ARGOSY_NODE_HOST": "127.0.0.1",
            "ARGOSY_NODE_PORT": str(self.port),
            "ARGOSY_NODE_ADDRESS": f"127.0.0.1:{self.port}",
            "ARGOSY_NODE_DATA_DIR": str(volumes / "data"),
            "ARGOSY_FETCH_DIR": str(volumes / "mirrors"),
            "ARGOSY_FETCH_ALLOW_LOCAL": "true",
            "ARGOSY_OWNERSHIP_WINDOW_S": "0.5",
            "ARGOSY_OWNERSHIP_DRAIN_TIMEOUT_S": "0",
        }
        changed = {name: value for name, value in here.items() if name in environ or name not in KEPT_IF_ABSENT}
        full = image.environment(volumes, **{**environ, **changed})
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([*UNPRIVILEGED, *command], env=full, stdout=log, stderr=log, cwd=volumes)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()[-4000:]
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except urllib.error.HTTPError as error:
            error.close()
            return False
        except OSError:
            return False

    def wait(self) -> "Container":
        eventually(self.is_ready, within_s=START_S_MAX, what="it is ready")
        return self

    def __enter__(self) -> "Container":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(START_S_MAX)
        finally:
            self.process.kill()


KEPT_IF_ABSENT = {"ARGOSY_NODE_ADDRESS"}  # compose's own command sets it


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    root = tmp_path_factory.mktemp("image")
    yield Image(root)
    unseal(root)


@pytest.fixture(scope="module")
def valkey() -> Iterator[Valkey]:
    with Valkey() as server:
        yield server


def add_and_search(image: Image, gateway: Container, environ: dict[str, str]) -> None:
    """Adds a repository to the catalog and asks the gateway until it answers with it."""
    text = str(image.root / "text")
    named = {name: value for name, value in environ.items() if name.startswith("ARGOSY_REGISTRY")}
    ours = image.environment(gateway.log.parent, **named)
    done = run([str(image.bin / "argosy"), "repo", "add", text], ours, within_s=START_S_MAX)
    assert done.returncode == 0, done.stderr

    def is_found() -> bool:
        try:
            with urllib.request.urlopen(f"{gateway.url}/v1/search?q=needle", timeout=20) as answer:
                return any(file["path"] == "a.py" for file in json.load(answer)["files"])
        except urllib.error.HTTPError as error:
            error.close()
            return False
        except OSError:
            return False

    eventually(is_found, within_s=START_S_MAX, what="a search is answered")


def command_of(image: Image) -> list[str]:
    lines = dict(re.findall(r"^(ENTRYPOINT|CMD) (\[.*\])$", DOCKERFILE, re.MULTILINE))
    words = [*json.loads(lines["ENTRYPOINT"]), *json.loads(lines["CMD"])]
    return [str(image.bin / words[0]), *words[1:]]


def test_the_image_starts_with_a_read_only_root_and_answers_a_search(
    image: Image, valkey: Valkey, tmp_path: Path
) -> None:
    shared = {
        "ARGOSY_OWNERSHIP_STORE": f"redis://127.0.0.1:{valkey.port}/1",
        "ARGOSY_REGISTRY_URL": f"redis://127.0.0.1:{valkey.port}/1",
        "ARGOSY_REGISTRY_IS_SHARED": "true",
        "ARGOSY_NODE_ADDRESS": "",
    }
    with Container(image, tmp_path, command_of(image), shared) as container:
        add_and_search(image, container.wait(), shared)
        assert "compiled in memory" not in container.log.read_text()


def compose_command(service: str, valkey: Valkey) -> tuple[list[str], dict[str, str]]:
    """What compose would run, with the server on this machine; `$$` is compose's `$`."""
    settings_given = COMPOSE["services"][service]
    here = f"127.0.0.1:{valkey.port}"
    environ = {name: str(value).replace("valkey:6379", here) for name, value in settings_given["environment"].items()}
    environ["ARGOSY_NODE_ADMIN_TOKEN"] = ""
    command = [word.replace("$$", "$") for word in settings_given["entrypoint"]]
    return command, environ


def test_composes_services_start_and_answer_a_search(image: Image, valkey: Valkey, tmp_path: Path) -> None:
    assert all(COMPOSE["services"][name]["read_only"] for name in ("gateway", "search"))
    containers = {}
    for name in ("search", "gateway"):
        command, environ = compose_command(name, valkey)
        # Its neighbours do not resolve this machine's name to 127.0.0.1, where it listens here.
        script = command[-1].replace("$(hostname):6070", "127.0.0.1:$ARGOSY_NODE_PORT")
        assert script != command[-1]
        containers[name] = Container(image, tmp_path / name, [*command[:-1], script], environ)
    with containers["search"] as search, containers["gateway"] as gateway:
        search.wait()
        add_and_search(image, gateway.wait(), compose_command("gateway", valkey)[1])


def test_every_volume_of_a_container_is_one_that_its_user_may_write_to() -> None:
    """A volume takes the owner of the folder it is mounted on from the image, a tmpfs is for everybody."""
    owned = re.search(r"chown argosy ((?: ?/\w+)+)", DOCKERFILE)
    assert owned
    for name in ("gateway", "search"):
        for volume in COMPOSE["services"][name].get("volumes", ()):
            assert volume.partition(":")[2] in owned[1].split()


def rendered_pods(case: str) -> list[dict[str, Any]]:
    documents = yaml.safe_load_all((render_chart.RENDERED / f"{case}.yaml").read_text())
    return [document for document in documents if document["kind"] in ("Deployment", "StatefulSet")]


def pods(case: str) -> dict[str, dict[str, Any]]:
    is_found = [pod for document in rendered_pods(case) for pod in document["spec"]["template"]["spec"]["containers"]]
    return {pod["name"]: pod for pod in is_found}


def env_of(pod: dict[str, Any], valkey: Valkey) -> dict[str, str]:
    values = {entry["name"]: entry["value"] for entry in pod["env"] if "value" in entry}
    return {
        **{name: re.sub(r"//[\w-]+:6379", f"//127.0.0.1:{valkey.port}", value) for name, value in values.items()},
        "ARGOSY_NODE_ID": f"{pod['name']}-0",
    }


def test_the_rendered_manifests_are_current() -> None:
    assert render_chart.DIGEST.read_text().strip() == render_chart.digest(), "run tools/render_chart.py"


def test_a_pod_that_is_alone_starts_and_answers_a_search(image: Image, valkey: Valkey, tmp_path: Path) -> None:
    pod = pods("alone")["gateway"]
    assert pod["securityContext"]["readOnlyRootFilesystem"] is True
    environ = env_of(pod, valkey)
    environ["ARGOSY_REGISTRY_URL"] = environ["ARGOSY_REGISTRY_URL"].replace("/data", f"{tmp_path}/data")
    with Container(image, tmp_path, [str(image.bin / "argosy"), *pod["args"]], environ) as container:
        add_and_search(image, container.wait(), environ)


def test_a_fleets_pods_start_and_answer_a_search(image: Image, valkey: Valkey, tmp_path: Path) -> None:
    is_found = pods("fleet")
    ours = {"ARGOSY_OWNERSHIP_MEMBERS_MIN": "1", "ARGOSY_REGISTRY_NAMESPACE": "chart"}  # one node of two is started
    environs = {name: {**env_of(is_found[name], valkey), **ours} for name in ("search", "gateway")}
    for environ in environs.values():
        environ["ARGOSY_OWNERSHIP_STORE"] += "/2"
    containers = [
        Container(image, tmp_path / name, [str(image.bin / "argosy"), *is_found[name]["args"]], environ)
        for name, environ in environs.items()
    ]
    with containers[0] as search, containers[1] as gateway:
        search.wait()
        add_and_search(image, gateway.wait(), environs["gateway"])
        assert search.is_ready()


def test_a_pod_with_a_sentinel_registry_stores_leases_there_too() -> None:
    for pod in pods("sentinel").values():
        values = {entry["name"]: entry.get("value") for entry in pod["env"]}
        assert str(values["ARGOSY_REGISTRY_URL"]).startswith("redis+sentinel://")
        assert values["ARGOSY_OWNERSHIP_STORE"] == values["ARGOSY_REGISTRY_URL"]


@pytest.mark.parametrize("role", ["gateway", "search"])
def test_a_unit_starts(role: str, image: Image, valkey: Valkey, tmp_path: Path) -> None:
    lines = (DEPLOY / "systemd" / f"argosy-{role}.service").read_text().splitlines()
    settings_given = dict(line.split("=", 1) for line in lines if re.match(r"[A-Z]\w+=", line))
    config = tmp_path / "argosy.toml"
    url = f"redis://127.0.0.1:{valkey.port}/3"
    config.write_text(f'[ownership]\nstore = "{url}"\n[registry]\nurl = "{url}"\nis_shared = true\n')
    started = settings_given["ExecStart"].replace("/opt/argosy/bin", str(image.bin))
    command = shlex.split(started.replace("/etc/argosy/argosy.toml", str(config)))
    environ = dict(word.split("=", 1) for word in settings_given["Environment"].split())
    environ = {name: value.replace("/var/cache/argosy", f"{tmp_path}/cache") for name, value in environ.items()}
    with Container(image, tmp_path, command, {**environ, "ARGOSY_NODE_ADDRESS": ""}) as container:
        assert container.wait().is_ready()
