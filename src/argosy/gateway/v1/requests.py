"""Requests of the v1 API as structs: fields are parameters, and their bounds are checked while decoding."""

from collections.abc import Iterable
from enum import Enum, EnumType
from typing import Annotated, TypeVar, cast, get_args

import msgspec

from argosy.base.errors import Invalid
from argosy.search.model import Form, Options
from argosy.search.query import COUNT_ALL, ParsedQuery, PatternType

FILES_MAX = 10_000
MATCHES_MAX = 1_000_000
CONTEXT_LINES_MAX = 100
LINE_BYTES_MAX = 1 << 20
TIMEOUT_S_MAX = 120.0
REPOSITORIES_MAX = 10_000
NAME_CHARS_MAX = 1_000
PATH_CHARS_MAX = 4_096

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_CHARS_MAX)]
_Path = Annotated[str, msgspec.Meta(max_length=PATH_CHARS_MAX)]
_Matches = Annotated[int, msgspec.Meta(ge=0, le=MATCHES_MAX)]
_T = TypeVar("_T", bound=msgspec.Struct)


class SearchParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A search. Zero means no limit, except for `context`, and for `files`, of which there are 10,000 at most."""

    q: Annotated[str, msgspec.Meta(min_length=1, description="the query; see the page on the query language")]
    files: Annotated[int, msgspec.Meta(ge=0, le=FILES_MAX, description="files shown")] = 50
    matches: _Matches = 0
    file_matches: _Matches = 0
    index_match_limit: Annotated[
        int, msgspec.Meta(ge=0, le=MATCHES_MAX, description="stop searching a repository after this many matches")
    ] = 100_000
    total_match_limit: _Matches = 0
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=TIMEOUT_S_MAX, description="then return what was found")] = 20.0
    context: Annotated[int, msgspec.Meta(ge=0, le=CONTEXT_LINES_MAX, description="lines around each match")] = 0
    form: Form = Form.CHUNKS
    content: Annotated[bool, msgspec.Meta(description="the whole text of every file")] = False
    line_bytes: Annotated[int, msgspec.Meta(ge=0, le=LINE_BYTES_MAX, description="longer lines are clipped")] = 2_000
    patterns: Annotated[PatternType, msgspec.Meta(description="syntax of words without a prefix")] = PatternType.REGEX
    bm25: Annotated[bool, msgspec.Meta(description="rank by term frequency instead")] = False
    explain: Annotated[bool, msgspec.Meta(description="explain scores")] = False
    repositories: Annotated[
        Annotated[list[_Name], msgspec.Meta(max_length=REPOSITORIES_MAX)] | None,
        msgspec.Meta(description="search only these repositories, by name"),
    ] = None


class RepositoriesParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A page of the repository list, ordered by name."""

    name: Annotated[str, msgspec.Meta(max_length=NAME_CHARS_MAX, description="part of the name")] = ""
    state: Annotated[str, msgspec.Meta(max_length=20, description="only those in this state")] = ""
    after: Annotated[str, msgspec.Meta(max_length=NAME_CHARS_MAX, description="the last name of the page before")] = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=REPOSITORIES_MAX)] = 1_000


class FileParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of a repository; `raw` returns only its bytes."""

    path: Annotated[str, msgspec.Meta(min_length=1, max_length=PATH_CHARS_MAX)]
    branch: Annotated[str, msgspec.Meta(max_length=NAME_CHARS_MAX, description="default: the first branch")] = ""
    raw: bool = False


class FolderParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A folder of a repository; an empty path is the top."""

    path: _Path = ""
    branch: Annotated[str, msgspec.Meta(max_length=NAME_CHARS_MAX, description="default: the first branch")] = ""


class AddRepositoryRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A repository to add to the catalog."""

    url: Annotated[str, msgspec.Meta(min_length=1, max_length=2_000)]
    name: Annotated[str, msgspec.Meta(max_length=NAME_CHARS_MAX, description="default: host and path of the URL")] = ""
    branches: Annotated[list[_Name], msgspec.Meta(max_length=64, description="none: the origin's HEAD")] = []
    pinned: Annotated[bool, msgspec.Meta(description="never evicted from memory")] = False
    replicas: Annotated[int, msgspec.Meta(ge=0, le=8, description="nodes that hold it besides the first")] = 0
    max_bids: Annotated[int, msgspec.Meta(ge=1, le=100)] | None = None


def from_body(body: bytes, wanted: type[_T]) -> _T:
    """Decode a JSON body; raises Invalid with the field."""
    try:
        return msgspec.json.decode(body, type=wanted)
    except RecursionError:
        raise Invalid("invalid body: JSON nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"invalid body: {_error_text(error, wanted)}") from None


def from_parameters(given: Iterable[tuple[str, str]], wanted: type[_T]) -> _T:
    """Decode query parameters. A list parameter is repeated; other parameters must not be."""
    lists = {"repositories"} & {field.name for field in msgspec.structs.fields(wanted)}
    found: dict[str, object] = {}
    for name, value in given:
        if name in lists:
            values = found.setdefault(name, [])
            assert isinstance(values, list)
            values.append(value)
        elif name in found:
            raise Invalid(f"duplicate parameter {name[:NAME_CHARS_MAX]!r}")
        else:
            found[name] = value
    try:
        return msgspec.convert(found, wanted, strict=False)
    except msgspec.ValidationError as error:
        raise Invalid(f"invalid parameter: {_error_text(error, wanted)}") from None


def _error_text(error: Exception, wanted: type[msgspec.Struct]) -> str:
    """The error message; for an invalid enum value with the valid ones."""
    text = str(error)
    for field in msgspec.structs.fields(wanted):
        # The message of msgspec does not name the valid values.
        if "enum" in text and text.endswith(f"`$.{field.name}`"):
            kinds = [each for each in (field.type, *get_args(field.type)) if isinstance(each, EnumType)]
            values = [str(each.value) for kind in kinds for each in cast(type[Enum], kind)]
            text += f"; use one of {', '.join(values)}"
    return text


def options_of(params: SearchParams, parsed: ParsedQuery) -> Options:
    """`count:` in the query overrides the parameter: the user typed it, while a program filled in the parameter."""
    is_all = parsed.count == COUNT_ALL
    return Options(
        # 0 means no limit to the engine, and the API's maximum here.
        files_max=min((params.files if parsed.count is None else parsed.count) or FILES_MAX, FILES_MAX),
        matches_max=params.matches,
        file_matches_max=params.file_matches,
        index_match_limit=0 if is_all else params.index_match_limit,
        total_match_limit=0 if is_all else params.total_match_limit,
        wall_time_s=params.timeout_s,
        context_lines=params.context,
        form=params.form,
        with_content=params.content,
        use_bm25=params.bm25,
        line_bytes_max=params.line_bytes,
        explain_scores=params.explain,
    )
