"""What a node tells of each repository it works on, made from what its library knows."""

from argosy.search.fleet.held_repo import HeldRepo, Stage
from argosy.search.fleet.index_controller import IndexController
from argosy.search.fleet.model import Phase, RepoStatus

_PHASES = {
    Stage.WAITING: Phase.WAITING,
    Stage.RESTORING: Phase.RECEIVING,
    Stage.RECEIVING: Phase.RECEIVING,
    Stage.FETCHING: Phase.FETCHING,
    Stage.FETCHED: Phase.FETCHING,
    Stage.BUILDING: Phase.INDEXING,
}


def phase_of(volume: HeldRepo) -> Phase:
    if volume.kept is not None:
        return Phase.READY
    return Phase.FAILED if volume.making is None else _PHASES[volume.making.stage]


def status_of(library: IndexController, volume: HeldRepo, progress: float, wall_offset_s: float) -> RepoStatus:
    """`wall_offset_s` is what must be added to the machine's times to have them in seconds since 1970."""
    name, kept, making = volume.name, volume.kept, volume.making
    figures = None if kept is None else kept.figures
    last_at = library.traffic.last_at(name)
    retry_at = library.looks.at(name) if volume.failures else None
    return RepoStatus(
        name=name,
        phase=phase_of(volume),
        replica=volume.unit.replica,
        reason=volume.reason,
        progress=1.0 if kept is not None and making is None else progress,
        is_refreshing=kept is not None and making is not None and making.stage is not Stage.WAITING,
        is_pinned=volume.spec is not None and volume.spec.is_pinned,
        branches=() if figures is None else figures.branches,
        documents=0 if figures is None else figures.documents,
        content_bytes=0 if figures is None else figures.content_bytes,
        memory_bytes=volume.memory_bytes,
        fetch_time_ms=0.0 if figures is None else figures.fetch_time_ms,
        index_time_ms=0.0 if figures is None else figures.index_time_ms,
        claim_latency_s=volume.claim_latency_s,
        indexed_at=0.0 if kept is None else kept.at + wall_offset_s,
        last_served_at=0.0 if last_at is None else last_at + wall_offset_s,
        retry_at=0.0 if retry_at is None else retry_at + wall_offset_s,
        searches=library.traffic.searches(name),
    )
