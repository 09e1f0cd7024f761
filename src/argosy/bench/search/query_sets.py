"""Questions about two well-known trees: the Linux kernel, and a Python environment.

They are offered to every corpus; those that do not belong to their class there are left out, and others are drawn.
"""

from collections.abc import Sequence

from argosy.bench.search.bench_query import Ask, Kind, Place

_PLAIN: Sequence[tuple[Kind, Sequence[str]]] = (
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
_PLACED: Sequence[tuple[str, bool, Place]] = (
    ("container_of", False, Place(folder="fs/ext4")),
    ("return", False, Place(folder="mm", suffix=".c")),
    ("interrupt", False, Place(suffix=".dtsi")),
    ("kmalloc", False, Place(suffix=".h")),
    (r"int\s+main\(", True, Place(folder="tools")),
    ("async", False, Place(suffix=".pyi")),
    ("isinstance", False, Place(suffix="__init__.py")),
    ("error", False, Place(suffix=".h")),
    (r"def \w+_async\(", True, Place(suffix=".py")),
)


def known(kind: Kind) -> list[Ask]:
    """The questions of this class, for whatever tree."""
    plain = [Ask(kind, (word,)) for each, words in _PLAIN if each == kind for word in words]
    match kind:
        case "and":
            return [Ask(kind, words) for words in _ALL_OF]
        case "regex":
            return [Ask(kind, (pattern,), is_regex=True) for pattern in _REGEXES]
        case "filter":
            return [Ask(kind, (word,), is_regex=is_regex, place=place) for word, is_regex, place in _PLACED]
        case "zero":
            absent = Ask(kind, (r"spin_lock_[0-9]{5}_irq",), is_regex=True)
            return [*plain, absent, Ask(kind, ("kmalloc", "zzqqxx_never")), Ask(kind, ("import", "zzqqxx_never"))]
    return plain
