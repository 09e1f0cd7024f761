"""The results of one process with all repositories in its index set, for comparison with a fleet's responses.

A repository has a history: the commits it has been at, and None while it is not in the catalog. While a change
propagates, responses may be of before or after it; a client that sends requests one after the other never sees an
older state again.

An incremental build orders files differently from a full one, which decides between equal matches. Both orders are
valid.
"""

import asyncio
import itertools
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from argosy.gateway.v1 import responses
from argosy.gateway.v1.requests import SearchParams, options_of
from argosy.search.backends.remote import RemoteFetcher
from argosy.search.fleet.model import RepoSpec
from argosy.search.index.build import build
from argosy.search.index.index import Index
from argosy.search.index_set import IndexSet
from argosy.search.model import MissingReason, Options, SearchResult
from argosy.search.query import parse
from argosy.search.settings import FetchSettings
from argosy.search.skip_policy import Policy

FILES_SHOWN = {"bosun or keel -file:md": 5}  # the others without a limit
WHYS = {why.value for why in MissingReason}
State = tuple[tuple[str, int, int], ...]  # repository, position in its history, index variant there


class Oracle:
    """Indexes of every version of every repository, and their combined results."""

    def __init__(self, folder: Path) -> None:
        self._fetcher = RemoteFetcher(FetchSettings(dir=str(folder), allow_local=True))
        self._history: dict[str, list[tuple[Index, ...] | None]] = {}
        self._results: dict[tuple[str, State], tuple[Any, ...]] = {}

    def learn(self, name: str, path: Path) -> None:
        """Append the repository's current commit to its history."""
        history = self._history.setdefault(name, [])
        before = (history[-1] or ()) if history else ()
        spec = RepoSpec(name, str(path), ("main",))
        history.append(tuple(asyncio.run(self._build_index(spec, previous)) for previous in (None, *before)))

    def drop(self, name: str) -> None:
        self._history[name].append(None)

    def settle(self) -> None:
        """Drop old versions: from now on only the newest are valid."""
        newest = {name: history[-1] for name, history in self._history.items()}
        self._history = {name: [indexes] for name, indexes in newest.items() if indexes is not None}
        self._results.clear()

    def index(self, name: str) -> Index:
        """The index of the repository's newest version."""
        indexes = self._history[name][-1]
        assert indexes is not None, f"{name} was dropped"
        return indexes[0]

    def newest(self, name: str) -> str:
        """The newest commit."""
        return self.index(name).repository.branches[0].version

    def matching(self, query: str, body: Mapping[str, Any]) -> list[dict[str, int]]:
        """All combined states for which this response is correct, as history positions by name."""
        missing = {each["repository"] for each in body["missing"]}
        shown = (_files(body["files"]), body["stats"]["files"], body["stats"]["matches"], body["limits_hit"])
        choices = [self._choices(name) for name in sorted(self._history) if name not in missing]
        return [
            {name: place for name, place, _ in state}
            for state in itertools.product(*choices)
            if self._search_state(query, state) == shown
        ]

    def _choices(self, name: str) -> State:
        return tuple(
            (name, place, number)
            for place, indexes in enumerate(self._history[name])
            for number in range(1 if indexes is None else len(indexes))
        )

    def _search_state(self, query: str, state: State) -> tuple[Any, ...]:
        """Files, their number, the number of matches and the limits hit."""
        if (query, state) not in self._results:
            versions = ((self._history[name][place], number) for name, place, number in state)
            index_set = IndexSet((indexes[number] for indexes, number in versions if indexes is not None), threads=1)
            try:
                answer = index_set.search_now(parse(query).query, options(query))
            finally:
                index_set.close()
            self._results[query, state] = summary_of(answer)
        return self._results[query, state]

    async def _build_index(self, spec: RepoSpec, previous: Index | None) -> Index:
        async with self._fetcher.fetch(spec) as source:
            return build(source, Policy(), previous=previous)


def search_body(query: str) -> dict[str, Any]:
    return {"q": query, "files": FILES_SHOWN.get(query, 0)}


def options(query: str) -> Options:
    params = msgspec.convert(search_body(query), SearchParams)
    return options_of(params, parse(query))


def find_violations(
    oracle: Oracle, answers: Iterable[tuple[str, Mapping[str, Any]]], *, are_cached: bool = False
) -> list[str]:
    """The violations in the responses one client received, in order.

    A gateway with a cache may serve an older response to one query than to another; each query only moves forward.
    """
    known: dict[str, dict[str, int]] = defaultdict(dict)
    wrong = []
    for query, body in answers:
        if body["complete"] != (not body["missing"] and not body["limits_hit"]):
            wrong.append(f"{query!r} has a wrong value of 'complete'")
        if any(each["why"] not in WHYS or not each["detail"] for each in body["missing"]):
            wrong.append(f"{query!r} has missing repositories without a valid reason: {body['missing']}")
        states, least = oracle.matching(query, body), known[query if are_cached else ""]
        possible = [state for state in states if all(place >= least.get(name, 0) for name, place in state.items())]
        if not possible:
            what = "goes back in time" if states else "matches no version"
            wrong.append(f"{query!r} {what}: {json.dumps(body)[:2000]}")
            continue
        for name in possible[0]:
            least[name] = max(least.get(name, 0), min(state[name] for state in possible))
    return wrong


def summary_of(answer: SearchResult) -> tuple[Any, ...]:
    files = json.loads(msgspec.json.encode(responses.files_of(answer)))
    return _files(files), answer.stats.files, answer.stats.matches, [each.value for each in answer.limits_hit]


def _files(files: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without `url`, which only a fleet sets."""
    return [{key: value for key, value in file.items() if key != "url"} for file in files]
