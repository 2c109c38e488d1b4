from typing import Annotated, Final

from pydantic import AfterValidator, Field, HttpUrl, SecretStr

from kb_shared.settings import ServerSettings

SHORTEST_SECRET: Final = 32
"""Characters that a secret has at least, so that it is not found by trying."""


def _long_enough(secret: SecretStr) -> SecretStr:
    if len(secret.get_secret_value()) < SHORTEST_SECRET:
        raise ValueError(f"must have at least {SHORTEST_SECRET} characters")
    return secret


ConsoleSecret = Annotated[SecretStr, AfterValidator(_long_enough)]


class ConsoleSettings(ServerSettings):
    base_url: str = "http://127.0.0.1:8080"
    """Address of the API."""
    console_secret: ConsoleSecret | None = None
    """Secret that seals sessions, the same in all replicas. None: one of this process, so sessions end with it."""
    console_former_secret: ConsoleSecret | None = None
    """Former value of `console_secret`, while sessions that it sealed last."""
    console_max_upload_bytes: Annotated[int, Field(ge=1)] = 20_000_000
    console_docs_url: HttpUrl | None = None
    """Address of the documentation, as `make docs` builds it. None: the help page names the files of the sources."""
    failed_sign_ins_per_minute_of_address: int = Field(default=20, ge=0)
    """Limit per process, with a burst of a minute's worth. Only failed ones are refused. 0: no limit."""

    @property
    def secrets(self) -> list[str]:
        """Return the secrets that open sessions; the first one seals new ones."""
        given = (self.console_secret, self.console_former_secret)
        return [secret.get_secret_value() for secret in given if secret is not None]
