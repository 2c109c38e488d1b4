"""Says what `kb up` has to say about models: that the default one can't be used, and that an Ollama runs here.

Nothing is switched by itself: an Ollama is named with the command that lets its models be asked.
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from kb_local.ports import LOOPBACK, NO_TLS

_PORT: Final = 11434
_WITHIN_S: Final = 2.0
_ALL_ADDRESSES: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104  # what a server binds, not what is called
_PORTS: Final = {"http": 80, "https": 443}


def describe_models(environment: Mapping[str, str], *, base_url: str, organization_id: str, api_key: str) -> list[str]:
    """Return sentences about the models of a stack that is ready; none if there is nothing to say."""
    headers = {"Authorization": f"Bearer {api_key}"}
    organization = f"{base_url}/v0/orgs/{organization_id}"
    with httpx.Client(timeout=_WITHIN_S, trust_env=False, verify=NO_TLS, headers=headers) as client:
        models = _read(client, f"{organization}/chat-models?limit=1")
        said = []
        if problem := models.get("default_model_problem"):
            said.append(f"Questions can't be answered with KB_CHAT_MODEL={models.get('default_model')}: {problem}")
        ollama = find_ollama(environment)
        if ollama is not None and "provider" not in _read(client, f"{organization}/llm-providers/ollama"):
            said.append(
                f"Ollama runs at {ollama}. `kb providers set ollama --api-base {ollama}` lets you ask its models."
            )
    return said


def address_of_ollama(environment: Mapping[str, str]) -> str | None:
    """Return where Ollama would be, by the rules of its own `OLLAMA_HOST`; None if that can't be read."""
    setting = environment.get("OLLAMA_HOST", "").strip().strip("\"'")
    scheme = setting.partition("://")[0] if "://" in setting else ""
    try:
        parts = urlsplit(setting if scheme else f"//{setting}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return None
    if scheme not in {"", *_PORTS}:
        return None
    shown = LOOPBACK if host in _ALL_ADDRESSES else f"[{host}]" if ":" in host else host
    return f"{scheme or 'http'}://{shown}:{port or _PORTS.get(scheme, _PORT)}"


def find_ollama(environment: Mapping[str, str]) -> str | None:
    """Return the address of an Ollama that answers; None if there is none, or the services know one already."""
    if environment.get("OLLAMA_API_BASE"):
        return None
    address = address_of_ollama(environment)
    if address is None:
        return None
    try:
        answer = httpx.get(
            f"{address}/api/version",
            timeout=_WITHIN_S,
            trust_env=False,
            verify=NO_TLS if address.startswith("http:") else True,
        )
        found = answer.json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        return None
    return address if answer.is_success and isinstance(found, dict) and "version" in found else None


def _read(client: httpx.Client, url: str) -> Mapping[str, Any]:
    """Return an answer of the stack; empty if it is an error: a hint is worth no failure."""
    try:
        answer = client.get(url)
        found = answer.json()
    except (httpx.HTTPError, ValueError):
        return {}
    return found if answer.is_success and isinstance(found, dict) else {}
