"""`kb open`: the web console in a browser, signed in."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from kb_client.command_line.connection import GivenConnection, find_configuration
from kb_client.command_line.examples import examples
from kb_client.command_line.output import print_answer
from kb_client.command_line.output_format import OutputWithoutIds

if TYPE_CHECKING:
    from kb_client.configuration import Configuration

CODES: Final = "/console/sign-in/codes"
_TIMEOUT_S: Final = 30.0


def register(app: typer.Typer) -> None:
    """Add `kb open`."""
    app.command("open", epilog=examples("kb open", "kb open --no-browser"))(open_in_browser)


def open_in_browser(
    context: typer.Context,
    *,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the link, which is valid once and for a minute.")
    ] = False,
    output: OutputWithoutIds = "table",
) -> None:
    """Open the web console in a browser, signed in with the key of this command by a link that works once."""
    import webbrowser

    given = context.obj if isinstance(context.obj, GivenConnection) else GivenConnection()
    configuration = find_configuration(given)
    link = make_link(configuration)
    is_opened = not no_browser and output == "table" and webbrowser.open(link)
    print_answer(
        {"url": link, "is_opened": is_opened},
        output,
        show=lambda: print(f"opened {configuration.base_url}/console/" if is_opened else link),
    )


def make_link(configuration: "Configuration") -> str:
    """Return a link that signs one browser in, within a minute.

    Raises:
        ApiError: the key is not valid, or there is no console at this address.
        ConnectionFailed: no answer came.
    """
    import httpx

    from kb_client.answers import to_error
    from kb_client.errors import ConnectionFailed

    headers = {"Authorization": f"Bearer {configuration.api_key}"}
    try:
        answer = httpx.post(configuration.base_url + CODES, headers=headers, timeout=_TIMEOUT_S)
    except httpx.HTTPError as error:
        raise ConnectionFailed(
            f"the console at {configuration.base_url} can't be reached ({type(error).__name__}). Is it running?",
            was_sent=False,
        ) from error
    if not answer.is_success:
        raise to_error(answer)
    path: str = answer.json()["path"]
    return configuration.base_url + path
