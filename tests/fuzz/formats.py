"""The decoders under fuzzing, and the properties that hold for every input.

A decoder takes bytes from untrusted peers. It returns a value or raises Invalid, nothing else; a returned value is
encoded and decoded to the same value; and its memory is proportional to its input.
"""

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from argosy.base.errors import Invalid
from argosy.ipni.formats import (
    advertisement,
    car,
    cid,
    dag_cbor,
    dag_json,
    entries,
    metadata,
    multiaddr,
    multihash,
    privacy,
)
from argosy.ipni.formats.advertisement import Advertisement, AdvertisementExtension, AdvertisementPeer
from argosy.ipni.formats.cid import DAG_CBOR, DAG_JSON, Cid
from argosy.ipni.formats.envelope import PeerRecord, decode_record, sign_record
from argosy.ipni.formats.head import (
    Announcement,
    decode_announcement,
    decode_head,
    encode_announcement,
    encode_announcement_json,
    sign_head,
)
from argosy.ipni.formats.peer import PrivateKey, PublicKey, parse_peer, peer_bytes, peer_of_bytes
from argosy.ipni.model import Peer

MEMORY_FACTOR_MAX = 400  # a byte of JSON or CBOR can stand for an object of its own
MEMORY_FLOOR_BYTES = 2 << 20
MEMORY_CHECKED_EVERY = 16  # tracing is slow
INPUT_BYTES_MAX = 8192

Check = Callable[[bytes], None]


@dataclass(frozen=True)
class Target:
    """`check` decodes, and asserts the properties of the result."""

    name: str
    check: Check
    samples: tuple[bytes, ...]


def mutate(sample: bytes, random: Random) -> bytes:
    """The sample with a few mutations; sometimes pure noise."""
    if random.random() < 0.05:
        return random.randbytes(random.randrange(64))
    data = bytearray(sample)
    for _ in range(random.choice((1, 1, 1, 2, 4, 16))):
        at = random.randrange(len(data) + 1)
        size = random.choice((1, 1, 2, 4, 8, 32))
        match random.randrange(7):
            case 0 if data:
                data[at % len(data)] ^= 1 << random.randrange(8)
            case 1 if data:
                data[at % len(data)] = random.choice((0, 1, 0x7F, 0x80, 0xFF, 0x58, 0x5B, 0x9B, 0xBB, 0xD8, ord('"')))
            case 2:
                data[at:at] = random.randbytes(size)
            case 3:
                del data[at : at + size]
            case 4:
                data[at:at] = data[at : at + size] * random.choice((1, 2, 50))
            case 5:
                other = random.randrange(len(data) + 1)
                data[at : at + size] = data[other : other + size]
            case _:
                del data[at:]
    return bytes(data[:INPUT_BYTES_MAX])


def run(target: Target, random: Random, count: int) -> int:
    """Return how many of the inputs were valid."""
    taken = 0
    for turn in range(count):
        sample = random.choice(target.samples)
        data = sample if turn < len(target.samples) else mutate(sample, random)
        taken += _is_valid(target, data, is_traced=turn % MEMORY_CHECKED_EVERY == 0)
    return taken


def _is_valid(target: Target, data: bytes, *, is_traced: bool) -> bool:
    if is_traced:
        tracemalloc.start()
    try:
        target.check(data)
    except Invalid:
        return False
    except BaseException as error:
        error.add_note(f"target {target.name}, input {data.hex()}")
        raise
    else:
        return True
    finally:
        if is_traced:
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak <= MEMORY_FLOOR_BYTES + MEMORY_FACTOR_MAX * len(data), (target.name, peak, data.hex())


def _cid_text(data: bytes) -> None:
    decoded = cid.parse(_text(data))
    assert cid.parse(str(decoded)) == decoded


def _cid_bytes(data: bytes) -> None:
    decoded = cid.decode(data)
    assert decoded.bytes == data


def _peer(data: bytes) -> None:
    id = parse_peer(_text(data))
    assert peer_of_bytes(peer_bytes(id)) == id


def _multiaddr_text(data: bytes) -> None:
    text = _text(data)
    packed = multiaddr.to_bytes(text)
    normal = multiaddr.to_text(packed)
    assert multiaddr.to_bytes(normal) == packed
    multiaddr.is_private(text)
    multiaddr.split_peer(text)
    url = multiaddr.url_of(text)
    if url is not None:
        assert multiaddr.url_of(multiaddr.from_url(url)) == url


def _multiaddr_bytes(data: bytes) -> None:
    assert multiaddr.to_bytes(multiaddr.to_text(data)) == data


def _url(data: bytes) -> None:
    text = multiaddr.from_url(_text(data))
    assert multiaddr.to_text(multiaddr.to_bytes(text)) == text
    assert multiaddr.url_of(text) is not None


def _key(data: bytes) -> None:
    decoded = PublicKey.from_protobuf(data)
    assert PublicKey.from_protobuf(decoded.to_protobuf()) == decoded
    decoded.verify(b"data", data)


def _dag_json(data: bytes) -> None:
    node = dag_json.decode(data)
    assert dag_json.decode(dag_json.encode(node)) == node


def _dag_cbor(data: bytes) -> None:
    node = dag_cbor.decode(data)
    assert dag_cbor.decode(dag_cbor.encode(node)) == node


def _advert(codec: int) -> Check:
    def check(data: bytes) -> None:
        decoded = advertisement.decode(cid.of(data, codec), data)
        assert advertisement.decode(*advertisement.encode(decoded, codec)) == decoded
        advertisement.signer(decoded)

    return check


def _chunk(codec: int) -> Check:
    def check(data: bytes) -> None:
        decoded = entries.decode_chunk(cid.of(data, codec), data)
        again = entries.decode_chunk(*entries.encode_chunk(decoded.multihashes, decoded.next, codec))
        assert again == replace(decoded, skipped=0)

    return check


def _hamt(codec: int) -> Check:
    def check(data: bytes) -> None:
        name = cid.of(data, codec)
        decoded = entries.decode_entries(name, data) if _is_root(data) else entries.decode_node(name, data)
        assert isinstance(decoded, entries.EntryChunk | entries.HamtNode)
        assert all(multihash.is_whole(each) for each in decoded.multihashes)

    return check


def _is_root(data: bytes) -> bool:
    return b"hamt" in data


def _announce(is_json: bool) -> Check:
    def check(data: bytes) -> None:
        decoded = decode_announcement(data, is_json)
        encode = encode_announcement_json if is_json else encode_announcement
        if decoded.publisher.addresses:  # a publisher without an address can be read, and not written
            assert decode_announcement(encode(decoded), is_json) == decoded

    return check


def _head(data: bytes) -> None:
    assert decode_head(data).signer


def _peer_record(data: bytes) -> None:
    assert decode_record(data).peer.id


def _metadata(data: bytes) -> None:
    assert sum(len(payload) for _, payload in metadata.protocols(data)) <= len(data)


def _car(data: bytes) -> None:
    roots, blocks = car.decode(data)
    assert car.decode(car.encode(roots, blocks)) == (roots, blocks)


def _value_key(data: bytes) -> None:
    assert privacy.value_key(*privacy.split_value_key(data)) == data


def _text(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


def targets() -> list[Target]:
    key, other = (PrivateKey.generate("ed25519", bytes([n]) * 32) for n in (1, 2))
    hashes = [multihash.of(bytes([n])) for n in range(8)]
    mixed = [*hashes, multihash.wrap(multihash.IDENTITY, b"abc"), multihash.of(b"x", multihash.BLAKE2B_256)]
    link = cid.of(b"link", DAG_CBOR)
    addresses = ("/ip4/1.2.3.4/tcp/80/http", "/dns/example.org/tcp/443/tls/http/http-path/%2Fa%2Fb")
    plain = Advertisement(key.peer_id, addresses, link, b"ctx", metadata.bitswap(), previous=link)
    peers = (AdvertisementPeer(key.peer_id, addresses, b"\x80\x12"), AdvertisementPeer(other.peer_id, (), b""))
    adverts = [
        advertisement.sign(plain, key),
        advertisement.sign(replace(plain, extension=AdvertisementExtension(peers, is_override=True)), key, [other]),
        advertisement.sign(Advertisement(key.peer_id, (), cid.NO_ENTRIES, b"", b"", is_removal=True), key),
    ]
    announces = [
        Announcement(link, Peer(key.peer_id, addresses)),
        Announcement(link, Peer(key.peer_id, addresses[:1]), b"extra", other.peer_id),
    ]
    names = [str(link), str(cid.NO_ENTRIES), str(Cid(cid.DAG_PB, hashes[0], 0)), "f" + link.bytes.hex()]
    full = [f"{each}/p2p/{key.peer_id}" for each in addresses] + ["/ip6/::1/udp/1/quic-v1/webtransport"]
    keys = [PrivateKey.generate(kind).public.to_protobuf() for kind in ("ed25519", "secp256k1", "ecdsa", "rsa")]
    graphsync = metadata.graphsync(link, is_verified=True, is_fast=True)

    def chunks(codec: int) -> tuple[bytes, ...]:
        lists: tuple[list[bytes], ...] = (hashes, mixed, [])
        return tuple(entries.encode_chunk(each, after, codec)[1] for each in lists for after in (None, link))

    def trees(codec: int) -> tuple[bytes, ...]:
        return tuple(
            data for _, data in entries.encode_hamt([multihash.of(bytes([n, n])) for n in range(250)], codec)[-3:]
        )

    decoded = [
        Target("cid text", _cid_text, tuple(name.encode() for name in names)),
        Target("cid bytes", _cid_bytes, (link.bytes, cid.NO_ENTRIES.bytes, hashes[0])),
        Target("peer id", _peer, (key.peer_id.encode(), str(Cid(cid.LIBP2P_KEY, hashes[0])).encode())),
        Target("multiaddr text", _multiaddr_text, tuple(each.encode() for each in full)),
        Target("multiaddr bytes", _multiaddr_bytes, tuple(multiaddr.to_bytes(each) for each in full)),
        Target("url", _url, (b"http://[::1]:80/a/b", b"https://example.org", b"http://1.2.3.4:8080/%20x")),
        Target("key", _key, tuple(keys)),
        Target("head", _head, (sign_head(link, key), sign_head(link, key, ""))),
        Target("peer record", _peer_record, (sign_record(PeerRecord(Peer(key.peer_id, addresses), 7), key),)),
        Target("metadata", _metadata, (metadata.join(metadata.bitswap(), metadata.http(), graphsync), b"\xa0\x12\0")),
        Target("car", _car, (car.encode([link], [advertisement.encode(adverts[0]), entries.encode_chunk(hashes)]),)),
        Target("value key", _value_key, (privacy.value_key(key.peer_id, b"ctx"),)),
    ]
    for codec, name in ((DAG_JSON, "dag-json"), (DAG_CBOR, "dag-cbor")):
        is_json = codec == DAG_JSON
        blocks = tuple(advertisement.encode(each, codec)[1] for each in adverts)
        encode = encode_announcement_json if is_json else encode_announcement
        decoded += [
            Target(name, _dag_json if is_json else _dag_cbor, (*blocks, *chunks(codec))),
            Target(f"advert {name}", _advert(codec), blocks),
            Target(f"chunk {name}", _chunk(codec), chunks(codec)),
            Target(f"hamt {name}", _hamt(codec), trees(codec)),
            Target(f"announce {name}", _announce(is_json), tuple(encode(each) for each in announces)),
        ]
    return decoded
