"""The group of commands `kb knowledge sources`."""

from kb_client.command_line.command_group import command_group

app = command_group("sources", about="Have entries fetched from web sites, files and MCP servers.")
