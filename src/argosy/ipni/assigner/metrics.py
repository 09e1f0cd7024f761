"""What the assigner measures."""

from argosy.base.metrics import counter, gauge

ANNOUNCES = counter(
    "argosy_assigner_announces",
    "announcements received, by outcome: taken, repeated, forbidden, turned away",
    ("outcome",),
)
REQUESTS = counter(
    "argosy_assigner_requests",
    "requests to take a publisher, by kind (assign, handoff) and outcome (accepted, refused, lost)",
    ("kind", "outcome"),
)
DELIVERIES = counter("argosy_assigner_deliveries", "announcements passed on, by outcome: sent, failed", ("outcome",))
INDEXERS = gauge("argosy_assigner_indexers", "indexers of the pool by state: active, frozen, unknown", ("state",))
ASSIGNMENTS = gauge("argosy_assigner_assignments", "publishers that one indexer follows", ("indexer",))
OWED = gauge("argosy_assigner_handoffs_owed", "publishers of frozen indexers that are still to be handed on")
WAITING = gauge("argosy_assigner_publishers_waiting", "announced publishers that too few indexers hold so far")
POLLS = counter("argosy_assigner_polls", "rounds of questions to the pool")
RELOADS = counter(
    "argosy_assigner_reloads", "changes of the pool's configuration, by outcome: taken, refused", ("outcome",)
)
