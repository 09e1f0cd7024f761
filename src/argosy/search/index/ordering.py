"""Best first: the order of documents in an index, which is the order in which they are looked at.

A search that meets its bounds has seen the first documents, and equal scores go to the earlier one. So what people
wrote for this repository comes before its tests, before what others wrote, before what a program wrote; a short path
before a long one. It is decided before anything is read, from the path and what the listing says.
"""

from argosy.search.documents import Category, Entry
from argosy.search.languages import category_of_path

# As a number, a file of these categories is the worse the higher it is: generated, then vendored, then test.
_DEMOTED = Category.GENERATED | Category.VENDORED | Category.TEST


def rank(entry: Entry, *, is_skipped: bool) -> tuple[bool, int, int, int, int, bytes, bytes]:
    """Sorts best first; what is known to have no indexed content comes last."""
    return (
        is_skipped,
        int(category_of_path(entry.path)) & int(_DEMOTED),
        len(entry.path),
        entry.size_bytes,
        -entry.branches.bit_count(),
        entry.path,
        entry.blob_id,
    )
