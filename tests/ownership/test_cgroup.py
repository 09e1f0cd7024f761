"""Free memory, from made-up trees of /proc and /sys/fs/cgroup."""

from pathlib import Path

import pytest

from argosy.base.errors import Invalid, Unavailable
from argosy.ownership.backends.cgroup import CgroupMemory

MIB = 1 << 20
NO_LIMIT_V1 = 9223372036854771712


class Machine:
    """A tree that a test fills."""

    def __init__(self, base: Path) -> None:
        self.root = base / "cgroup"
        self.proc = base / "proc"

    def write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def process(self, cgroup: str, *, available_mib: int | None = 8000, resident_mib: int = 100) -> None:
        self.write(self.proc / "self/cgroup", cgroup)
        self.write(self.proc / "self/status", f"Name:\tpython\nVmPeak:\t 99 kB\nVmRSS:\t  {resident_mib * 1024} kB\n")
        if available_mib is not None:
            self.write(self.proc / "meminfo", f"MemTotal: 99 kB\nMemAvailable:   {available_mib * 1024} kB\n")

    def v2(self, group: str, *, limit: int | str, used: int | str, inactive: int = 0) -> None:
        folder = self.root / group
        self.write(folder / "memory.max", f"{limit}\n")
        self.write(folder / "memory.current", f"{used}\n")
        self.write(folder / "memory.stat", f"anon 1\ninactive_anon 7\ninactive_file {inactive}\nactive_file 5\n")

    def v1(self, group: str, *, limit: int, used: int, inactive: int = 0) -> None:
        folder = self.root / "memory" / group
        self.write(folder / "memory.limit_in_bytes", f"{limit}\n")
        self.write(folder / "memory.usage_in_bytes", f"{used}\n")
        self.write(folder / "memory.stat", f"inactive_file 3\ntotal_inactive_file {inactive}\n")

    def free_mib(self, limit_bytes: int | None = None) -> float:
        return CgroupMemory(self.root, self.proc, limit_bytes).free_bytes() / MIB


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_version_2_counts_unreclaimable_memory(machine: Machine) -> None:
    machine.process("0::/app\n")
    machine.v2("app", limit=1000 * MIB, used=700 * MIB, inactive=200 * MIB)
    assert machine.free_mib() == 500


def test_a_tighter_parent_decides(machine: Machine) -> None:
    machine.process("0::/pod/app\n")
    machine.v2("pod/app", limit=1000 * MIB, used=100 * MIB)
    machine.v2("pod", limit=1200 * MIB, used=900 * MIB, inactive=50 * MIB)
    assert machine.free_mib() == 350


def test_a_tighter_child_decides(machine: Machine) -> None:
    machine.process("0::/pod/app\n")
    machine.v2("pod/app", limit=300 * MIB, used=100 * MIB)
    machine.v2("pod", limit=5000 * MIB, used=900 * MIB)
    assert machine.free_mib() == 200


def test_a_container_that_sees_its_own_group_as_the_root_is_limited_by_it(machine: Machine) -> None:
    machine.process("0::/../../kubepods/pod7/app\n")
    machine.v2(".", limit=400 * MIB, used=100 * MIB)
    assert machine.free_mib() == 300


def test_a_path_that_climbs_does_not_leave_the_tree(machine: Machine) -> None:
    machine.process("0::/../other\n")
    machine.v2("../other", limit=MIB, used=0)
    assert machine.free_mib() == 8000


def test_max_is_no_limit(machine: Machine) -> None:
    machine.process("0::/app\n")
    machine.v2("app", limit="max", used=700 * MIB)
    assert machine.free_mib() == 8000


def test_the_machine_may_have_less_than_the_group_allows(machine: Machine) -> None:
    machine.process("0::/app\n", available_mib=50)
    machine.v2("app", limit=1000 * MIB, used=0)
    assert machine.free_mib() == 50


def test_version_1_reads_its_own_files(machine: Machine) -> None:
    machine.process("5:cpu,cpuacct:/x\n4:hugetlb,memory:/docker/app\n1:name=systemd:/y\n")
    machine.v1("docker/app", limit=1000 * MIB, used=700 * MIB, inactive=100 * MIB)
    machine.v1("", limit=NO_LIMIT_V1, used=5000 * MIB)
    assert machine.free_mib() == 400


def test_version_1_without_a_limit_leaves_the_machine_to_decide(machine: Machine) -> None:
    machine.process("4:memory:/\n")
    machine.v1("", limit=NO_LIMIT_V1, used=5000 * MIB)
    assert machine.free_mib() == 8000


def test_version_1_in_a_container_that_shows_the_hosts_path(machine: Machine) -> None:
    machine.process("4:memory:/docker/0123abcd\n")
    machine.v1("", limit=600 * MIB, used=100 * MIB)
    assert machine.free_mib() == 500


def test_both_versions_at_once_are_both_heeded(machine: Machine) -> None:
    machine.process("4:memory:/a\n0::/b\n")
    machine.v1("a", limit=900 * MIB, used=0)
    machine.v2("unified/b", limit=700 * MIB, used=0)
    assert machine.free_mib() == 700


def test_without_groups_the_machine_decides(machine: Machine) -> None:
    machine.process("")
    assert machine.free_mib() == 8000


def test_an_explicit_limit_is_lessened_by_what_the_process_takes(machine: Machine) -> None:
    machine.process("0::/app\n", resident_mib=120)
    machine.v2("app", limit=1000 * MIB, used=0)
    assert machine.free_mib(limit_bytes=500 * MIB) == 380
    assert machine.free_mib(limit_bytes=5000 * MIB) == 1000


def test_free_memory_is_never_negative(machine: Machine) -> None:
    machine.process("0::/app\n", resident_mib=120)
    machine.v2("app", limit=100 * MIB, used=200 * MIB)
    assert machine.free_mib() == 0
    assert machine.free_mib(limit_bytes=MIB) == 0


@pytest.mark.parametrize("garbage", ["", "-5", "lots", "1e9", "0x10", "1 2", "9" * 5000, "²"])
def test_garbage_is_no_limit(machine: Machine, garbage: str) -> None:
    machine.process("0::/app\nnonsense\n:::\n")
    machine.v2("app", limit=garbage, used=0)
    assert machine.free_mib() == 8000
    machine.v2("app", limit=100, used=garbage)
    assert machine.free_mib() == 8000


def test_a_group_without_statistics_counts_all_its_pages(machine: Machine) -> None:
    machine.process("0::/app\n")
    machine.v2("app", limit=1000 * MIB, used=700 * MIB, inactive=200 * MIB)
    (machine.root / "app/memory.stat").write_bytes(b"\xff\xfe inactive_file\ninactive_file many\n")
    assert machine.free_mib() == 300


def test_limits_are_read_again_each_time(machine: Machine) -> None:
    machine.process("0::/app\n")
    machine.v2("app", limit=1000 * MIB, used=0)
    probe = CgroupMemory(machine.root, machine.proc)
    assert probe.free_bytes() == 1000 * MIB
    machine.v2("app", limit=2000 * MIB, used=0)
    assert probe.free_bytes() == 2000 * MIB


def test_without_readable_limits_the_error_names_the_setting(machine: Machine) -> None:
    with pytest.raises(Unavailable, match="set limit_bytes"):
        machine.free_mib()


def test_an_explicit_limit_is_enough_without_readable_limits(machine: Machine) -> None:
    assert 0 < machine.free_mib(limit_bytes=1 << 50) < 1 << 30


@pytest.mark.parametrize("limit_bytes", [0, -1])
def test_a_limit_that_allows_nothing_is_rejected(limit_bytes: int) -> None:
    with pytest.raises(Invalid, match="limit_bytes must be more than 0"):
        CgroupMemory(limit_bytes=limit_bytes)
