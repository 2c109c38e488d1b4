"""`kb up, down, restart, status, logs, doctor, demo`."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from kb_client.command_line.examples import examples
from kb_client.command_line.output_format import TableOrJson

if TYPE_CHECKING:
    from kb_local.state import Home

Result = TypeVar("Result")


def register(app: typer.Typer) -> None:
    """Add the commands of the local stack to `kb`."""
    app.command(epilog=examples("kb up", "kb up --observe", "KB_HOME=/tmp/try-out kb up"))(up)
    app.command(epilog=examples("kb down"))(down)
    app.command(epilog=examples("kb restart indexer"))(restart)
    app.command(epilog=examples("kb status"))(status)
    app.command(epilog=examples("kb logs", "kb logs kb-indexer --follow"))(logs)
    app.command(epilog=examples("kb doctor"))(doctor)
    app.command(epilog=examples("kb demo"))(demo)


def up(
    *,
    foreground: Annotated[bool, typer.Option("--foreground", help="Stay in the foreground until Ctrl-C.")] = False,
    observe: Annotated[bool, typer.Option("--observe", help="Also start Prometheus and Alertmanager.")] = False,
    output: TableOrJson = "table",
) -> None:
    """Start all services on this machine, wait until they are ready, and leave them running."""
    from kb_local import daemon
    from kb_local.display import Progress, print_running
    from kb_local.monitoring import OBSERVE
    from kb_local.running_stacks import describe_others, nearest_home
    from kb_local.state import home_of

    given = bool(os.environ.get("KB_HOME"))
    home = _or_exit(lambda: (None if given else nearest_home()) or home_of(os.environ))
    environment = {**os.environ, **({OBSERVE: "1"} if observe else {}), "KB_HOME": str(home.folder)}
    if not _or_exit(home.is_locked):
        _check_machine(environment)
        if not given and (others := describe_others(home, environment)):
            print(f"this is a stack of its own, in {home.folder}; {others}", file=sys.stderr)
    run = daemon.run_in_foreground if foreground else daemon.start
    with Progress(
        enabled=output == "table", on_ready=lambda state: print_running(home, state, as_json=output == "json")
    ) as progress:
        _or_exit(lambda: run(environment, on_change=progress.show))
    if observe and not foreground:
        _or_exit(lambda: daemon.require_observed(home))
    if foreground and output == "table":
        print(_stopped(home.folder), file=sys.stderr)


def down(*, output: TableOrJson = "table") -> None:
    """Stop the stack and wait until all its processes have ended. The data is kept."""
    from kb_local import daemon
    from kb_local.running_stacks import describe_others

    environment, home = _find_stack()
    was_running = _or_exit(lambda: daemon.stop(environment))
    if output == "json":
        print(json.dumps({"was_running": was_running, "folder": str(home.folder)}))
        return
    print(_stopped(home.folder) if was_running else f"no stack is running in {home.folder}")
    if not was_running and (others := describe_others(home, environment)):
        print(others)


def restart(
    name: Annotated[str, typer.Argument(metavar="PROCESS", help="Name of the process, as `kb status` shows it.")],
    *,
    output: TableOrJson = "table",
) -> None:
    """End one process of the running stack, and wait until its successor is ready."""
    from kb_local.restart import restart

    environment, _ = _find_stack()
    successor = _or_exit(lambda: restart(environment, name))
    if output == "json":
        print(json.dumps({"name": name, "pid": successor.pid}))
    else:
        print(f"restarted {name}: it is ready as process {successor.pid}")


def status(*, output: TableOrJson = "table") -> None:
    """Show each process with its state, port and log. Exit status 1 unless all are ready."""
    from kb_local import daemon
    from kb_local.display import print_status, print_warning
    from kb_local.doctor import check_disk
    from kb_local.running_stacks import describe_others

    environment, home = _find_stack()
    state = _or_exit(lambda: daemon.current_state(environment))
    print_status(home, state, as_json=output == "json")
    if state.phase == "stopped" and output == "table" and (others := describe_others(home, environment)):
        print(others)
    disk = check_disk(home)
    if not disk.ok and disk.is_needed:
        print_warning(f"disk: {disk.found}; the state shown may be outdated", remedy=disk.remedy)
    if not daemon.is_healthy(state):
        raise typer.Exit(1)


def logs(
    name: Annotated[
        str | None, typer.Argument(metavar="PROCESS", help="Name of the process, as `kb status` shows it.")
    ] = None,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new lines until Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Number of earlier lines.")] = 50,
    output: TableOrJson = "table",
) -> None:
    """Show what the processes of the stack have logged, by time. That of mongod is shown if it is named."""
    from kb_local.log_reader import choose_logs, read_logs

    _, home = _find_stack()
    paths = _or_exit(lambda: choose_logs(home, name))
    for line in read_logs(paths, lines=lines, follow=follow):
        print(json.dumps(line.to_json(), ensure_ascii=False) if output == "json" else line.describe(), flush=True)


def doctor(*, output: TableOrJson = "table") -> None:
    """Check that this machine can run the stack. Each failed check prints a remedy."""
    import asyncio

    from kb_local.display import print_checks
    from kb_local.doctor import examine

    checks = asyncio.run(examine(os.environ))
    print_checks(checks, as_json=output == "json")
    if not all(check.ok for check in checks):
        raise typer.Exit(1)


def demo(*, output: TableOrJson = "table") -> None:
    """Index about 100 real documents, search them and print the times (1 to 3 minutes)."""
    from kb_local.demo import run

    raise typer.Exit(_or_exit(lambda: run(as_json=output == "json")))


def _find_stack() -> tuple[Mapping[str, str], "Home"]:
    """Return the settings of the stack that a command means, and its folder."""
    from kb_local.running_stacks import find_home

    home = _or_exit(lambda: find_home(os.environ))
    return {**os.environ, "KB_HOME": str(home.folder)}, home


def _stopped(folder: Path) -> str:
    return f"stopped the stack in {folder}; the data is kept"


def _check_machine(environment: Mapping[str, str]) -> None:
    """Run the checks of `kb doctor` before the start; failed checks that do not prevent a start are warnings."""
    import asyncio

    from kb_local.display import print_warning
    from kb_local.doctor import require_fit

    for check in _or_exit(lambda: asyncio.run(require_fit(environment))):
        print_warning(f"{check.name}: {check.found}", remedy=check.remedy)


def _or_exit(action: Callable[[], Result]) -> Result:
    """Return what `action` returns; an error that the user can fix becomes a message and exit status 1, Ctrl-C 130."""
    from kb_local.errors import Interrupted, LocalStackError

    try:
        return action()
    except LocalStackError as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(130 if isinstance(error, Interrupted) else 1) from None
