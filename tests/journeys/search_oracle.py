"""What one process with all repositories on its shelf says, to hold the answers of a fleet against.

A repository has a history: the commits it has been at, and None for not being in the catalog. While a change is on its
way an answer may be of before or after it; a client that asks one question after the other never sees time go back.

An index that was renewed holds its files in another order than one made at once, which decides between equal matches.
Both are right.
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

FILES_SHOWN = {"bosun or keel -file:md": 5}  # the others are shown whole
WHYS = {why.value for why in MissingReason}
State = tuple[tuple[str, int, int], ...]  # repository, place in its history, which of its indexes there


class Oracle:
    """Indexes of every version of every repository, and what they say together."""

    def __init__(self, folder: Path) -> None:
        self._fetcher = RemoteFetcher(FetchSettings(dir=str(folder), allow_local=True))
        self._history: dict[str, list[tuple[Index, ...] | None]] = {}
        self._said: dict[tuple[str, State], tuple[Any, ...]] = {}

    def learn(self, name: str, path: Path) -> None:
        """The repository as it is now comes after what it was."""
        history = self._history.setdefault(name, [])
        before = (history[-1] or ()) if history else ()
        spec = RepoSpec(name, str(path), ("main",))
        history.append(tuple(asyncio.run(self._indexed(spec, previous)) for previous in (None, *before)))

    def drop(self, name: str) -> None:
        self._history[name].append(None)

    def settle(self) -> None:
        """What was before is past: answers may be of the newest versions only."""
        newest = {name: history[-1] for name, history in self._history.items()}
        self._history = {name: [indexes] for name, indexes in newest.items() if indexes is not None}
        self._said.clear()

    def index(self, name: str) -> Index:
        """Of the repository as it is now."""
        indexes = self._history[name][-1]
        assert indexes is not None, f"{name} was dropped"
        return indexes[0]

    def newest(self, name: str) -> str:
        """The commit it is at."""
        return self.index(name).repository.branches[0].version

    def matching(self, query: str, told: Mapping[str, Any]) -> list[dict[str, int]]:
        """All states of the world in which this answer would be right, as places by name."""
        missing = {each["repository"] for each in told["missing"]}
        shown = (_files(told["files"]), told["stats"]["files"], told["stats"]["matches"], told["limits_hit"])
        choices = [self._choices(name) for name in sorted(self._history) if name not in missing]
        return [
            {name: place for name, place, _ in state}
            for state in itertools.product(*choices)
            if self._says(query, state) == shown
        ]

    def _choices(self, name: str) -> State:
        return tuple(
            (name, place, number)
            for place, indexes in enumerate(self._history[name])
            for number in range(1 if indexes is None else len(indexes))
        )

    def _says(self, query: str, state: State) -> tuple[Any, ...]:
        """Files, their number, the matches' and the bounds met."""
        if (query, state) not in self._said:
            there = ((self._history[name][place], number) for name, place, number in state)
            shelf = IndexSet((indexes[number] for indexes, number in there if indexes is not None), threads=1)
            try:
                answer = shelf.search_now(parse(query).query, options(query))
            finally:
                shelf.close()
            self._said[query, state] = _told(answer)
        return self._said[query, state]

    async def _indexed(self, spec: RepoSpec, previous: Index | None) -> Index:
        async with self._fetcher.fetch(spec) as source:
            return build(source, Policy(), previous=previous)


def question(query: str) -> dict[str, Any]:
    return {"q": query, "files": FILES_SHOWN.get(query, 0)}


def options(query: str) -> Options:
    asked = msgspec.convert(question(query), SearchParams)
    return options_of(asked, parse(query))


def complaints(
    oracle: Oracle, answers: Iterable[tuple[str, Mapping[str, Any]]], *, are_remembered: bool = False
) -> list[str]:
    """What is wrong with the answers that one client got, in their order.

    A front door that remembers answers may give an older one to one query than to another; to each, time goes on.
    """
    known: dict[str, dict[str, int]] = defaultdict(dict)
    wrong = []
    for query, told in answers:
        if told["complete"] != (not told["missing"] and not told["limits_hit"]):
            wrong.append(f"{query!r} is not marked as it should be")
        if any(each["why"] not in WHYS or not each["detail"] for each in told["missing"]):
            wrong.append(f"{query!r} misses repositories and does not say why: {told['missing']}")
        states, least = oracle.matching(query, told), known[query if are_remembered else ""]
        possible = [state for state in states if all(place >= least.get(name, 0) for name, place in state.items())]
        if not possible:
            what = "goes back in time" if states else "is of no time"
            wrong.append(f"{query!r} {what}: {json.dumps(told)[:2000]}")
            continue
        for name in possible[0]:
            least[name] = max(least.get(name, 0), min(state[name] for state in possible))
    return wrong


def _told(answer: SearchResult) -> tuple[Any, ...]:
    files = json.loads(msgspec.json.encode(responses.files_of(answer)))
    return _files(files), answer.stats.files, answer.stats.matches, [each.value for each in answer.limits_hit]


def _files(files: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without their pages, which only a fleet knows."""
    return [{key: value for key, value in file.items() if key != "url"} for file in files]
