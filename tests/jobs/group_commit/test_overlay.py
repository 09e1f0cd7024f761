"""The overlay: staged changes not yet readable from the store."""

from argosy.base.kv import Batch
from argosy.jobs.overlay import UNTOUCHED, Overlay


def overlay_of(*batches: Batch) -> Overlay:
    overlay = Overlay()
    for batch in batches:
        overlay.open_group.add(batch)
        overlay.close_group()
    return overlay


def test_the_newest_change_to_a_key_is_visible() -> None:
    overlay = overlay_of(Batch().put(b"a", b"1"), Batch().put(b"a", b"2").put(b"b", b"1"), Batch().delete(b"b"))
    assert overlay.lookup(b"a") == b"2"
    assert overlay.lookup(b"b") is None
    assert overlay.lookup(b"c") is UNTOUCHED


def test_a_range_has_the_newest_changes_in_key_order_without_its_end() -> None:
    overlay = overlay_of(Batch().put(b"a", b"1").put(b"d", b"1"), Batch().put(b"c", b"2").delete(b"a").put(b"b", b"2"))
    assert overlay.within(b"a", b"d", reverse=False) == [(b"a", None), (b"b", b"2"), (b"c", b"2")]
    assert overlay.within(b"b", None, reverse=True) == [(b"d", b"1"), (b"c", b"2"), (b"b", b"2")]


def test_a_written_group_is_removed() -> None:
    overlay = Overlay()
    overlay.open_group.add(Batch().put(b"a", b"1"))
    overlay.on_written(overlay.close_group())
    assert overlay.lookup(b"a") is UNTOUCHED
    assert len(overlay) == 1


def test_a_group_stays_while_a_concurrent_read_may_need_it() -> None:
    overlay = Overlay()
    overlay.open_group.add(Batch().put(b"a", b"1"))
    read = overlay.begin_read()
    overlay.on_written(overlay.close_group())
    assert overlay.lookup(b"a") == b"1"
    overlay.end_read(read)
    assert overlay.lookup(b"a") is UNTOUCHED


def test_successive_reads_do_not_retain_groups_forever() -> None:
    overlay = Overlay()
    before = overlay.begin_read()
    for number in range(100):
        overlay.open_group.add(Batch().put(b"a", b"%d" % number))
        group = overlay.close_group()
        after = overlay.begin_read()
        overlay.on_written(group)
        overlay.end_read(before)
        before = after
        assert len(overlay) <= 4


def test_groups_are_removed_oldest_first() -> None:
    overlay = Overlay()
    overlay.open_group.add(Batch().put(b"a", b"1"))
    first = overlay.close_group()
    overlay.open_group.add(Batch().put(b"a", b"2"))
    overlay.on_written(overlay.close_group())
    assert overlay.lookup(b"a") == b"2", "the second group is still needed: it hides the first"
    overlay.on_written(first)
    assert overlay.lookup(b"a") is UNTOUCHED
