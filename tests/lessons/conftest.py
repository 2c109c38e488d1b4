"""The indexer's own fixtures: what went wrong elsewhere is tried on what runs here."""

from tests.integration.indexer.conftest import (
    ModelControls,
    _commands,
    _other_client_commands,
    command_log,
    indexer,
    other_client_database,
    provider,
    rival,
    rival_command_log,
    shared_database,
    tenant,
)

__all__ = [
    "ModelControls",
    "_commands",
    "_other_client_commands",
    "command_log",
    "indexer",
    "other_client_database",
    "provider",
    "rival",
    "rival_command_log",
    "shared_database",
    "tenant",
]
