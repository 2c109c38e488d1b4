def in_single_quotes(text: str) -> str:
    """Return a text as one word of bash and zsh, with nothing in it that they expand."""
    return "'" + text.replace("'", "'\\''") + "'"
