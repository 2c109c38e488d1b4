"""Sessions: the API key of a reader with its organization and scopes, sealed into a cookie that no script can read.

They are not stored: every replica can open them, and a revoked key ends them, because each page asks the API with it.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from kb_console.sealing import Seal
from kb_contracts.api.whoami import WhoAmI
from kb_shared.concurrency.bounded_cache import BoundedCache

COOKIE: Final = "kb_console"
PATH: Final = "/console"
LIFETIME_S: Final = 8 * 3600
CODE_LIFETIME_S: Final = 60
_MOST_USED_CODES: Final = 10_000


@dataclass(frozen=True, slots=True)
class ConsoleSession:
    organization_id: str
    api_key: str = field(repr=False)
    """The bearer token for the API."""
    key_name: str
    scopes: tuple[str, ...]

    @classmethod
    def from_key(cls, who: WhoAmI, *, api_key: str) -> "ConsoleSession":
        """Create the session of an API key that was accepted."""
        return cls(who.organization_id, api_key, who.name, tuple(who.scopes))

    def has_scope(self, scope: str) -> bool:
        """Say whether the key has a scope; `admin` implies every scope. The API decides in the end."""
        return scope in self.scopes or "admin" in self.scopes

    def to_json(self) -> dict[str, Any]:
        return {
            "organization_id": self.organization_id,
            "api_key": self.api_key,
            "key_name": self.key_name,
            "scopes": list(self.scopes),
        }

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "ConsoleSession":
        return cls(fields["organization_id"], fields["api_key"], fields["key_name"], tuple(fields["scopes"]))


class Sessions:
    """Begins, finds and ends sessions, and makes codes that begin one each."""

    def __init__(self, secrets_: Sequence[str], *, is_https: bool) -> None:
        """Prepare the seals.

        Args:
            secrets_: of the deployment; without any, a random one of this process.
            is_https: whether readers come by https, so that the cookie must not be sent without it.
        """
        known = [*secrets_] or [secrets.token_hex(32)]
        self._seal = Seal(known, purpose="session", lifetime_s=LIFETIME_S)
        self._code_seal = Seal(known, purpose="one-time code", lifetime_s=CODE_LIFETIME_S)
        self._is_https = is_https
        self._used_codes: BoundedCache[str, bool] = BoundedCache(_MOST_USED_CODES)

    def find(self, request: Request) -> ConsoleSession | None:
        fields = self._seal.open(request.cookies.get(COOKIE, ""))
        return None if fields is None else ConsoleSession.from_json(fields)

    def begin(self, request: Request, response: Response, session: ConsoleSession) -> None:
        response.set_cookie(
            COOKIE,
            self._seal.close(session.to_json()),
            max_age=LIFETIME_S,
            path=PATH,
            httponly=True,
            samesite="lax",
            secure=self._is_https or request.headers.get("x-forwarded-proto") == "https",
        )

    def end(self, response: Response) -> None:
        response.delete_cookie(COOKIE, path=PATH, httponly=True, samesite="lax")

    def make_code(self, session: ConsoleSession) -> str:
        """Return a code that begins this session, once and within a minute."""
        return self._code_seal.close({"id": secrets.token_hex(16), **session.to_json()})

    def use_code(self, code: str) -> ConsoleSession | None:
        """Return the session of a code; None if it was used in this process, is too old or invalid."""
        fields = self._code_seal.open(code)
        if fields is None or self._used_codes.find(fields["id"]) is not None:
            return None
        self._used_codes.put(fields["id"], True)
        return ConsoleSession.from_json(fields)
