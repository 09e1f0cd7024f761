"""Policy: which peers may publish and provide.

`allow` with its exceptions decides who may be a publisher or provider at all, `publish` with its exceptions who may
publish for another provider, unless there are rules for that provider. Everyone may publish for themselves. Decisions
made by an operator at run time override the settings and last until the process ends.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from argosy.base.errors import Forbidden
from argosy.ipni.settings import IndexerSettings


@dataclass(frozen=True)
class Rule:
    """A default and the peers for which the opposite holds."""

    is_allowed: bool = True
    exceptions: frozenset[str] = frozenset()

    def allows(self, peer: str) -> bool:
        return self.is_allowed != (peer in self.exceptions)


@dataclass
class PeerPolicy:
    """The rules in force."""

    peers: Rule = field(default_factory=Rule)
    publishing: Rule = field(default_factory=Rule)
    publishing_for: Mapping[str, Rule] = field(default_factory=dict)
    _decided: dict[str, bool] = field(default_factory=dict)

    def allow(self, peer: str) -> None:
        self._decided[peer] = True

    def block(self, peer: str) -> None:
        self._decided[peer] = False

    def is_allowed(self, peer: str) -> bool:
        # The operator's decision first: blocking a peer during an incident must work whatever the file says.
        return self._decided.get(peer, self.peers.allows(peer))

    def may_publish(self, publisher: str, provider: str) -> bool:
        rule = self.publishing_for.get(provider, self.publishing)
        return publisher == provider or rule.allows(publisher)  # publishing for oneself cannot be forbidden here

    def check(self, publisher: str, provider: str | None = None) -> None:
        """Raises Forbidden unless the publisher may publish here, and for the provider."""
        # Both: a blocked provider must not come back through another publisher's chain.
        for peer in (publisher, provider):
            if peer is not None and not self.is_allowed(peer):
                raise Forbidden(f"peer {peer} is not allowed by policy")
        if provider is not None and not self.may_publish(publisher, provider):
            raise Forbidden(f"publisher {publisher} is not allowed to publish for provider {provider}")

    def change(self, settings: IndexerSettings) -> None:
        """Applies other settings; run-time decisions stay."""
        self.peers, self.publishing, self.publishing_for = _rules(settings)


def policy_of(settings: IndexerSettings) -> PeerPolicy:
    return PeerPolicy(*_rules(settings))


def _rules(settings: IndexerSettings) -> tuple[Rule, Rule, Mapping[str, Rule]]:
    return (
        Rule(settings.allow, frozenset(settings.allow_except)),
        Rule(settings.publish, frozenset(settings.publish_except)),
        _rules_for(settings.publishers_for),
    )


def _rules_for(texts: Iterable[str]) -> dict[str, Rule]:
    """A provider with an allowing rule is closed to all others; one with only `!` rules is open to the rest."""
    named: dict[str, set[str]] = {}
    excluded: dict[str, set[str]] = {}
    for text in texts:
        provider, _, publisher = text.partition("=")
        if publisher.startswith("!"):
            excluded.setdefault(provider, set()).add(publisher[1:])
        else:
            named.setdefault(provider, set()).add(publisher)
    open_rules = {id: Rule(True, frozenset(peers)) for id, peers in excluded.items()}
    closed = {id: Rule(False, frozenset(peers - excluded.get(id, set()))) for id, peers in named.items()}
    return open_rules | closed
