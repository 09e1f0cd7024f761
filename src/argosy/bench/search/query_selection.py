"""The queries of a run: well-known ones and ones drawn from the tree, each checked to belong to its class.

A class is a share of the files and not a guess at a word: `return` is common in one tree and rare in another. The
well-known queries are about the Linux kernel and a Python environment. They are candidates for every corpus; those that
do not belong to their class there are left out, and others are drawn from the words of the tree. Drawing is seeded, so
the same tree always gets the same queries and two runs can be compared.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from random import Random

from argosy.bench.search.bench_query import BenchQuery, FileFilter, Kind
from argosy.search.index.index import Index
from argosy.search.index.reader import content_of

SEED = 20_000
SAMPLE_FILES = 2_000
SAMPLE_BYTES = 32 << 20
SAMPLE_FILE_BYTES = 1 << 18  # of one file, from its beginning
CANDIDATES_MAX = 400  # for one class: each costs a search
RARE_SHARE = 0.001  # of the files, at most
RARE_FILES = 2  # or this many, in a small tree
COMMON_SHARE = 0.2  # of the files, at least
SHORT_CHARACTERS = 2
WORD = re.compile(rb"[A-Za-z_][A-Za-z0-9_]{5,30}")


def belongs_to(kind: Kind, files: int, all_files: int) -> bool:
    """Whether a query with this many matching files is one of the class."""
    rare_max = max(RARE_FILES, RARE_SHARE * all_files)
    match kind:
        case "zero":
            return files == 0
        case "rare":
            return 0 < files <= rare_max
        case "identifier":
            return rare_max < files < COMMON_SHARE * all_files
        case "common":
            return files >= COMMON_SHARE * all_files and files > 0
    return files > 0


def select_queries(
    kind: Kind, count: int, sample: "Sample", files_of: Callable[[BenchQuery], int], all_files: int
) -> list[BenchQuery]:
    """Queries of the class, the well-known ones first; fewer than `count` if the tree does not have them."""
    drawn = draw_queries(kind, sample, Random(f"{SEED} {kind}"))
    candidates = islice(chain(known_queries(kind), drawn), CANDIDATES_MAX)
    found: list[BenchQuery] = []
    while len(found) < count and (query := next(candidates, None)) is not None:
        if query not in found and belongs_to(kind, files_of(query), all_files):
            found.append(query)
    return found


@dataclass(frozen=True)
class Sample:
    """Some files of a tree, and their words by the number of files that contain them."""

    contents: Sequence[bytes]
    suffixes: Sequence[str]  # the most frequent first
    words: Sequence[str]  # the most frequent first

    @property
    def middle(self) -> Sequence[str]:
        """Words that are neither in most files nor in hardly any."""
        return self.words[len(self.words) // 200 : len(self.words) // 4] or self.words


def sample_index(index: Index) -> Sample:
    documents = [(part.segment, number) for part in index.parts for number in range(part.segment.content.documents)]
    contents: list[bytes] = []
    left_bytes = SAMPLE_BYTES
    for segment, number in Random(SEED).sample(documents, min(SAMPLE_FILES, len(documents))):
        content = content_of(segment, number)
        if isinstance(content, bytes) and left_bytes > 0:
            contents.append(content[:SAMPLE_FILE_BYTES])
            left_bytes -= len(contents[-1])
    words = Counter(word for content in contents for word in set(WORD.findall(content)))
    names = [name for part in index.parts for name in bytes(part.segment.names.data).split(b"\0")]
    suffixes = Counter(suffix.group().decode() for name in names if (suffix := re.search(rb"\.[a-z]{1,5}$", name)))
    return Sample(
        contents,
        [suffix for suffix, _ in suffixes.most_common(8)],
        [word.decode() for word, _ in sorted(words.items(), key=lambda pair: (-pair[1], pair[0]))],
    )


def draw_queries(kind: Kind, sample: Sample, random: Random) -> Iterator[BenchQuery]:
    """Candidates for the class, without end unless the sample has no words."""
    while sample.words:
        match kind:
            case "rare":
                yield BenchQuery(kind, (random.choice(sample.words[len(sample.words) // 2 :]),))
            case "identifier":
                yield BenchQuery(kind, (random.choice(sample.middle),))
            case "common":
                yield BenchQuery(kind, (random.choice(sample.words[: max(10, len(sample.words) // 500)]),))
            case "and":
                yield BenchQuery(kind, tuple(word.lower() for word in _words_of_one_file(sample, random)))
            case "short":
                yield BenchQuery(kind, (_characters(sample, random),))
            case "regex":
                yield BenchQuery(kind, (_pattern(sample, random),), is_regex=True)
            case "filter":
                files = FileFilter(suffix=random.choice(sample.suffixes or [""]))
                yield BenchQuery(kind, (random.choice(sample.middle),), files=files)
            case "zero":
                yield BenchQuery(kind, ("".join(random.sample(sample.words, min(2, len(sample.words)))),))


def _words_of_one_file(sample: Sample, random: Random) -> list[str]:
    """Two or three words of one file, so that the conjunction of them has a match."""
    words = sorted(set(WORD.findall(random.choice(sample.contents))))
    return [word.decode() for word in random.sample(words, min(len(words), random.choice((2, 3))))] or ["a", "e"]


def _characters(sample: Sample, random: Random) -> str:
    content = random.choice(sample.contents)
    at = random.randrange(max(1, len(content) - 1))
    found = content[at : at + SHORT_CHARACTERS].decode("ascii", "replace")
    return found if found.isprintable() and found.strip() == found and found else "e"


def _pattern(sample: Sample, random: Random) -> str:
    one, other = random.choice(sample.middle), random.choice(sample.middle)
    forms = (rf"\b{one[:5]}\w+\(", rf"({one}|{other})\w*", rf"^\s*\w+ {one}", rf"{one[:6]}[a-z_]+{one[-2:]}\b")
    return random.choice(forms)


# -- well-known queries -----------------------------------------------------------------------------------------------

_WORDS: Sequence[tuple[Kind, Sequence[str]]] = (
    # the kernel
    ("rare", ("ext4_mb_find_by_goal", "tcp_v4_syn_recv_sock", "perf_event_mmap_output", "kvm_arch_vcpu_ioctl_run")),
    ("rare", ("BPF_PROG_TYPE_LSM", "i915_gem_evict_vm", "nvme_setup_prp_simple", "This should never happen")),
    ("identifier", ("kmalloc", "spin_lock_irqsave", "container_of", "EXPORT_SYMBOL_GPL", "copy_from_user", "dev_err")),
    ("identifier", ("task_struct", "pci_driver", "rcu_read_lock", "MODULE_LICENSE", "platform_get_resource")),
    ("identifier", ("list_for_each_entry_safe", "IS_ERR_OR_NULL", "schedule_timeout")),
    ("common", ("return", "int", "struct", "error", "define", "static inline", "unsigned long", "NULL", "if (")),
    ("common", ("copyright",)),
    ("short", ("e", "qz", "->", "if", "ZX", "%")),
    ("zero", ("zzqqxx_never", "struct task_structure_zz", "kmalloc_foobar_baz", "returnn int")),
    ("zero", ("static int static int",)),
    # a Python environment
    ("rare", ("get_lexer_for_filename", "TarFile.extractall", "_RandomNameSequence", "BoundedSemaphore.release")),
    ("rare", ("AbstractEventLoopPolicy", "singledispatchmethod", "unix_stream_socket", "never happens in practice")),
    ("identifier", ("isinstance", "__init__", "dataclass", "subprocess", "namedtuple", "OrderedDict", "setdefault")),
    ("identifier", ("contextmanager", "RuntimeError", "ndarray", "asyncio", "staticmethod", "assertRaises", "dtype")),
    ("common", ("import", "self", "def ", "None", "the ", "in ")),
    ("short", ("__", "=>", "Zq", ";", "or", "@")),
    ("zero", ("HashMapOfNothingAtAll", "self.self.self", "import returning def", "isinstance_of_none")),
)
_ALL_OF: Sequence[tuple[str, ...]] = (
    ("kmalloc", "gfp_atomic"),
    ("mutex_lock", "spin_lock", "kfree"),
    ("probe", "remove", "platform_driver", "regmap"),
    ("copyright", "intel", "iommu"),
    ("tcp", "congestion"),
    ("struct", "inode", "dentry", "xattr"),
    ("thread", "pool", "timeout"),
    ("class", "serializer", "decimal"),
    ("asyncio", "transport", "buffer"),
    ("subprocess", "pipe"),
    ("test", "socket", "skip", "ipv6"),
)
_REGEXES: Sequence[str] = (
    r"kmalloc\(.*gfp_atomic",
    r"^static int \w+_probe\(",
    r"(read|write)_lock_irq(save)?\(",
    r"\b[a-z]{3}_lock\(&",
    r"EXPORT_SYMBOL(_GPL)?\(vfs_\w+\)",
    r"#define\s+[A-Z_]+_MAX\s+[0-9]+",
    r"(foo|bar|baz)_[a-z]+_init",
    r"todo|fixme|xxx",
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}",
    r"struct \w+_operations \w+ = \{",
    r'MODULE_AUTHOR\(".*@intel\.com',
    r"return -E(NOMEM|INVAL|BUSY);$",
    r"0x[0-9a-f]{16}\b",
    r"(alloc|free)_\w+_pages?\(",
    r"[^a-z]sem_(up|down)",
    r"def test_\w+_timeout",
    r"raise (Value|Type)Error\(",
    r"^class \w+\(\w*Exception\)",
    r"(get|set)_\w+_lock",
    r"https?://[a-z.]+\.org/[a-z]+",
    r"except \w+ as \w+:$",
    r"^from __future__ import \w+",
    r"@(static|class)method$",
    r"[a-f0-9]{40}",
)
_FILTERED: Sequence[tuple[str, bool, FileFilter]] = (
    ("container_of", False, FileFilter(directory="fs/ext4")),
    ("return", False, FileFilter(directory="mm", suffix=".c")),
    ("interrupt", False, FileFilter(suffix=".dtsi")),
    ("kmalloc", False, FileFilter(suffix=".h")),
    (r"int\s+main\(", True, FileFilter(directory="tools")),
    ("async", False, FileFilter(suffix=".pyi")),
    ("isinstance", False, FileFilter(suffix="__init__.py")),
    ("error", False, FileFilter(suffix=".h")),
    (r"def \w+_async\(", True, FileFilter(suffix=".py")),
)


def known_queries(kind: Kind) -> list[BenchQuery]:
    """The well-known queries of this class."""
    plain = [BenchQuery(kind, (word,)) for each, words in _WORDS if each == kind for word in words]
    match kind:
        case "and":
            return [BenchQuery(kind, words) for words in _ALL_OF]
        case "regex":
            return [BenchQuery(kind, (pattern,), is_regex=True) for pattern in _REGEXES]
        case "filter":
            return [BenchQuery(kind, (word,), is_regex=is_regex, files=files) for word, is_regex, files in _FILTERED]
        case "zero":
            absent = BenchQuery(kind, (r"spin_lock_[0-9]{5}_irq",), is_regex=True)
            return [
                *plain,
                absent,
                BenchQuery(kind, ("kmalloc", "zzqqxx_never")),
                BenchQuery(kind, ("import", "zzqqxx_never")),
            ]
    return plain
