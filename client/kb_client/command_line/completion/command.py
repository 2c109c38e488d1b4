"""`kb completion`: scripts that complete commands and options in a shell."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kb_client.command_line.examples import examples

if TYPE_CHECKING:
    from kb_client.command_line.command_tree import DescribedCommand

ShellName = Literal["bash", "zsh", "fish"]


def register(app: typer.Typer) -> None:
    """Add the command to `kb`."""
    app.command(
        epilog=examples(
            "kb completion bash > ~/.local/share/bash-completion/completions/kb",
            "kb completion zsh > ~/.zsh/completions/_kb",
            "kb completion fish > ~/.config/fish/completions/kb.fish",
        )
    )(completion)


def completion(
    context: typer.Context, shell: Annotated[ShellName, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")]
) -> None:
    """Print a script with which a shell completes commands, options, and names of knowledge bases and profiles.

    The script has all commands of this version in it: write it again after an update. For names of knowledge bases it
    asks the server, for a second at most. Where the file has to be depends
    on the shell; zsh also needs `fpath=(~/.zsh/completions $fpath)` before `compinit` in ~/.zshrc.
    """
    from kb_client.command_line.command_tree import describe_commands

    print(completion_script(list(describe_commands(context.find_root().command)), shell), end="")


def completion_script(commands: "Sequence[DescribedCommand]", shell: ShellName) -> str:
    """Return the script of a shell."""
    match shell:
        case "bash":
            from kb_client.command_line.completion.bash import bash_script

            return bash_script(commands)
        case "zsh":
            from kb_client.command_line.completion.zsh import zsh_script

            return zsh_script(commands)
        case "fish":
            from kb_client.command_line.completion.fish import fish_script

            return fish_script(commands)
