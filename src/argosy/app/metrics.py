"""What a search node's publisher measures."""

from argosy.base.metrics import counter, gauge

ADVERTS = counter("argosy_adverts", "advertisements of repositories: published, removed, failed", ("outcome",))
ADVERTS_WAITING = gauge("argosy_adverts_waiting", "repositories indexed or dropped that are not yet advertised so")
ADVERTISED = gauge("argosy_advertised", "repositories whose files this node offers by their content")
ANNOUNCED = counter("argosy_adverts_announced", "heads told to indexers and assigners: taken, failed", ("outcome",))
