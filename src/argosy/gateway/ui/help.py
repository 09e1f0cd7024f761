"""The query-language help page: every field with its meaning and a clickable example."""

from dataclasses import dataclass

from argosy.search.query.fields import Field


@dataclass(frozen=True, slots=True)
class HelpExample:
    syntax: tuple[str, ...]
    meaning: str
    example: str


# Plain words.
WORDS = (
    HelpExample(("word",), "in the content of a file, or else in its name; a regular expression (RE2)", r"err.*nil"),
    HelpExample(('"two words"',), "with blanks inside quotes", '"func main"'),
    HelpExample(("one two",), "both, anywhere in the file", "lease expired"),
    HelpExample(("one or two",), "either; words side by side bind more tightly", "mutex or semaphore"),
    HelpExample(("-word",), "not", "lease -test"),
    HelpExample(("( … )",), "a group", "(read or write) -cache"),
    HelpExample(("Upper",), "a capital letter makes a word case-sensitive; see case:", "Lease"),
)
MEANINGS = {
    Field.CONTENT: ("only in the content", "content:lease"),
    Field.FILE: ("only in the path of the file", r"file:\.py$"),
    Field.LANGUAGE: ("files of this language, by any of its names", "lang:python"),
    Field.REPO: ("repositories whose name matches; alone it lists them", "repo:."),
    Field.SYMBOL: ("names of definitions", "sym:^parse"),
    Field.BRANCH: ("files on branches whose name holds this; HEAD is the first", "branch:HEAD"),
    Field.CASE: ("yes, no, or auto: a capital letter decides", "case:yes lease"),
    Field.TYPE: ("what to list: filematch, filename or repo", "type:repo lease"),
    Field.COUNT: ("how many files at most, or all", "count:200 lease"),
    Field.PATTERN_TYPE: ("how words are read: regex or literal", "patterntype:literal f(x)"),
    Field.REGEX: ("a regular expression, even where words are literal", "regex:^class"),
    Field.ARCHIVED: ("repositories that are archived, or not", "archived:no repo:."),
    Field.FORK: ("repositories that are forks, or not", "fork:no repo:."),
    Field.PUBLIC: ("repositories that are public, or not", "public:yes repo:."),
    Field.META: ("repositories with such a value in their metadata", "meta.team:search"),
    Field.ALIAS: ("the repository that goes by this other name, too", "alias:old-name"),
}
EXAMPLES = ("sym:main", r"lang:python class\s+\w+Error", "file:README", "repo:. type:repo")


def field_examples() -> tuple[HelpExample, ...]:
    return tuple(
        HelpExample(tuple(f"{name}{field.label[len(field.names[0]) :]}" for name in field.names), meaning, example)
        for field, (meaning, example) in MEANINGS.items()
    )
