"""`kb providers`: keys of the organization for providers of models; test, pause and resume providers."""

import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kb_client.command_line.command_group import command_group
from kb_client.command_line.confirmation import confirm
from kb_client.command_line.connection import open_client
from kb_client.command_line.examples import examples
from kb_client.command_line.lists import USUAL_ROWS, RowLimit, read_items
from kb_client.command_line.output import print_answer, print_more
from kb_client.command_line.output_format import Output, OutputWithoutIds
from kb_client.command_line.tables import print_table
from kb_client.command_line.unusable_request import UnusableRequest
from kb_client.errors import HttpNotFound
from kb_client.unset import UNSET

if TYPE_CHECKING:
    from kb_client.sync_client.client import Client
    from kb_contracts.api.llm_providers import LlmProviderView, ProviderCheckView

app = command_group(
    "providers", about="Set the organization's own keys for providers of models; test, pause and resume providers."
)

SERVERS_WITHOUT_KEY: Final = frozenset({"ollama", "vllm", "openai-compatible"})
"""Providers that take requests without a key, unless one is given."""

ProviderArgument = Annotated[
    str, typer.Argument(metavar="PROVIDER", help="Name of the provider, such as openai or anthropic.")
]
RequestLimitOption = Annotated[
    int | None, typer.Option("--requests-per-minute", metavar="N", min=1, help="Limit of requests, for each model.")
]
TokenLimitOption = Annotated[
    int | None, typer.Option("--tokens-per-minute", metavar="N", min=1, help="Limit of tokens, for each model.")
]


@app.command("list", epilog=examples("kb providers list"))
def list_all(context: typer.Context, *, limit: RowLimit = USUAL_ROWS, output: Output = "table") -> None:
    """List the providers for which the organization has a key, without the keys."""
    with open_client(context) as client:
        found = read_items(client.llm_providers.list, limit=limit)
    print_answer(
        found.to_json("llm_providers"),
        output,
        rows="llm_providers",
        id_field="provider",
        show=lambda: _print_list(found.items, total_count=found.total_count),
    )


@app.command(
    "set",
    epilog=examples(
        "kb providers set openai",
        "kb providers set openai --key-from OPENAI_API_KEY --requests-per-minute 3000",
        "kb providers set openai < key.txt",
        "kb providers set ollama --api-base http://127.0.0.1:11434",
        "kb providers set vllm --api-base http://gpu.example:8000 --model meta-llama/Llama-3.1-8B-Instruct",
    ),
)
def put(
    context: typer.Context,
    provider: Annotated[
        str,
        typer.Argument(
            metavar="PROVIDER",
            help="Name of the provider, such as openai or anthropic; ollama, vllm or openai-compatible for a server.",
        ),
    ],
    *,
    key_from: Annotated[
        str | None, typer.Option("--key-from", metavar="VARIABLE", help="Environment variable that has the key.")
    ] = None,
    api_base: Annotated[
        str | None, typer.Option("--api-base", metavar="URL", help="Address of a server, with or without /v1.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="MODEL", help="Model of the server to try. Default: its first.")
    ] = None,
    requests_per_minute: RequestLimitOption = None,
    tokens_per_minute: TokenLimitOption = None,
    output: Output = "table",
) -> None:
    """Set the key of a provider, or the address of a server. What is not named stays as it is.

    The key is read from the terminal, standard input, or an environment variable, so that it is in no list of
    processes. It is never shown again. A server may need none. Its models are listed, and one is tried; exit status 1
    if it does not answer.
    """
    with open_client(context) as client:
        before = _find(client, provider)
        address = api_base or (before.api_base if before else None)
        is_optional = key_from is None and provider in SERVERS_WITHOUT_KEY
        stored = client.llm_providers.put(
            provider,
            api_key=UNSET if is_optional else _read_key(key_from),
            api_base=address or UNSET,
            requests_per_minute=requests_per_minute or (before.requests_per_minute if before else None) or UNSET,
            tokens_per_minute=tokens_per_minute or (before.tokens_per_minute if before else None) or UNSET,
        )
        is_server = stored.api_base is not None and provider != "azure"
        checked = client.llm_providers.test(provider, model=model or UNSET) if is_server else None
    print_answer(
        {**stored.model_dump(mode="json"), "test": checked and checked.model_dump(mode="json")},
        output,
        id_field="provider",
        show=lambda: _print_stored(stored, checked),
    )
    if checked is not None and not checked.ok:
        raise typer.Exit(1)


@app.command(epilog=examples("kb providers delete openai --yes"))
def delete(
    context: typer.Context,
    provider: ProviderArgument,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    output: Output = "table",
) -> None:
    """Delete the organization's key of a provider. The key of the deployment is used then, if there is one."""
    confirm(f"Delete the key of {provider}?", yes=yes)
    with open_client(context) as client:
        answer = client.llm_providers.delete(provider)
    print_answer(
        {"provider": provider, **answer.model_dump()},
        output,
        id_field="provider",
        show=lambda: print(f"deleted the key of {provider}"),
    )


@app.command("test", epilog=examples("kb providers test openai"))
def check(
    context: typer.Context,
    provider: ProviderArgument,
    *,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="MODEL", help="Model to call. Default: the cheapest, or a server's first."),
    ] = None,
    output: OutputWithoutIds = "table",
) -> None:
    """Call a model, and show what it can do, or what is wrong if it does not answer. Exit status 1 then.

    Of a server, its models are listed, too.
    """
    with open_client(context) as client:
        checked = client.llm_providers.test(provider, model=UNSET if model is None else model)
    print_answer(checked, output, show=lambda: _print_check(checked))
    if not checked.ok:
        raise typer.Exit(1)


@app.command(epilog=examples("kb providers pause openai"))
def pause(context: typer.Context, provider: ProviderArgument, *, output: Output = "table") -> None:
    """Let documents that need the provider wait. Searches go on."""
    with open_client(context) as client:
        paused = client.llm_providers.pause(provider)
    print_answer(
        paused,
        output,
        id_field="provider",
        show=lambda: print(f"paused {provider}; `kb providers resume {provider}` goes on with the documents that wait"),
    )


@app.command(epilog=examples("kb providers resume openai"))
def resume(context: typer.Context, provider: ProviderArgument, *, output: Output = "table") -> None:
    """Index the documents that waited."""
    with open_client(context) as client:
        resumed = client.llm_providers.resume(provider)
    print_answer(resumed, output, id_field="provider", show=lambda: print(f"resumed {provider}"))


def _print_stored(stored: "LlmProviderView", checked: "ProviderCheckView | None") -> None:
    where = f" at {stored.api_base}" if stored.api_base is not None else ""
    key = "" if stored.provider in SERVERS_WITHOUT_KEY else f" with the key {_ending(stored)}"
    print(f"the models of {stored.provider} are called{where}{key} from now on")
    if checked is None:
        return
    _print_check(checked)
    if checked.abilities is not None:
        print(f'Next: kb ask "..." --model {checked.model}')
    if checked.embeddings is not None:
        print(f"Next: kb kb create NAME --tag TAG --model {checked.model}")


def _print_check(checked: "ProviderCheckView") -> None:
    if checked.models:
        print(f"models: {', '.join(each.name for each in checked.models)}")
    if checked.error is not None:
        print(f"{checked.error.type}: {checked.error.message}")
    elif checked.model:
        print(f"{checked.model} answered after {checked.duration_s:.2f} s")
        for line in _describe_abilities(checked):
            print(f"  {line}")
    for sentence in checked.advice:
        print(f"- {sentence}")


def _describe_abilities(checked: "ProviderCheckView") -> Iterator[str]:
    abilities, embeddings = checked.abilities, checked.embeddings
    if abilities is not None:
        yield f"calls tools: {_yes(abilities.calls_tools)}"
        yield f"streams: {_yes(abilities.streams)}"
        yield f"follows a JSON schema: {_yes(abilities.follows_schema)}"
        yield f"reads: {_tokens(abilities.max_input_tokens)}"
        if abilities.refused_options:
            yield f"asked without, because the server refuses it: {', '.join(abilities.refused_options)}"
    if embeddings is not None:
        yield f"gives vectors: yes, of {embeddings.dimensions} dimensions"
        if abilities is None:
            yield f"reads: {_tokens(embeddings.max_input_tokens)}"
    elif checked.models:
        yield "gives vectors: no"


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"


def _tokens(number: int | None) -> str:
    return "not known" if number is None else f"{number} tokens"


def _find(client: "Client", provider: str) -> "LlmProviderView | None":
    try:
        return client.llm_providers.get(provider)
    except HttpNotFound:
        return None


def _read_key(variable: str | None) -> str:
    if variable is not None:
        key = os.environ.get(variable, "")
        source = f"the environment variable {variable}"
    elif sys.stdin.isatty():
        key, source = typer.prompt("Key of the provider", hide_input=True), "what was typed"
    else:
        key, source = sys.stdin.readline(), "the standard input"
    if not key.strip():
        raise UnusableRequest(f"{source} has no key")
    return key.strip()


def _ending(stored: "LlmProviderView") -> str:
    return "that was given" if stored.api_key_last4 is None else f"that ends in {stored.api_key_last4}"


def _print_list(found: "Sequence[LlmProviderView]", *, total_count: int) -> None:
    if not found:
        print("The organization has no key of its own; those of the deployment are used.")
        return
    print_table(
        ("provider", "key ends in", "address", "requests a minute", "tokens a minute", "paused", "changed"),
        [
            (
                each.provider,
                each.api_key_last4,
                each.api_base or "the usual one",
                each.requests_per_minute,
                each.tokens_per_minute,
                each.paused_at,
                each.updated_at,
            )
            for each in found
        ],
        whole=("provider",),
    )
    print_more(len(found), total_count=total_count)
