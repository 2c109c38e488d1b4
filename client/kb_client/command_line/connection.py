"""Decides to which server a command sends its calls, and as whom."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import typer

from kb_client.configuration import VARIABLES, Configuration, configuration_path, load_configuration, read_profiles
from kb_client.errors import UnusableConfiguration

if TYPE_CHECKING:
    from kb_client.async_client.client import AsyncClient
    from kb_client.sync_client.client import Client

CONNECTION_GROUP: Final = "kb.connections"
"""Entry points of functions that return the address, organization and key of a server on this machine, or None."""


@dataclass(frozen=True, slots=True)
class GivenConnection:
    """Options before the command, such as `kb --profile production docs list`."""

    base_url: str | None = None
    organization: str | None = None
    profile: str | None = None


@contextmanager
def open_client(context: typer.Context, *, shows_waits: bool = True) -> "Iterator[Client]":
    """Open a client for the settings of this command.

    Args:
        context: of the command.
        shows_waits: whether to say when an answer takes long. False for a command that shows its own progress.

    Raises:
        UnusableConfiguration: there are no settings, or a part is missing.
    """
    import httpx

    from kb_client.command_line.waiting import WaitingHttp
    from kb_client.sync_client.client import Client

    found = find_configuration(_read_options(context))
    with (
        WaitingHttp() if shows_waits else httpx.Client() as http,
        Client(
            found.base_url, organization=found.organization, api_key=found.api_key, origin="cli", http=http
        ) as client,
    ):
        yield client


def open_async_client(context: typer.Context) -> "AsyncClient":
    """Return an asynchronous client, for the same settings as `open_client`."""
    from kb_client.async_client.client import AsyncClient

    found = find_configuration(_read_options(context))
    return AsyncClient(found.base_url, organization=found.organization, api_key=found.api_key, origin="cli")


def find_configuration(given: GivenConnection, *, environment: Mapping[str, str] | None = None) -> Configuration:
    """Return the settings from options, environment variables and a profile; without any of these, of the local stack.

    The stack is never mixed with the others: its key must not be sent to another address.

    Raises:
        UnusableConfiguration: a setting is missing, or can't be used.
    """
    environment = os.environ if environment is None else environment
    if not _is_anything_set(given, environment):
        if (local := _find_on_this_machine()) is not None:
            return load_configuration(**local, environment={})
        raise UnusableConfiguration(
            "no server is known. Run `kb up` here, which starts one on this machine, or `kb login` for another one"
        )
    return load_configuration(
        base_url=given.base_url, organization=given.organization, profile=given.profile, environment=environment
    )


def _read_options(context: typer.Context) -> GivenConnection:
    return context.obj if isinstance(context.obj, GivenConnection) else GivenConnection()


def _is_anything_set(given: GivenConnection, environment: Mapping[str, str]) -> bool:
    if given != GivenConnection() or any(environment.get(name) for name in (*VARIABLES.values(), "KB_PROFILE")):
        return True
    return bool(read_profiles(configuration_path(environment)).get(None))


def _find_on_this_machine() -> dict[str, str] | None:
    from importlib.metadata import entry_points

    for entry_point in entry_points(group=CONNECTION_GROUP):
        found: dict[str, str] | None = entry_point.load()()
        if found is not None:
            return found
    return None
