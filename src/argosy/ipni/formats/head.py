"""The signed head of a publisher's chain."""

from dataclasses import dataclass

from argosy.ipni.formats.cid import Cid

TOPIC = "/indexer/ingest/mainnet"


@dataclass(frozen=True)
class SignedHead:
    """`signer` is the peer id of the key in it, whose signature has been checked."""

    head: Cid
    signer: str
    topic: str = ""
