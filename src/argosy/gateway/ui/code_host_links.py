"""Links to where the code lives: the addresses of files and commits at their host.

Templates and addresses come from whoever adds repositories, so only what is the address of a web page becomes a link.
"""

import re

from argosy.gateway.zoekt.templates import evaluated, file_url
from argosy.search.model import Repository

_WEB = re.compile(r"https?://[^\s\"'<>\\]+", re.IGNORECASE)


def web_url(text: str) -> str:
    """The text if it is the address of a page, else nothing."""
    return text if _WEB.fullmatch(text) else ""


def file_at_host(repository: Repository, path: str, *, version: str, branch: str) -> str:
    """The file's page at its host, at that commit; nothing if the host or the commit is not known."""
    template = repository.file_url_template
    return web_url(file_url(template, "", version=version, path=path, branch=branch)) if version else ""


def commit_at_host(repository: Repository, version: str) -> str:
    return web_url(evaluated(repository.commit_url_template, {"Version": version})) if version else ""
