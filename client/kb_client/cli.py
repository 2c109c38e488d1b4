"""The `kb` command. Its subcommands come from the entry-point group `kb.commands`: functions that take the app."""

from importlib.metadata import entry_points

import typer

COMMAND_GROUP = "kb.commands"


def create_app() -> typer.Typer:
    """Return the command with everything that the installed packages register."""
    app = typer.Typer(
        name="kb",
        help="Knowledge bases over documents: run them, fill them, search them.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(lambda: None)
    for entry_point in sorted(entry_points(group=COMMAND_GROUP), key=lambda each: each.name):
        entry_point.load()(app)
    return app


def main() -> None:
    """Run one command: 0 when it did what was asked, 1 when that failed, 2 when it was called wrongly."""
    create_app()()
