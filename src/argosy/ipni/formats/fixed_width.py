"""Many byte strings of one length at once: in a block they lie at equal distances, and are checked and cut as a table.

Every function gives None where the bytes are not so regular; the strict decoders then say what they are.
"""

from binascii import Error, a2b_base64

import numpy as np
from numpy.typing import NDArray

from argosy.base.errors import Invalid
from argosy.ipni.formats import dag_cbor, multihash

Table = NDArray[np.uint8]

_SIGNS = [bytes([sign]) for sign in b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"]
# By the length of base64 text modulo 4: what it may end in, so that no bit is left over, and the padding it lacks.
_LAST_SIGNS = (tuple(_SIGNS), (), tuple(_SIGNS[::16]), tuple(_SIGNS[::4]))
_PADDING = (b"", b"", b"==", b"=")
_JSON_BEFORE, _JSON_AFTER = b'{"/":{"bytes":"', b'"}}'


def cbor_table(data: bytes, at: int, count: int) -> tuple[Table, int] | None:
    """So many byte strings from `at` on, a row each, and where they end."""
    try:
        _, size, start = dag_cbor.read_head(data, at)
    except Invalid:
        return None
    frame = dag_cbor.bytes_head(size)
    stride = len(frame) + size
    end = at + count * stride
    if data[at:start] != frame or end > len(data) or not size:
        return None
    rows = np.frombuffer(data, np.uint8, count * stride, at).reshape(count, stride)
    return (rows[:, len(frame) :], end) if _all_begin(rows, frame) else None


def json_table(data: bytes, at: int) -> tuple[Table, int] | None:
    """The bytes in the list that begins at `at`, a row each, and where the list ends.

    Row by row there is `[` or `,`, the marks of bytes, base64, and the closing marks. The signs of base64 do not
    include `]`, so that the first one ends the list.
    """
    end = data.find(b"]", at)
    stop = data.find(b'"', at + 1 + len(_JSON_BEFORE), end)
    if end < 0 or stop < 0:
        return None
    signs = stop - at - 1 - len(_JSON_BEFORE)
    stride = 1 + len(_JSON_BEFORE) + signs + len(_JSON_AFTER)
    count, rest = divmod(end - at, stride)
    if rest or not signs or signs % 4 == 1:
        return None
    rows = np.frombuffer(data, np.uint8, end - at, at).reshape(count, stride)
    text = rows[:, 1 + len(_JSON_BEFORE) : -len(_JSON_AFTER)]
    is_framed = (
        rows[0, 0] == ord("[")
        and bool((rows[1:, 0] == ord(",")).all())
        and _all_begin(rows[:, 1:], _JSON_BEFORE)
        and _all_begin(rows[:, -len(_JSON_AFTER) :], _JSON_AFTER)
    )
    made = _from_base64(text) if is_framed else None
    return (made, end + 1) if made is not None else None


def json_items(data: bytes, at: int) -> tuple[list[bytes], int] | None:
    """As `json_table`, for lengths that differ: between the items lie always the same marks."""
    end = data.find(b"]", at)
    body = data[at + 1 : end] if end > at + 1 else b""
    if not (body.startswith(_JSON_BEFORE) and body.endswith(_JSON_AFTER)):
        return None
    texts = body[len(_JSON_BEFORE) : -len(_JSON_AFTER)].split(_JSON_AFTER + b"," + _JSON_BEFORE)
    if not all(text.endswith(_LAST_SIGNS[len(text) % 4]) for text in texts):
        return None
    try:
        return [a2b_base64(text + _PADDING[len(text) % 4], strict_mode=True) for text in texts], end + 1
    except Error:
        return None


def _from_base64(text: Table) -> Table | None:
    """All rows in one call: each is filled up with `A`, which is zero, to a whole number of four signs."""
    count, signs = text.shape
    full = -(-signs // 4) * 4
    padded = np.full((count, full), ord("A"), np.uint8)
    padded[:, :signs] = text
    try:
        made = a2b_base64(padded.tobytes(), strict_mode=True)
    except Error:
        return None
    if len(made) != count * full // 4 * 3:
        return None
    rows = np.frombuffer(made, np.uint8).reshape(count, full // 4 * 3)
    size = signs * 3 // 4
    return None if rows[:, size:].any() else rows[:, :size]


def _all_begin(rows: Table, begin: bytes) -> bool:
    """Whether all rows do; column by column, since these are few and the rows many."""
    return all(bool((rows[:, column] == byte).all()) for column, byte in enumerate(begin))


def multihashes(rows: Table) -> list[bytes] | None:
    """The rows as multihashes, if all are of one function: the head of the first, once parsed, is that of all."""
    first = rows[0].tobytes()
    try:
        _, digest = multihash.split(first)
    except Invalid:
        return None
    if not _all_begin(rows, first[: len(first) - len(digest)]):
        return None
    items: list[bytes] = np.ascontiguousarray(rows).view(f"V{len(first)}").ravel().tolist()
    return items
