"""How the commands of a page are read."""

from tests.docs.commands import CodeBlock, commands_of_step, parse_blocks, parse_commands, runnable_commands

PAGE = """# Title

```console
$ one \\
    --more
printed
$ two -d '{
  "a": 1
}'
$ cat > file <<'END'
it's text
END
$ three  # it's a comment
```

<!-- not run: needs Docker -->
```console
$ four
```

- a list

  ```console
  $ five
  ```

```json
{"no": "command"}
```

```console
$ make up
$ make demo status
$ make down && six
```
"""


def test_commands_are_found_with_what_they_print() -> None:
    first, *_ = parse_blocks(PAGE)
    assert [(command.text, command.output) for command in parse_commands(first)] == [
        ("one \\\n    --more", "printed"),
        ("two -d '{\n  \"a\": 1\n}'", ""),
        ("cat > file <<'END'\nit's text\nEND", ""),
        ("three  # it's a comment", ""),
    ]
    assert [command.line for command in parse_commands(first)] == [4, 7, 10, 13]


def test_commands_with_a_reason_and_commands_that_only_call_make_are_not_run() -> None:
    assert [command.text for command in runnable_commands(PAGE)][4:] == ["five", "make down && six"]
    assert [block.not_run for block in parse_blocks(PAGE)] == [None, "needs Docker", None, None, None]


def test_targets_of_make_are_known() -> None:
    last = parse_blocks(PAGE)[-1]
    assert [command.make_targets for command in parse_commands(last)] == [
        ["up"],
        ["demo", "status"],
        [],
    ]


def test_a_block_of_sh_is_one_command() -> None:
    (command,) = parse_commands(CodeBlock(7, "sh", "A=1\necho $A\n", None))
    assert (command.line, command.text) == (8, "A=1\necho $A\n")


def test_commands_of_a_step_of_a_runbook_are_run_only_for_its_fault() -> None:
    page = "<!-- run: resolve -->\n```console\n$ kb restart mongod\n```\n\n```console\n$ kb status\n```\n"
    assert [command.text for command in commands_of_step(page, "resolve")] == ["kb restart mongod"]
    assert commands_of_step(page, "diagnose") == []
    assert [command.text for command in runnable_commands(page)] == ["kb status"]
