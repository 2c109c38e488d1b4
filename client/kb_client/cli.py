"""The `kb` command. Its subcommands come from the entry-point group `kb.commands`: functions that take the app."""

from importlib.metadata import entry_points

import typer

COMMAND_GROUP = "kb.commands"


def create_app() -> typer.Typer:
    """Return the command with the subcommands of all installed packages."""
    app = typer.Typer(
        name="kb",
        help="Run and use knowledge bases over documents.",
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
    """Run one command. Exit status: 0 success, 1 failure, 2 wrong usage."""
    create_app()()
