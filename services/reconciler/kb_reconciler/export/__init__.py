"""Writes one KB to a file (`.kbx`), and creates a KB from such a file. docs/reference/kbx.md describes the file."""
