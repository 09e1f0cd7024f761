"""Links to files and commits at their code host.

URLs and templates are user input, so only http and https URLs become links.
"""

import re

from argosy.gateway.zoekt.templates import evaluated, file_url
from argosy.search.model import Repository

_WEB = re.compile(r"https?://[^\s\"'<>\\]+", re.IGNORECASE)


def web_url(text: str) -> str:
    """The text if it is an http or https URL, else empty."""
    return text if _WEB.fullmatch(text) else ""


def file_at_host(repository: Repository, path: str, *, version: str, branch: str) -> str:
    """The URL of the file at that commit; empty if the host or the commit is unknown."""
    template = repository.file_url_template
    return web_url(file_url(template, "", version=version, path=path, branch=branch)) if version else ""


def commit_at_host(repository: Repository, version: str) -> str:
    return web_url(evaluated(repository.commit_url_template, {"Version": version})) if version else ""
