"""The option `--output` of all commands, and `--json`, which is short for `--output json`."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, TypeAlias

import typer

OutputFormat: TypeAlias = Literal["table", "json", "csv", "tsv", "ids"]

_OPTION: Final = ("--output", "-o")
Output = Annotated[
    OutputFormat, typer.Option(*_OPTION, help="Table for people, JSON as the API has it, rows of text, or ids alone.")
]
OutputWithoutIds = Annotated[
    Literal["table", "json", "csv", "tsv"],
    typer.Option(*_OPTION, help="Table for people, JSON as the API has it, or rows of text."),
]
TableOrJson = Annotated[Literal["table", "json"], typer.Option(*_OPTION, help="Output for people, or JSON.")]

_JSON = Annotated[bool, typer.Option("--json", help="Short for --output json.")]


def add_json_options(app: typer.Typer) -> None:
    """Give each command with `--output`, also those of groups, the option `--json`."""
    for command in app.registered_commands:
        parameters = {} if command.callback is None else inspect.signature(command.callback).parameters
        # The groups are those of their modules: an earlier call may have changed them.
        if command.callback is not None and "output" in parameters and "as_json" not in parameters:
            command.callback = _with_json(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_json_options(group.typer_instance)


def _with_json(command: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(command)
    def run(*args: Any, as_json: bool, **options: Any) -> Any:
        if as_json:
            if options["output"] not in ("table", "json"):
                raise typer.BadParameter(f"--json and --output {options['output']} are two formats: pass one of them")
            options["output"] = "json"
        return command(*args, **options)

    signature = inspect.signature(command)
    as_json = inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_JSON)
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), as_json])  # type: ignore[attr-defined]  # typer reads it
    run.__annotations__ = {**command.__annotations__, "as_json": _JSON}
    return run
