import typer


def command_group(name: str, *, about: str) -> typer.Typer:
    """Return an empty group of commands, such as `kb docs`."""
    return typer.Typer(
        name=name, help=about, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
    )
