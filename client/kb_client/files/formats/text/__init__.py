"""Characters: their encodings, raised and lowered ones, and lines that Markdown would take for markup."""
