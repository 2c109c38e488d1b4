"""Requests to kb-api on behalf of a command, with settings from environment variables."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx

_TIMEOUT_S: Final = 60.0


class UnusableApi(Exception):
    """kb-api can't be reached, or refuses the request. The message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class ApiConnection:
    """Address and API key of an organization."""

    base_url: str
    organization: str
    api_key: str

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "ApiConnection":
        """Read `KB_BASE_URL`, `KB_ORGANIZATION` and `KB_API_KEY`.

        Raises:
            UnusableApi: one of them is not set.
        """
        names = ("KB_BASE_URL", "KB_ORGANIZATION", "KB_API_KEY")
        missing = [name for name in names if not environment.get(name)]
        if missing:
            raise UnusableApi(
                f"set {', '.join(missing)} in the environment; for a local stack, `kb up` prints the values"
            )
        return cls(*(environment[name] for name in names))

    def open(self, transport: httpx.BaseTransport | None = None) -> httpx.Client:
        """Return a client whose paths begin after the organization."""
        return httpx.Client(
            base_url=f"{self.base_url.rstrip('/')}/v0/orgs/{self.organization}",
            headers={"Authorization": f"Bearer {self.api_key}"},
            timeout=_TIMEOUT_S,
            transport=transport,
        )


def call(client: httpx.Client, method: str, path: str, **options: Any) -> dict[str, Any]:
    """Send a request and return the JSON of the answer.

    Raises:
        UnusableApi: the server can't be reached, or refused the request.
    """
    try:
        answer = client.request(method, path, **options)
    except httpx.HTTPError as error:
        raise UnusableApi(f"{client.base_url} can't be reached ({type(error).__name__})") from error
    if answer.is_success:
        result: dict[str, Any] = answer.json()
        return result
    raise UnusableApi(_describe(answer))


def _describe(answer: httpx.Response) -> str:
    try:
        problem = answer.json()
    except ValueError:
        problem = {}
    if not isinstance(problem, dict) or "title" not in problem:
        return f"the server answered {answer.status_code}"
    detail = f" {problem['detail']}" if problem.get("detail") else ""
    return f"{problem['title']}.{detail} (status {answer.status_code}, request {problem.get('request_id', 'unknown')})"
