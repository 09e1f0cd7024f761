"""Changing the catalog over the v1 API: permissions, rejected requests, and push events of code hosts."""

import hashlib
import hmac
import json
from typing import Any

import httpx
import pytest

from argosy.gateway.settings import ApiSettings
from argosy.registry import catalog
from tests.gateway.v1.api_fixture import ADMIN, TOKEN, Api

URL = "https://github.com/o/new.git"
NAME = "github.com/o/new"
WRITES = [
    ("POST", "/v1/repositories"),
    ("DELETE", f"/v1/repositories/{NAME}"),
    ("POST", f"/v1/repositories/{NAME}/pin"),
    ("POST", f"/v1/repositories/{NAME}/unpin"),
    ("POST", f"/v1/repositories/{NAME}/reindex"),
    ("POST", "/v1/webhook"),
]


@pytest.mark.parametrize(("method", "path"), WRITES)
async def test_nothing_is_changed_without_the_admin_token(api: Api, method: str, path: str) -> None:
    async with api.client() as client:
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": TOKEN}):
            response = await client.request(method, path, json={"url": URL}, headers=headers)
            assert response.status_code == 401, response.text
    async with api.client(admin_token=None) as client:
        response = await client.request(method, path, json={"url": URL}, headers=ADMIN)
        assert response.status_code == 403
        assert "node.admin_token" in response.json()["error"]["message"]
    assert await api.registry.run(catalog.everything()) == []


async def test_a_repository_is_added_changed_and_removed(api: Api, client: httpx.AsyncClient) -> None:
    spec = {"url": URL, "branches": ["main"], "pinned": True, "replicas": 2}
    response = await client.post("/v1/repositories", json=spec, headers=ADMIN)
    assert response.status_code == 201
    assert response.json() == {
        "name": NAME,
        "url": URL,
        "branches": ["main"],
        "pinned": True,
        "replicas": 2,
        "max_bids": None,
        "note": "",
    }
    assert (await client.post("/v1/repositories", json=spec, headers=ADMIN)).status_code == 409
    where = f"/v1/repositories/{NAME}"
    assert (await client.post(f"{where}/unpin", headers=ADMIN)).json()["pinned"] is False
    assert (await client.post(f"{where}/pin", headers=ADMIN)).json()["pinned"] is True
    assert (await client.post(f"{where}/reindex", headers=ADMIN)).status_code == 202
    row = await api.registry.run(catalog.read(NAME))
    assert row is not None
    assert row.reindex_requested_at
    assert (await client.delete(where, headers=ADMIN)).status_code == 204
    assert (await client.delete(where, headers=ADMIN)).status_code == 404
    assert (await client.post(f"{where}/pin", headers=ADMIN)).status_code == 404


async def test_a_password_never_reaches_the_catalog(api: Api, client: httpx.AsyncClient) -> None:
    spec = {"url": "https://user:hunter2@github.com/o/new.git", "name": "mine"}
    response = await client.post("/v1/repositories", json=spec, headers=ADMIN)
    assert (response.status_code, response.json()["name"], response.json()["url"]) == (201, "mine", URL)
    assert "password" in response.json()["note"]
    assert "hunter2" not in repr(await api.registry.run(catalog.everything()))


@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("--upload-pack=sh", 400),
        ("ext::sh -c id", 400),
        ("https://", 400),
        ("", 400),
        ("https://host/a\nb", 400),
        ("/etc", 403),
        ("file:///etc", 403),
    ],
)
async def test_an_invalid_address_is_rejected(client: httpx.AsyncClient, url: str, status: int) -> None:
    response = await client.post("/v1/repositories", json={"url": url}, headers=ADMIN)
    assert response.status_code == status
    assert response.json()["error"]["message"]


async def test_a_path_may_be_added_where_that_is_allowed(api: Api) -> None:
    async with api.client(allow_local=True) as client:
        response = await client.post("/v1/repositories", json={"url": "/srv/code"}, headers=ADMIN)
    assert (response.status_code, response.json()["name"]) == (201, "code")


# -- pushes ---------------------------------------------------------------------------------------------------

SECRET = "between us"
SIGNED = ApiSettings(webhook_secret=SECRET)
GITHUB = {
    "ref": "refs/heads/main",
    "repository": {
        "full_name": "o/new",
        "clone_url": URL,
        "ssh_url": "git@github.com:o/new.git",
        "html_url": "https://github.com/o/new",
        "url": "https://api.github.com/repos/o/new",
    },
}
GITLAB = {
    "object_kind": "push",
    "project": {"git_http_url": "https://github.com/o/new.git", "git_ssh_url": "git@github.com:o/new.git"},
}


async def added(client: httpx.AsyncClient, url: str = URL) -> None:
    response = await client.post("/v1/repositories", json={"url": url}, headers=ADMIN)
    assert response.status_code == 201


def signature(body: bytes) -> str:
    return hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()


@pytest.mark.parametrize("event", [GITHUB, GITLAB, {"url": URL}, {"url": "git@github.com:O/new"}])
async def test_holders_are_notified_of_a_push(api: Api, client: httpx.AsyncClient, event: dict[str, Any]) -> None:
    await added(client)
    await added(client, "https://github.com/o/other")
    response = await client.post("/v1/webhook", json=event, headers=ADMIN)
    assert (response.status_code, response.json()) == (202, {"notified": [NAME]})
    assert api.notified == [NAME]


async def test_a_push_to_an_unknown_repository_is_ignored(api: Api, client: httpx.AsyncClient) -> None:
    response = await client.post("/v1/webhook", json={"url": "https://github.com/o/unknown"}, headers=ADMIN)
    assert (response.status_code, response.json()["notified"], api.notified) == (202, [], [])


async def test_a_host_that_signs_needs_no_token(api: Api) -> None:
    body = json.dumps(GITHUB).encode()
    right = [
        {"x-hub-signature-256": f"sha256={signature(body)}"},
        {"x-gitea-signature": signature(body)},
        {"x-gitlab-token": SECRET},
        ADMIN,
    ]
    wrong = [
        {},
        {"x-hub-signature-256": f"sha256={signature(body + b' ')}"},
        {"x-hub-signature-256": "sha256="},
        {"x-hub-signature-256": "sha256=\xe9"},
        {"x-gitlab-token": ""},
        {"authorization": f"Bearer {SECRET}"},
    ]
    async with api.client(settings=SIGNED) as client:
        await added(client)
        for headers in right:
            response = await client.post("/v1/webhook", content=body, headers=headers)
            assert (response.status_code, response.json()["notified"]) == (202, [NAME])
        for headers in wrong:
            encoded = {name: value.encode("latin-1") for name, value in headers.items()}
            response = await client.post("/v1/webhook", content=body, headers=encoded)
            assert response.status_code == 401
            assert SECRET not in response.text
    assert api.notified == [NAME] * len(right)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"null", b'{"repository": 1}', b'{"url": "-x"}', b"[" * 9_999])
async def test_an_event_without_a_repository_is_rejected(client: httpx.AsyncClient, body: bytes) -> None:
    response = await client.post("/v1/webhook", content=body, headers=ADMIN)
    assert response.status_code == 400
    assert response.json()["error"]["message"]
