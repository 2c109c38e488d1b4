"""Output of the commands of the local stack."""

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.status import Status
from rich.text import Text

from kb_client.command_line.output import open_console
from kb_client.command_line.tables import print_table
from kb_local.doctor import Check
from kb_local.model_hints import describe_models
from kb_local.ports import LOOPBACK
from kb_local.search_nodes import NAME as SEARCH_NODE
from kb_local.state import Home, Secrets, StackState

COLOURS = {"ready": "green", "starting": "yellow", "not ready": "yellow", "crashed": "red", "stopped": "dim"}


class Progress:
    """Shows which processes are ready while a stack starts: a live line on a terminal, otherwise plain lines."""

    def __init__(self, *, enabled: bool, on_ready: Callable[[StackState], None]) -> None:
        """Prepare the display.

        Args:
            enabled: whether progress is shown; `on_ready` is called in any case.
            on_ready: called once, when all processes are ready.
        """
        self._console = Console(file=sys.stderr)
        self._status = Status("starting", console=self._console) if enabled and self._console.is_terminal else None
        self._enabled = enabled
        self._on_ready = on_ready
        self._shown: set[str] = set()
        self._is_ready = False

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def show(self, state: StackState) -> None:
        """Show a new state of the stack."""
        if self._is_ready:
            return
        if self._enabled:
            self._show_processes(state)
        if state.phase == "ready":
            self._is_ready = True
            if self._status is not None:
                self._status.stop()
            self._on_ready(state)

    def _show_processes(self, state: StackState) -> None:
        for process in state.processes:
            if process.condition == "ready" and process.name not in self._shown:
                self._shown.add(process.name)
                self._console.print(f"  [green]ready[/green] {process.name}", highlight=False)
        if self._status is not None:
            waiting = [process.name for process in state.processes if process.condition == "starting"]
            self._status.update(f"{state.phase}: {', '.join(waiting) or 'services'}")


def print_running(home: Home, state: StackState, *, as_json: bool) -> None:
    """Print the addresses, the API key and the variables of the documentation."""
    secrets = home.read_secrets()
    if as_json:
        print(
            json.dumps(
                {
                    "base_url": state.base_url,
                    "console_url": _console(state),
                    "kafka": _kafka(state),
                    "mongo_uri": _mongo_uri(state),
                    "organization_id": secrets.organization_id,
                    "api_key": secrets.api_key,
                    "folder": str(home.folder),
                    **_monitoring(state),
                }
            ),
            flush=True,
        )
        return
    print(
        f"""
The stack is ready.
  base URL      {state.base_url}
  console       {_console(state) or "not started"}
  Kafka         {_kafka(state)}
  MongoDB       {_mongo_uri(state) or "that of KB_MONGO_URI"}
  organization  {secrets.organization_id}
  API key       {secrets.api_key}
  data, logs    {home.folder}{_monitoring_lines(state)}

Next: `kb open` opens the console in a browser, signed in. Or `kb docs push FOLDER`, then `kb ask "..."`.
{_hints(state, secrets)}
To run the commands of the documentation, paste this line:

  export KB_API={state.base_url} KB_SEARCH={state.base_url} ORG={secrets.organization_id} KEY={secrets.api_key} \
KB_KAFKA={_kafka(state)}

For example: curl -H "Authorization: Bearer $KEY" "$KB_API/v0/orgs/$ORG/knowledge-bases"

`kb status` shows the processes, `kb down` stops them.""",
        # A reader of a pipe must get it at once, because `kb up --foreground` goes on.
        flush=True,
    )


def _hints(state: StackState, secrets: Secrets) -> str:
    if state.base_url is None:
        return ""
    hints = describe_models(
        os.environ, base_url=state.base_url, organization_id=secrets.organization_id, api_key=secrets.api_key
    )
    return "".join(f"{hint}\n" for hint in hints)


def _console(state: StackState) -> str | None:
    """Return the address of the web console; None if it was left out."""
    is_started = any(process.name == "kb-console" for process in state.processes)
    return f"{state.base_url}/console/" if is_started else None


def _kafka(state: StackState) -> str:
    """Return the address that upstreams publish to: the local broker, or the cluster in KB_KAFKA."""
    ours = next((process for process in state.processes if process.name == "broker"), None)
    return f"{LOOPBACK}:{ours.port}" if ours is not None else os.environ.get("KB_KAFKA", "")


def _monitoring(state: StackState) -> dict[str, str | None]:
    return {"prometheus_url": state.prometheus_url, "alertmanager_url": state.alertmanager_url}


def _monitoring_lines(state: StackState) -> str:
    if state.prometheus_url is None:
        return ""
    return f"\n  Prometheus    {state.prometheus_url}\n  Alertmanager  {state.alertmanager_url}"


def _mongo_uri(state: StackState) -> str | None:
    """Return the URI by which services reach the local MongoDB; None for a deployment in KB_MONGO_URI."""
    ours = next((process for process in state.processes if process.name == SEARCH_NODE), None)
    return f"mongodb://{LOOPBACK}:{ours.port}/?directConnection=true" if ours is not None else None


def print_status(home: Home, state: StackState, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"folder": str(home.folder), **state.model_dump(mode="json", exclude={"ports"})}))
        return
    console = open_console()
    if state.phase == "stopped" and not state.processes:
        console.print(f"no stack has been started in {home.folder}; start one with `kb up`", soft_wrap=True)
        return
    print_table(
        ("process", "state", "port", "pid", "restarts", "log"),
        [
            (
                each.name,
                Text(each.condition, style=COLOURS[each.condition]),
                str(each.port or "-"),
                str(each.pid or "-"),
                f"{each.restarts}{f' (last: {each.last_exit})' if each.last_exit else ''}",
                each.log,
            )
            for each in state.processes
        ],
        whole=("state",),
    )
    console.print(f"\nstack {state.phase}, base URL {state.base_url or 'none'}, folder {home.folder}", soft_wrap=True)
    if state.prometheus_url is not None:
        console.print(f"Prometheus {state.prometheus_url}, Alertmanager {state.alertmanager_url}", soft_wrap=True)
    if state.failure is not None:
        console.print(f"{state.failure.problem}\n  remedy: {state.failure.remedy}", soft_wrap=True)


def print_warning(problem: str, *, remedy: str) -> None:
    print(f"warning: {problem}\n  remedy: {remedy}", file=sys.stderr)


def print_checks(checks: Sequence[Check], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps([asdict(check) for check in checks]))
        return
    for check in checks:
        print(f"{'ok  ' if check.ok else 'FAIL'}  {check.name:<15} {check.found}")
        if not check.ok:
            print(f"      remedy: {check.remedy}")
