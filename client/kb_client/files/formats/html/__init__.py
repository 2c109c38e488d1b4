"""Web pages: what a browser shows of them, as Markdown."""
