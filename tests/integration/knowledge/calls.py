"""Calls of routes beside those of entries."""

from typing import Any

import httpx

from tests.integration.knowledge.author import Author


async def call(author: Author, method: str, path: str, **options: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {author.key}", **options.pop("headers", {})}
    return await author.http.request(method, f"/v0/orgs/{author.organization_id}{path}", headers=headers, **options)


async def answer(author: Author, method: str, path: str, **options: Any) -> Any:
    response = await call(author, method, path, **options)
    assert response.is_success, response.text
    return response.json()


async def problem(author: Author, method: str, path: str, **options: Any) -> tuple[int, str]:
    response = await call(author, method, path, **options)
    return response.status_code, response.json()["type"]
