"""Checks the commands of Jobs, and that the Dockerfile builds each image."""

import re
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from typing import Final

import click
import typer

from kb_client.cli import create_app
from tests.deployment.kubernetes.facts import COMMANDS, PODS, SERVICES
from tests.deployment.kubernetes.manifests import ROOT, ManifestFinding, Manifests, Workload

DOCKERFILE: Final = ROOT / "Dockerfile"


def check_commands(manifests: Manifests) -> Iterator[ManifestFinding]:
    stages = re.findall(r"^FROM \S+ AS (\S+)$", DOCKERFILE.read_text(), re.MULTILINE)
    for workload in manifests.workloads:
        image = PODS[workload.name].image if workload.name in PODS else None
        if image is not None and image not in stages:
            yield ManifestFinding(workload.place, f"the Dockerfile has no stage {image}", "a stage for each image")
        if workload.name in COMMANDS:
            yield from _check_arguments(workload)
        elif workload.name in SERVICES:
            yield from _check_program(workload)


def _check_program(workload: Workload) -> Iterator[ManifestFinding]:
    module = SERVICES[workload.name].module
    expected = None if module is None else ["python", "-m", module]
    if workload.container.get("command") != expected or "args" in workload.container:
        wanted = "the command of the image" if expected is None else " ".join(expected)
        yield ManifestFinding(workload.place, "it replaces the command of its image", wanted)
    if module is not None and find_spec(f"{module}.__main__") is None:
        yield ManifestFinding(workload.place, f"there is no program {module}", "a module with __main__.py")


def _check_arguments(workload: Workload) -> Iterator[ManifestFinding]:
    name, *arguments = workload.container.get("args", [""])
    commands = _commands()
    if name not in commands:
        yield ManifestFinding(workload.place, f"kb has no command {name!r}", f"one of {', '.join(sorted(commands))}")
        return
    options = {option for parameter in commands[name].params for option in parameter.opts}
    for argument in arguments:
        if argument.startswith("--") and argument not in options:
            yield ManifestFinding(workload.place, f"kb {name} has no option {argument}", "an option of its help")


@cache
def _commands() -> dict[str, click.Command]:
    group = typer.main.get_command(create_app())
    return dict(getattr(group, "commands", {}))
