"""Samples made by other implementations, and the test key that some of them were made with."""

import json
from pathlib import Path
from typing import Any

from argosy.ipni.formats.cid import DAG_JSON, Cid, of, parse
from argosy.ipni.formats.peer import PrivateKey

FOLDER = Path(__file__).parent / "vectors"
KEY = PrivateKey.from_protobuf(
    bytes.fromhex(
        "08011240d2343878eca95a73fc85450192e41b6786dc7739eb8162a7b91f868b52696d80"
        "459ae05035d6c310b03ed6140064a85d73f1d41ab18bdc2f01f792b08bd46a05"
    )
)
PUBLIC_HEX = "08011220459ae05035d6c310b03ed6140064a85d73f1d41ab18bdc2f01f792b08bd46a05"
PEER = "12D3KooWEW5GoYak4S23Z9rSiKHAcKWx9qH7rwVgCsmvRyvghB8x"
CONTENT_HASH = bytes.fromhex("1220913bea5c2f5b94d7eede7a4ddec9110d312682917cbc114eb4f729a26428d02c")

AD = "baguqeera2exmdwv5jpmwhoypdkubmbewpgrlt73oqjuvayhegqng5jpsfnxa"
CHUNK_HEAD = "baguqeerak3l2svnruug7zevvae52aa6hbkgkkwsvabtdtfocmh6xj63xcrqa"
CHUNK_TAIL = "baguqeerabhmwnmc4rw3jyvx6rwouaobqwjxe4qcrh2e7keb5oncxdndmd7ua"
EXTENDED = "baguqeeracmkjvbtns3llljh2dtzoaryulc2kk7tfx3geut7mb6ornd37j6oq"
SIMPLE = "baguqeeract2ajcyrt7uhzl7o42oe6qcm4edbn7hb3txlmwsfwywndjpww6wa"
ADVERTS = [AD, EXTENDED, SIMPLE, "go-documented", "go-rsa", "go-rsa-with-previous", "go-rsa-extended"]


def javascript() -> dict[str, Any]:
    """What the npm packages made; see the page beside the vectors."""
    made: dict[str, Any] = json.loads((FOLDER / "javascript.json").read_text())
    return made


def block(name: str) -> tuple[Cid, bytes]:
    """The bytes, and the name they go by; those that came without one are given it."""
    data = (FOLDER / f"{name}.json").read_bytes().rstrip(b"\n")
    return parse(name) if name.startswith("bagu") else of(data, DAG_JSON), data
