"""The group of commands `kb knowledge`."""

from kb_client.command_line.command_group import command_group

app = command_group("knowledge", about="Write, fetch, import and search knowledge of the organization.")
