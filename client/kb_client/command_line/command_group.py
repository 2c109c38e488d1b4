from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from kb_client.command_line.command_tree import first_sentence
from kb_client.command_line.examples import examples

_SECTIONS: Final = {
    "Ask": ("ask", "chat", "search", "open"),
    "Documents and knowledge": ("docs", "kb", "knowledge"),
    "Prompts, agents and models": ("prompts", "agents", "providers"),
    "A stack on this machine": ("up", "status", "logs", "restart", "down", "doctor", "demo"),
    "Operation": ("operations", "usage", "budget", "keys", "admin", "events", "webhooks", "dlq"),
    "Database and broker, without the API": ("set-up", "backup", "restore", "export", "import", "reconcile"),
    "This command": ("login", "config", "completion", "help"),
}
_OTHERS: Final = "Of other packages"


def command_group(name: str, *, about: str) -> typer.Typer:
    """Return an empty group of commands, such as `kb docs`."""
    return typer.Typer(
        name=name, help=about, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
    )


class CommandsInSections(TyperGroup):
    """The command `kb`, whose help has its commands in sections, each with its whole first sentence."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the sections of the help."""
        known = {name for names in _SECTIONS.values() for name in names}
        others = [name for name in self.list_commands(ctx) if name not in known]
        for title, names in {**_SECTIONS, _OTHERS: others}.items():
            self._format_section(formatter, title, [each for each in names if each in self.commands])

    def _format_section(self, formatter: Any, title: str, names: Sequence[str]) -> None:
        if names:
            with formatter.section(title):
                formatter.write_dl([(name, first_sentence(self.commands[name].help or "")) for name in names])


def register(app: typer.Typer) -> None:
    """Add `kb help`."""
    app.command("help", epilog=examples("kb help docs push"))(show_help)


def show_help(
    context: typer.Context,
    words: Annotated[list[str] | None, typer.Argument(metavar="COMMAND", help="Command, such as docs push.")] = None,
) -> None:
    """Show the help of a command, or of all."""
    root = context.find_root()
    command: Any = root.command
    for word in words or ():
        found = getattr(command, "commands", {}).get(word)
        if found is None:
            raise typer.BadParameter(f"there is no command {word!r}: `kb help` lists them")
        root = command.context_class(found, info_name=word, parent=root)
        command = found
    print(command.get_help(root))
