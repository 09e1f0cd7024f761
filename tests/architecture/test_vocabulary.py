"""One vocabulary: former names do not come back, functions are verbs or nouns, a class name is defined once.

The lists contain what was replaced, so a hit has a better word: CONTRIBUTING.md, "Names" and "Language".
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT, SOURCE, location, parse, source_modules, text_files

# Class names of the past, each with several meanings or none that a reader knows from the field.
FORMER_CLASSES = frozenset(
    """
    Accounting Advert Agenda Anchor Announcer AsgiCall Asked Asker Assembly AtHand AuctionHouse BidReceipt Book Bundle
    CatalogClient CatalogDesk Checked Chooser Chosen ClauseAnchor Contacts Course Desk Door FairDoor FarNodes Figures
    FileAsked FileWanted Finder Findings Finds Finite FolderAsked FrontDoor Gained GatedShard Gathering GivenBack
    GroupLedger Herald HotFind JobWish Judged Keeper Kept KeyspaceFront Lack Lanes Leaver Ledger LetGoAnswered Library
    ListAsked LiteralFinder Look LookFailed Looked Lost Machine Maker Making MapClient MapStore Marks NearAndFar Needs
    Onlooker OpenDoor Outlined OwnRows Patience Picture Promise PromiseTiming PushHeard QueryFront Question QuotaDoor
    Reached RegexFinder RepositoryWish Roll Roster RowMark Ruling RunAnchor Scattered SearchAsked SearchReply Seat
    ServedChain ShardWorker Shelf Shelved Shortfall Shortlist SimWishes SplitWish Standing SteadyWall StoreFigures
    Surroundings Survey Tell Teller TextsFinder Together Told Turns Upkeep Visit Volume WaitedShard Wanted Wish WishList
    WishReader Wishes Workshop WsgiCall
    """.split()  # noqa: SIM905 - a list of words reads better than 100 quoted strings
)
# Words of speech and wishing: each stood for ten actions (deliver, format, record, request, parse, …).
VAGUE_VERBS = frozenset(
    """
    ask asked heard hear hurry look looked looks said say says tell tells telling told wish wished wishes
    wishing
    """.split()  # noqa: SIM905 - a list of words reads better than 100 quoted strings
)
# Names in which such a word is the field's own or an outside interface's.
VAGUE_VERBS_ALLOWED = {"lookahead", "lookbehind", "lookup"}
# Participles that do not end in -ed.
IRREGULAR = frozenset(
    """
    begun bound brought built chosen done drawn found given gone grown heard held kept known left led lost made met paid
    said seen sent shown spelt split taken thrown told understood written
    """.split()  # noqa: SIM905 - a list of words reads better than 100 quoted strings
)
# An adjective before a noun names a value (`held_bytes`); alone or before a preposition, a participle hides an action.
PREPOSITIONS = frozenset("again as at away back by for from in of off on or out over to".split())  # noqa: SIM905
NO_PARTICIPLES = frozenset("bed embed exceed feed need proceed red seed shed speed split succeed".split())  # noqa: SIM905
# Implemented for others, under the name that they call.
FOREIGN_NAMES: set[str] = set()

# A name that two classes share on purpose: module -> the term both belong to.
SHARED_CLASS_NAMES: set[str] = set()

# Phrases of the former voice, as they stood in messages and pages.
FORMER_PHRASES = re.compile(
    r"\b(wished[- ]for|(is|are|be|was) told|tells? (of|the)|anew|whoever|somebody|nobody|by remedy|front door|"
    r"left alone|called off|heirs?|mend(s|ed|ing)?|is away|when it hurts|in good order|the house|storeys?|lest|"
    r"of its own accord|begun|goes by the|comes? round|says? nothing|asks? again|nothing is in charge|who may pass)\b",
    re.IGNORECASE,
)
PAGES = [
    path for path, _ in text_files() if path.suffix == ".md" and path.name != "CHANGELOG.md"
]  # it lists former names


def definitions(kind: type[ast.AST] | tuple[type[ast.AST], ...]) -> Iterator[tuple[Path, ast.AST]]:
    for path in source_modules():
        for node in ast.walk(parse(path)):
            if isinstance(node, kind):
                yield path, node


def function_definitions() -> Iterator[tuple[str, str]]:
    for path, node in definitions((ast.FunctionDef, ast.AsyncFunctionDef)):
        yield node.name, location(path, node.lineno)  # type: ignore[attr-defined]


def words_of(name: str) -> list[str]:
    """The words of a snake_case or CamelCase name, lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)]


def is_participle(word: str) -> bool:
    return word in IRREGULAR or (word.endswith("ed") and word not in NO_PARTICIPLES)


def hides_an_action(name: str) -> bool:
    """`_told`, `merged`, `handed_on`, `kept_or`; not `held_bytes`, `merge_results`."""
    first, *rest = words_of(name) or [""]
    return is_participle(first) and first not in NO_PARTICIPLES and (not rest or rest[0] in PREPOSITIONS)


def test_former_class_names_do_not_come_back() -> None:
    found = [f"{location(path, node.lineno)} {node.name}" for path, node in definitions(ast.ClassDef)]  # type: ignore[attr-defined]
    assert [each for each in found if each.rpartition(" ")[2].lstrip("_") in FORMER_CLASSES] == []


def test_a_class_name_is_defined_once() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path, node in definitions(ast.ClassDef):
        if not node.name.startswith("_"):  # type: ignore[attr-defined]
            places[node.name].append(location(path, node.lineno))  # type: ignore[attr-defined]
    shared = {name: where for name, where in places.items() if len(where) > 1}
    assert {name: where for name, where in shared.items() if name not in SHARED_CLASS_NAMES} == {}
    assert SHARED_CLASS_NAMES - shared.keys() == set(), "take it off the list"


def test_no_function_has_a_participle_for_a_name() -> None:
    found = [f"{where} {name}" for name, where in function_definitions() if hides_an_action(name)]
    assert [each for each in found if each.rpartition(" ")[2] not in FOREIGN_NAMES] == []


def test_no_name_of_a_function_or_class_uses_a_vague_verb() -> None:
    names = [*function_definitions()]
    names += [(node.name, location(path, node.lineno)) for path, node in definitions(ast.ClassDef)]  # type: ignore[attr-defined]
    assert [f"{where} {name}" for name, where in names if VAGUE_VERBS & set(words_of(name))] == []


def test_modules_are_named_for_what_they_contain() -> None:
    gerunds = {path for path in source_modules() if path.stem.endswith("ing") and path.stem not in FIELD_TERMS}
    kinds = {path for path in source_modules() if path.stem in {"teller", "opening", "asking", "telling"}}
    assert sorted(location(path) for path in gerunds | kinds) == []


# Gerunds and -ing nouns that are terms of the field.
FIELD_TERMS = {
    "binding",
    "blocking",
    "ring",
    "tracing",
    "hashing",
    "routing",
    "folding",
    "string",
    "polling",
    "encoding",
}


def test_events_and_effects_are_imported_by_their_names() -> None:
    found = [
        f"{location(path, node.lineno)} {alias.name} as {alias.asname}"  # type: ignore[attr-defined]
        for path, node in definitions((ast.Import, ast.ImportFrom))
        for alias in node.names  # type: ignore[attr-defined]
        if alias.asname in {"saw", "do", "m"}
    ]
    assert found == []


def phrases(text: str) -> Iterator[tuple[int, str]]:
    for match in FORMER_PHRASES.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match.group()


@pytest.mark.parametrize("path", PAGES, ids=location)
def test_pages_are_written_in_plain_english(path: Path) -> None:
    assert [f"{location(path, line)}: {phrase}" for line, phrase in phrases(path.read_text())] == []


def test_code_and_deployment_files_are_written_in_plain_english() -> None:
    """Docstrings, comments, messages, help texts, templates, scripts and values."""
    roots = (SOURCE, ROOT / "deploy", ROOT / "examples", ROOT / "bench", ROOT / "tools")
    files = [
        (path, text)
        for path, text in text_files()
        if any(path.is_relative_to(root) for root in roots) and path.suffix not in {".md", ".svg", ".json"}
    ]
    assert [f"{location(path, line)}: {each}" for path, text in files for line, each in phrases(text)] == []


@pytest.mark.parametrize("name", ["_told", "merged", "handed_on", "kept_or", "asked_again", "_made"])
def test_a_hidden_action_is_found(name: str) -> None:
    assert hides_an_action(name)


@pytest.mark.parametrize("name", ["held_bytes", "merge_results", "need_more", "seeded_random", "required_trigrams"])
def test_a_verb_or_a_noun_is_none(name: str) -> None:
    assert not hides_an_action(name)
