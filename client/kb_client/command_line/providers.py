"""`kb providers`: test, pause and resume providers of models."""

from typing import Annotated

import typer

from kb_client.command_line.command_group import command_group
from kb_client.command_line.connection import open_client
from kb_client.command_line.output import AsJson, print_json
from kb_client.unset import UNSET

app = command_group("providers", about="Test, pause and resume providers of models.")

ProviderName = Annotated[str, typer.Argument(metavar="PROVIDER", help="Name of the provider, such as openai.")]


@app.command("test", epilog="Example: kb providers test openai")
def check(
    context: typer.Context,
    provider: ProviderName,
    *,
    model: Annotated[str | None, typer.Option("--model", help="Model to call. Default: the cheapest.")] = None,
    as_json: AsJson = False,
) -> None:
    """Call a model once, and show what is wrong if it does not answer. Exit status 1 then."""
    with open_client(context) as client:
        checked = client.llm_providers.test(provider, model=UNSET if model is None else model)
    if as_json:
        print_json(checked)
    elif checked.error is None:
        print(f"{checked.model} answered after {checked.duration_s:.2f} s")
    else:
        print(f"{checked.error.type}: {checked.error.message}")
    if not checked.ok:
        raise typer.Exit(1)


@app.command(epilog="Example: kb providers pause openai")
def pause(context: typer.Context, provider: ProviderName, *, as_json: AsJson = False) -> None:
    """Let documents that need the provider wait. Searches go on."""
    with open_client(context) as client:
        paused = client.llm_providers.pause(provider)
    if as_json:
        print_json(paused)
    else:
        print(f"paused {provider}; `kb providers resume {provider}` goes on with the documents that wait")


@app.command(epilog="Example: kb providers resume openai")
def resume(context: typer.Context, provider: ProviderName, *, as_json: AsJson = False) -> None:
    """Index the documents that waited."""
    with open_client(context) as client:
        resumed = client.llm_providers.resume(provider)
    if as_json:
        print_json(resumed)
    else:
        print(f"resumed {provider}")
