"""The one conversion from a catalog row to the spec that nodes work by, and to the unit that ownership assigns."""

from argosy.ownership.model import UnitSpec
from argosy.registry.rows import RepositoryRow
from argosy.search.fleet.model import RepoSpec


def spec_from_row(row: RepositoryRow) -> RepoSpec:
    return RepoSpec(
        name=row.repo_id,
        url=row.url,
        branches=row.branches,
        is_pinned=row.is_pinned,
        footprint_bytes=row.footprint_bytes,
        replicas=row.replicas,
        max_bids=row.max_bids,
        reindex_requested_at=row.reindex_requested_at,
        pushed_at=row.pushed_at,
        last_commit=row.last_commit,
        last_indexed_at=row.last_indexed_at,
        failures=row.failures,
        last_error=row.last_error,
        last_failed_at=row.last_failed_at,
    )


def unit_from_spec(spec: RepoSpec) -> UnitSpec:
    return UnitSpec(spec.name, footprint_of(spec), spec.max_bids, spec.replicas)


def footprint_of(spec: RepoSpec) -> int | None:
    """The memory of the last index; None, which any node may bid for, while a reindex is requested.

    A repository that fits on no node would otherwise stay unowned for ever, even after it has shrunk.
    """
    is_requested = (spec.reindex_requested_at or 0) > (spec.last_indexed_at or 0)
    return None if is_requested else spec.footprint_bytes
