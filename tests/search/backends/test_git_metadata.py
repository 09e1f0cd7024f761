"""The name of a repository, and the web addresses of its files."""

from pathlib import Path

import pytest

from argosy.search.backends.git import GitSource
from argosy.search.backends.git_metadata import Remote, remote_of, repository_from_config, url_templates
from argosy.search.model import Repository
from tests.search.backends.repositories import Repo

HUB = "https://github.com/o/r"


@pytest.mark.parametrize(
    ("text", "remote"),
    [
        ("https://github.com/o/r.git", Remote("github.com/o/r", HUB, "github")),
        ("https://github.com/o/r/", Remote("github.com/o/r", HUB, "github")),
        ("git@github.com:o/r.git", Remote("github.com/o/r", HUB, "github")),
        ("ssh://git@github.com:22/o/r.git", Remote("github.com/o/r", HUB, "github")),
        ("git://github.com/o/r", Remote("github.com/o/r", HUB, "github")),
        ("https://me:secret@gitlab.example.com:8443/a/b/c.git",
         Remote("gitlab.example.com:8443/a/b/c", "https://gitlab.example.com:8443/a/b/c", "gitlab")),
        ("http://gitea.local/o/r", Remote("gitea.local/o/r", "http://gitea.local/o/r", "gitea")),
        ("https://bitbucket.org/o/r.git", Remote("bitbucket.org/o/r", "https://bitbucket.org/o/r", "bitbucket-cloud")),
        ("https://x.googlesource.com/y", Remote("x.googlesource.com/y", "https://x.googlesource.com/y", "gitiles")),
        ("https://git.kernel.org/pub/linux.git",
         Remote("git.kernel.org/pub/linux", "https://git.kernel.org/pub/linux.git", "cgit")),
        ("https://example.com/r.git", Remote("example.com/r", "https://example.com/r", "")),
        ("ssh://git@[::1]/r", Remote("[::1]/r", "https://[::1]/r", "")),
    ],
)  # fmt: skip
def test_the_url_of_a_remote_gives_its_name_and_its_page(text: str, remote: Remote) -> None:
    assert remote_of(text) == remote


@pytest.mark.parametrize(
    "text",
    ["", "../other", "/srv/r.git", "./a:b", "file:///srv/r.git", "https://", "https://h:port/x", "https://[::1/x", "r"],
)
def test_an_unknown_url_gives_no_name(text: str) -> None:
    assert remote_of(text) == Remote()


def joined(*words: str) -> str:
    return "{{" + " ".join(["URLJoinPath", '"U"', *words]) + "}}"


COMMIT = joined('"commit"', ".Version")


@pytest.mark.parametrize(
    ("kind", "file", "commit", "line"),
    [
        ("github", joined('"blob"', ".Version", ".Path"), COMMIT, "#L{{.LineNumber}}"),
        ("gitlab", joined('"-/blob"', ".Version", ".Path"), joined('"-/commit"', ".Version"), "#L{{.LineNumber}}"),
        ("gitea", joined('"src/commit"', ".Version", ".Path") + "?display=source", COMMIT, "#L{{.LineNumber}}"),
        ("gitiles", joined('"+"', ".Version", ".Path"), joined('"+"', ".Version"), "#{{.LineNumber}}"),
        ("cgit", joined('"tree"', ".Path") + "/?id={{.Version}}", joined('"commit"') + "/?id={{.Version}}",
         "#n{{.LineNumber}}"),
        ("gitweb", "U;a=blob;f={{.Path}};hb={{.Version}}", "U;a=commit;h={{.Version}}", "#l{{.LineNumber}}"),
        ("bitbucket-server", joined('"browse"', ".Path") + "?at={{.Version}}", joined('"commits"', ".Version"),
         "#{{.LineNumber}}"),
        ("bitbucket-cloud", joined('"src"', ".Version", ".Path"), joined('"commits"', ".Version"),
         "#lines-{{.LineNumber}}"),
        ("azuredevops", "U?path={{.Path}}&version=GC{{.Version}}", COMMIT,
         "&line={{.LineNumber}}&lineEnd={{.LineNumber}}&lineStartColumn=1&lineEndColumn=200"),
        ("source-barn", "", "", ""),
    ],
)  # fmt: skip
def test_every_host_has_its_way_to_write_addresses(kind: str, file: str, commit: str, line: str) -> None:
    found = url_templates(kind, "U")
    assert (found.file, found.commit, found.line) == (file, commit, line)


def test_an_address_cannot_break_out_of_its_template() -> None:
    assert url_templates("github", 'h"}}\\').file == '{{URLJoinPath "h\\"}}\\\\" "blob" .Version .Path}}'


def test_a_page_that_ends_in_browse_is_the_same_repository() -> None:
    assert url_templates("bitbucket-server", "U/browse") == url_templates("bitbucket-server", "U")


def of(config: dict[str, str], *, latest_commit_s: float = 0.0) -> Repository:
    return repository_from_config(config, path="/srv/r.git", name="r", latest_commit_s=latest_commit_s)


def test_the_section_of_zoekts_mirrors_comes_first() -> None:
    repository = of(
        {
            "remote.origin.url": HUB,
            "zoekt.name": "mine",
            "zoekt.repoid": "7",
            "zoekt.priority": "5000",
            "zoekt.public": "1",
            "zoekt.fork": "0",
            "zoekt.archived": "true",
            "zoekt.github-stars": "12",
            "zoekt.web-url": "https://me:pw@git.example.com/cgit/r",
            "zoekt.web-url-type": "cgit",
        }
    )
    assert (repository.name, repository.id, repository.rank) == ("mine", 7, 32767)
    assert repository.flags == {"archived": True, "fork": False, "public": True}
    assert repository.url == "https://git.example.com/cgit/r"
    assert repository.line_fragment_template == "#n{{.LineNumber}}"
    assert repository.metadata == {"github-stars": "12", "priority": "5000"}


def test_without_any_setting_the_folder_gives_the_name() -> None:
    assert of({}) == Repository("r", source="/srv/r.git")


@pytest.mark.parametrize(
    ("settings", "rank"),
    [
        ({"priority": "0"}, 0),
        ({"priority": "-3"}, 0),
        ({"priority": "much"}, 0),
        ({"priority": "nan"}, 0),
        ({"priority": "inf"}, 0),
        ({"priority": "1e300"}, 65535),
        ({"latestcommitdate": "1", "priority": "9"}, 12 * 50),
    ],
)
def test_a_rank_is_made_of_the_priority_or_of_the_date(settings: dict[str, str], rank: int) -> None:
    fifty_years_s = 50.01 * 365.2425 * 86_400
    config = {f"zoekt.{name}": value for name, value in settings.items()}
    assert of(config, latest_commit_s=fifty_years_s).rank == rank


@pytest.mark.parametrize("text", ["", "x", "-1", "4294967296", "9" * 5000, "²"])
def test_an_id_that_is_no_number_counts_as_none(text: str) -> None:
    assert of({"zoekt.repoid": text}).id == 0


def test_a_repository_has_its_own_metadata(repo: Repo) -> None:
    repo.commit({"a": b"a"}, when_s=1_600_000_000)
    repo.git("branch", "older")
    repo.commit({"a": b"b"}, when_s=1_650_000_000)
    repo.git("remote", "add", "origin", "https://token@github.com/o/r.git")
    repo.git("config", "zoekt.repoid", "42")
    repo.git("config", "zoekt.lines", "one\ntwo = 2")
    with (repo.path / ".git/config").open("a") as config:
        config.write("[zoekt]\n\tpublic\n")
    repository = GitSource(str(repo.path), ("older", "main")).repository
    assert (repository.name, repository.id, repository.url) == ("github.com/o/r", 42, HUB)
    assert repository.latest_commit_s == 1_650_000_000
    assert repository.flags == {"public": True}
    assert repository.metadata == {"lines": "one\ntwo = 2"}
    assert repository.source == str(repo.path)


def test_a_folder_names_its_repository_however_it_is_reached(repo: Repo, tmp_path: Path) -> None:
    repo.commit({"sub/a": b"a"})
    bare = repo.clone(tmp_path / "copy.git", "--bare")
    bare.git("remote", "remove", "origin")
    repo.git("worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    places = [repo.path, repo.path / ".git", repo.path / "sub", tmp_path / "linked", bare.path]
    assert [GitSource(str(place)).repository.name for place in places] == ["repo", "repo", "repo", "repo", "copy"]
