"""Keys of the rows that an indexer stores beside its multihashes.

A row changes in the same batch as the data that it describes, so the two never disagree. This is the only module that
builds these keys.
"""

from argosy.base.key_docs import KeyDoc
from argosy.ipni.formats.cid import Cid

KEY_DOCS = (
    KeyDoc("publisher/<peer id>", "row", "msgpack: addresses, last, wanted, frozen_at, floor, has_gaps",
           "how far a publisher's chain has been applied, and up to which head; a restart continues there"),
    KeyDoc("pending/<peer id>/<cid>", "row", "the block of an advertisement",
           "fetched and not yet applied, so that an interrupted scan does not fetch again"),
    KeyDoc("mark/<cid>", "row", "msgpack: state, provider, publisher",
           "the advertisement has been applied, in full or (while frozen) without its entries"),
    KeyDoc("progress/<peer id>", "row", "msgpack: the advertisement, the blocks still to be read, counts",
           "how far the entries of the advertisement that is being applied have been stored"),
    KeyDoc("provider/<peer id>", "row", "msgpack: all that is known of a provider", "what finds are answered with"),
    KeyDoc("sequence/<peer id>", "row", "a number", "of the last signed peer record; older ones are rejected"),
    KeyDoc("assignment/<peer id>", "row", "the id of the frozen indexer it was taken over from, or empty",
           "an assigner assigned this publisher to this indexer"),
    KeyDoc("frozen", "row", "when, in seconds since 1970", "the indexer stores no more entries, also after a restart"),
    KeyDoc("identity", "row", "the private key as libp2p writes it", "the indexer's identity without ipni.key_file"),
    KeyDoc("probe", "row", "passing", "written, read and deleted by a health check"),
)  # fmt: skip

PUBLISHERS = b"publisher/"
MARKS = b"mark/"
PROVIDERS = b"provider/"
ASSIGNMENTS = b"assignment/"
FROZEN = b"frozen"
IDENTITY = b"identity"
PROBE = b"probe"


def publisher(id: str) -> bytes:
    return PUBLISHERS + id.encode()


def pending(publisher: str, cid: Cid) -> bytes:
    return pending_of(publisher) + cid.bytes


def pending_of(publisher: str) -> bytes:
    return b"pending/" + publisher.encode() + b"/"


def mark(cid: Cid) -> bytes:
    return MARKS + cid.bytes


def progress(publisher: str) -> bytes:
    return b"progress/" + publisher.encode()


def provider(id: str) -> bytes:
    return PROVIDERS + id.encode()


def sequence(provider: str) -> bytes:
    return b"sequence/" + provider.encode()


def assignment(publisher: str) -> bytes:
    return ASSIGNMENTS + publisher.encode()
