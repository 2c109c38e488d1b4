"""Address and key of a running console, and its API, as tests and benchmarks call it. Nothing here needs a browser."""

import json
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

WAIT_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class ConsoleUnderTest:
    base_url: str
    api_key: str
    models_url: str
    """Address of the server of models, which plays scripts."""

    def url(self, path: str = "") -> str:
        return f"{self.base_url}/console/orgs/local/knowledge-bases{path}"

    def of_organization(self, path: str) -> str:
        """Return the address of a page of the organization."""
        return f"{self.base_url}/console/orgs/local{path}"

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Call the API with the admin key, and return its answer."""
        headers = {"Authorization": f"Bearer {self.api_key}"}
        return send_json(method, f"{self.base_url}/v0/orgs/local{path}", body, headers=headers)


def send_json(method: str, url: str, body: object = None, *, headers: dict[str, str]) -> Any:
    request = urllib.request.Request(  # the stack of these tests
        url,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={**headers, "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:  # as above
        return json.loads(answer.read() or b"null")


def eventually(condition: Callable[[], bool]) -> None:
    """Return as soon as the condition holds."""
    until = time.monotonic() + WAIT_MS / 1000
    while not condition():
        assert time.monotonic() < until, "not in time"
        time.sleep(0.1)
