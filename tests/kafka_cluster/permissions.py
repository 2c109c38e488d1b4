"""The permissions that the documentation gives to each principal: what it says is what the tests grant."""

import shlex
from argparse import ArgumentParser
from itertools import product
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AclOperation, ResourceType

from tests.kafka_cluster.rights import Acl

PAGE: Final = Path(__file__).parents[2] / "docs" / "how-to" / "kafka-permissions.md"
COMMAND: Final = "$ACLS --add "
_OPERATIONS: Final = {
    "Create": AclOperation.CREATE,
    "Describe": AclOperation.DESCRIBE,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
    "Read": AclOperation.READ,
    "Write": AclOperation.WRITE,
}


def documented_acls(*, prefix: str) -> list[Acl]:
    """Return what the commands of the page grant, for topics and groups that begin with `prefix`."""
    commands = PAGE.read_text().replace("\\\n", " ").splitlines()
    return [acl for line in commands if line.startswith(COMMAND) for acl in _granted_by(line, prefix)]


def _granted_by(command: str, prefix: str) -> list[Acl]:
    options = _PARSER.parse_args(shlex.split(command.removeprefix("$ACLS ")))
    prefixed = options.resource_pattern_type == "prefixed"
    resources = [
        *((ResourceType.TOPIC, prefix + topic) for topic in options.topic),
        # An upstream's groups have names of its own.
        *((ResourceType.GROUP, group if prefixed else prefix + group) for group in options.group),
    ]
    return [
        Acl(principal.removeprefix("User:"), _OPERATIONS[operation], resource, name, prefixed)
        for principal, operation, (resource, name) in product(options.allow_principal, options.operation, resources)
    ]


def _parser() -> ArgumentParser:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--add", action="store_true", required=True)
    for option in ("--allow-principal", "--operation", "--topic", "--group"):
        parser.add_argument(option, action="append", default=[])
    parser.add_argument("--resource-pattern-type", choices=("literal", "prefixed"), default="literal")
    return parser


_PARSER: Final = _parser()
