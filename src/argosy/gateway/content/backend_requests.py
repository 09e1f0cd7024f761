"""HTTP requests to indexers, as bytes."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

import msgspec

from argosy.gateway.content.model import Backend
from argosy.ipni.formats.bases import base58
from argosy.ipni.web.lookup_params import ResponseFormat


@dataclass(frozen=True)
class BackendRequest:
    """A request, the same for every indexer; `form` is the requested format, which a response need not have."""

    path: str
    form: ResponseFormat = ResponseFormat.JSON
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    def request(self, backend: Backend) -> bytes:
        host, port, _ = backend.place
        lines = [
            f"{'POST' if self.body else 'GET'} {backend.prefix}{self.path} HTTP/1.1",
            f"host: {f'[{host}]' if ':' in host else host}:{port}",
            f"accept: {self.form.value}",
        ]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        if self.body:
            lines += ["content-type: application/json", f"content-length: {len(self.body)}"]
        return "\r\n".join([*lines, "", ""]).encode() + self.body


def find(multihashes: Sequence[bytes], form: ResponseFormat, headers: Mapping[str, str]) -> BackendRequest:
    """A single multihash goes in the path, several in a batch. Indexers do not need the codec of a CID."""
    if len(multihashes) == 1:
        return BackendRequest(f"/multihash/{base58(multihashes[0])}", form, headers=headers)
    body = msgspec.json.encode({"Multihashes": [b64encode(each).decode() for each in multihashes]})
    return BackendRequest("/multihash", ResponseFormat.JSON, body, headers)


def find_encrypted(second_hash: bytes, headers: Mapping[str, str]) -> BackendRequest:
    return BackendRequest(f"/encrypted/multihash/{base58(second_hash)}", headers=headers)


def metadata(value_key_hash: bytes, headers: Mapping[str, str]) -> BackendRequest:
    return BackendRequest(f"/metadata/{base58(value_key_hash)}", headers=headers)


def providers(headers: Mapping[str, str]) -> BackendRequest:
    return BackendRequest("/providers", headers=headers)


def provider(id: str, headers: Mapping[str, str]) -> BackendRequest:
    return BackendRequest(f"/providers/{quote(id, safe='')}", headers=headers)
