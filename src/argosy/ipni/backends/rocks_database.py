"""The RocksDB database of a store: its tuning, and the checks when it is opened.

The values are tuned for one process on two cores that ingests continuously and answers finds meanwhile: compaction has
one core, and the writer waits before RocksDB would stall it (see `is_behind`), because the binding holds the GIL while
it writes.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from rocksdict import (
    BlockBasedOptions,
    Cache,
    ColumnFamily,
    DbClosedError,
    DBCompressionType,
    Options,
    Rdict,
    SliceTransform,
    WriteBatch,
)

from argosy.base.errors import ArgosyError, Invalid, Unavailable
from argosy.ipni.backends import layout

# The binding has one exception for everything; the cases differ by fragments of RocksDB's messages.
_LOCKED = ("/LOCK:", "lock hold by current process")
_FULL = ("No space left on device", "Disk quota exceeded", "File too large")
_DAMAGED = ("Corruption", "CURRENT file does not end", "does not match any column", "Column families not opened")


class translate_errors:
    """Translates RocksDB's errors. A class, because a generator-based context manager would add microseconds to each
    find."""

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        # The binding raises plain Exception with RocksDB's message.
        if kind is Exception or kind is DbClosedError:
            raise _to_argosy_error(self._path, str(error)) from error


def _to_argosy_error(path: Path, message: str) -> ArgosyError:
    text = " ".join(message.split())  # RocksDB's message may have several lines
    if any(sign in text for sign in _LOCKED):
        return Unavailable(f"the store {path} is open in another process; stop that one, or use another directory")
    if any(sign in text for sign in _FULL):
        return Unavailable(f"the disk of the store {path} is full; free space, then restart ({text[:200]})")
    if any(sign in text for sign in _DAMAGED):
        return Invalid(
            f"the store {path} is damaged ({text[:200]}): move it away and start with an empty directory, "
            "which is filled again from the publishers"
        )
    if "closed" in text.lower():
        return Unavailable(f"the store {path} is closed")
    return Unavailable(f"the store {path} cannot be read or written; check its disk ({text[:200]})")


FAMILIES = ("entries", "seconds", "inverse", "values", "marks", "rows")
_MEMTABLE_BYTES = 64 << 20  # of entries: a flush writes a file of about a million
_SMALL_MEMTABLE_BYTES = 16 << 20
_MEMTABLES_MAX = 4
_MEMTABLES_BEHIND = 3  # one less, so that the writer waits before RocksDB stops it
_L0_FILES = 8  # merged at a time; with four, compaction of a large store does a quarter more work
_L0_FILES_BEHIND = 24
_L0_FILES_MAX = 64  # not reached, because the writer waits at _L0_FILES_BEHIND
# The log is replayed at the next start after a crash: this bounds how long that takes.
_WAL_BYTES_MAX = 256 << 20
_CACHE_BYTES = 128 << 20
# About one false positive in a hundred lookups, for 2.5 bytes per entry in all (decision 27).
_BLOOM_BITS = 10
# A file with many tombstones is compacted, so that swept space is freed without a full compaction.
_TOMBSTONE_WINDOW = 4096
_TOMBSTONES_TRIGGER = 2048
# Files of RocksDB that an interrupted first start may leave.
_EARLY_NAMES = {"LOCK", "LOG", "IDENTITY", "rocksdict-config.json"}


class RocksDatabase:
    """The open database and its column families by name."""

    def __init__(self, path: Path, db: Rdict) -> None:
        self.path = path
        self.db = db
        self.families: dict[str, Rdict] = {name: db.get_column_family(name) for name in FAMILIES}
        self.handles: dict[str, ColumnFamily] = {name: db.get_column_family_handle(name) for name in FAMILIES}

    @classmethod
    def open(cls, path: Path, *, is_double_hashed: bool) -> "RocksDatabase":
        is_new = _is_new(path)
        with translate_errors(path):
            path.mkdir(parents=True, exist_ok=True)
            database = cls(path, Rdict(str(path), _database(), {name: _family(name) for name in FAMILIES}))
            try:
                database._check_layout(is_new, is_double_hashed)
            # Also when cancelled: an open database keeps its lock file, and the next attempt in this process would
            # fail.
            except BaseException:
                database.close()
                raise
        return database

    def is_behind(self) -> bool:
        """Whether flushes or compaction are so far behind that writers should wait."""
        entries = self.families["entries"]
        # Memtables that wait for a flush, then files that wait for compaction: either stalls the writer at its limit.
        waiting = entries.property_int_value("rocksdb.num-immutable-mem-table") or 0
        if waiting >= _MEMTABLES_BEHIND:
            return True
        return int(entries.property_value("rocksdb.num-files-at-level0") or 0) >= _L0_FILES_BEHIND

    def batch(self) -> WriteBatch:
        # Raw bytes: the binding would prefix every key and value with its own type tag.
        return WriteBatch(raw_mode=True)

    def items(self, family: str, prefix: bytes, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """The rows of a family whose keys have the prefix, in order. Drop the iterator before `close`, which waits for
        it."""
        # No upper bound is set, because the binding frees the bound's bytes while the iterator still reads them.
        for key, row in self.families[family].items(from_key=max(prefix, start)):
            assert isinstance(key, bytes)
            if not key.startswith(prefix):
                break
            yield key, row

    def disk_bytes(self) -> int:
        return sum(each.stat().st_size for each in self.path.iterdir() if each.is_file())

    def flush(self) -> None:
        with translate_errors(self.path):
            for family in self.families.values():
                family.flush()

    def compact(self) -> None:
        with translate_errors(self.path):
            for family in self.families.values():
                family.flush()
                family.compact_range(None, None)

    def sync(self) -> None:
        with translate_errors(self.path):
            self.db.flush_wal(True)

    def close(self) -> None:
        with translate_errors(self.path):
            # Families before the database: it does not close while one of them is referenced.
            self.handles.clear()
            for family in self.families.values():
                family.close()
            self.families.clear()
            self.db.close()

    def _check_layout(self, is_new: bool, is_double_hashed: bool) -> None:
        expected = _layout_row(is_double_hashed)
        marks = self.families["marks"]
        found = marks.get(layout.LAYOUT_KEY)
        if found is None and is_new:
            marks[layout.LAYOUT_KEY] = expected
        elif found is None:
            raise Invalid(f"{self.path} is a database of another program; use an empty directory")
        elif found == _layout_row(not is_double_hashed):
            had = "without" if is_double_hashed else "with"
            raise Invalid(
                f"the store {self.path} was created {had} second hashes; open it so, or use an empty directory"
            )
        elif found != expected:
            raise Invalid(
                f"the store {self.path} has layout {found[:40]!r}, this version reads {layout.LAYOUT}; use the version "
                "that created it, or an empty directory"
            )


def _layout_row(is_double_hashed: bool) -> bytes:
    return b"%d%s" % (layout.LAYOUT, b" with second hashes" if is_double_hashed else b"")


def _is_new(path: Path) -> bool:
    """Whether the directory has no data yet; raises Invalid if it holds something else."""
    if not path.exists():
        return True
    if not path.is_dir():
        raise Invalid(f"{path} is not a directory; a store needs a directory of its own")
    # An interrupted first start leaves the file without data; a database of another program has some.
    if (path / "CURRENT").exists():
        return not any(path.glob("*.sst")) and not any(each.stat().st_size for each in path.glob("*.log"))
    # RocksDB writes CURRENT last; without it the files are those of an interrupted first start.
    foreign = [each.name for each in path.iterdir() if not _is_early(each.name)]
    if foreign:
        raise Invalid(f"{path} contains other files ({', '.join(sorted(foreign)[:3])}); use an empty directory")
    return True


def _is_early(name: str) -> bool:
    return name in _EARLY_NAMES or name.startswith(("LOG.old", "MANIFEST-", "OPTIONS-")) or name.endswith(".dbtmp")


def _database() -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    # One thread for compaction and one for flushes: with more, finds would wait for a core. They keep their priority,
    # because at a low one compaction stood still on a busy machine.
    options.set_max_background_jobs(2)
    options.set_max_subcompactions(1)
    options.set_atomic_flush(True)  # of all families; otherwise an unflushed small one keeps the log of the large one
    options.set_max_total_wal_size(_WAL_BYTES_MAX)
    options.set_bytes_per_sync(1 << 20)  # steady writing, without bursts of dirty pages that delay reads
    # RocksDB's own text logs are for analysis only and would fill the disk that the freeze watches.
    options.set_keep_log_file_num(4)
    options.set_max_log_file_size(4 << 20)
    return options


def _family(name: str) -> Options:
    options = Options(raw_mode=True)
    # The first full memtable flushes all families, so the families with a row per multihash get equal sizes.
    is_large = name in ("entries", "seconds")
    options.set_write_buffer_size(_MEMTABLE_BYTES if is_large else _SMALL_MEMTABLE_BYTES)
    options.set_max_write_buffer_number(_MEMTABLES_MAX)
    options.set_level_zero_file_num_compaction_trigger(_L0_FILES)
    options.set_level_zero_slowdown_writes_trigger(_L0_FILES_MAX)
    options.set_level_zero_stop_writes_trigger(_L0_FILES_MAX)
    options.set_soft_pending_compaction_bytes_limit(0)  # `is_behind` holds the writer back instead
    options.set_hard_pending_compaction_bytes_limit(0)
    # The files merged from level 0 make one level: the usual advice, which avoids an early second merge.
    options.set_max_bytes_for_level_base(_L0_FILES * _MEMTABLE_BYTES)
    options.set_target_file_size_base(_MEMTABLE_BYTES)
    # The last level then holds most of the data, which bounds the space that removed entries take.
    options.set_level_compaction_dynamic_level_bytes(True)
    # Digests are incompressible, only the rest of a row shrinks: zstd would save three or four bytes more per entry,
    # for twice the CPU time of compaction.
    options.set_compression_type(DBCompressionType.lz4())
    options.add_compact_on_deletion_collector_factory(_TOMBSTONE_WINDOW, _TOMBSTONES_TRIGGER, 0.5)
    table = BlockBasedOptions()
    table.set_block_cache(_blocks())
    table.set_format_version(5)
    table.set_bloom_filter(_BLOOM_BITS, False)
    options.set_block_based_table_factory(table)
    # A lookup is by place, which is a prefix of the key: without this the bloom filter could not be used for it.
    if name == "entries":
        options.set_prefix_extractor(SliceTransform.create_fixed_prefix(layout.PLACE_BYTES))
        options.set_memtable_prefix_bloom_ratio(0.05)
    return options


@cache
def _blocks() -> Cache:
    """One block cache for all families and stores of the process."""
    return Cache(_CACHE_BYTES)
