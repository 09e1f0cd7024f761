"""The keys of the fair throttle in Redis: the only module that spells them, for the code, the scripts and the docs.

A row is a hash of its own and every script touches one row, so in a Redis Cluster the rows of a window spread over the
nodes. No key contains braces: they would place a whole window on one node, and on another one every few minutes.
"""

from argosy.base.errors import Invalid
from argosy.base.key_docs import KeyDoc
from argosy.throttle.ports import RowId

SCHEMA = "v1"

# Fields of a row that are not buckets begin with ~, so that readers of `<col>:prob` and `<col>:time` can skip them.
BORN, VERSION, FINGERPRINT, WRITER = "~b", "~v", "~c", "~s:"


KEY_DOCS = (
    KeyDoc(
        "v1:<seed>:<row>",
        "hash",
        f"<col>:prob → probability; <col>:time → its time in ms; {BORN} when the row was created, in µs; {VERSION} how "
        f"often it was written; {FINGERPRINT} the configuration's fingerprint; {WRITER}<instance> its last batch",
        "one level of one window of the fair throttle; expires three windows after its first write",
    ),
)


class RowKeys:
    """The keys of one namespace; the empty one gives the schema of the design as it stands."""

    def __init__(self, namespace: str = "") -> None:
        if not all(c.isalnum() or c in "-_." for c in namespace):
            raise Invalid(f"a namespace has letters, digits, '-', '_' and '.' only, not {namespace!r}")
        self._prefix = f"{namespace}:{SCHEMA}:" if namespace else f"{SCHEMA}:"

    def row(self, cell: RowId) -> str:
        return f"{self._prefix}{cell.seed}:{cell.row}"


def fields_of(col: int) -> tuple[bytes, bytes]:
    """The two fields of one bucket."""
    return b"%d:prob" % col, b"%d:time" % col
