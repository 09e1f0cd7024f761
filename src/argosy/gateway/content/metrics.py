"""What the content index's front door measures."""

from argosy.base.metrics import counter, gauge, histogram

FIND_SECONDS = histogram(
    "argosy_content_find_seconds",
    "how long finds took, by the way they were asked and what came of them: yes, no, unknown",
    labels=("surface", "found"),
)
FINDS_IN_FLIGHT = gauge("argosy_content_in_flight", "finds that are with indexers just now")
INCOMPLETE = counter("argosy_content_incomplete", "answers that lacked an indexer's part")
SOURCES = counter("argosy_content_cache", "finds by where their answer came from: cache, shared, backends", ("source",))
BACKENDS = gauge("argosy_content_backends", "indexers that are asked")
QUESTIONS = counter("argosy_content_questions", "questions put to indexers, by how they ended", ("backend", "outcome"))
BACKEND_SECONDS = histogram(
    "argosy_content_backend_seconds", "how long indexers took to answer, or to begin a stream", labels=("backend",)
)
RECORDS = counter("argosy_content_records", "records that indexers answered with", ("backend",))
MALFORMED = counter("argosy_content_malformed", "lines of indexers that could not be read", ("backend",))
BREAKER = gauge(
    "argosy_content_breaker", "whether an indexer is left alone: 0 no, 0.5 being tried again, 1 yes", ("backend",)
)
