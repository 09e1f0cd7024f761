"""Announcements: "there is a new advertisement, and here is where to read it", as CBOR or JSON."""

from dataclasses import dataclass

from argosy.ipni.formats.cid import Cid
from argosy.ipni.model import Peer


@dataclass(frozen=True)
class Announce:
    """`publisher` is who all addresses end in (`/p2p/<id>`); its addresses here are without that end."""

    head: Cid
    publisher: Peer
    extra: bytes = b""
    origin: str = ""            # the first publisher, when somebody else passes it on by gossip
