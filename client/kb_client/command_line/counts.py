"""Numbers of things, as commands say them."""


def count_documents(count: int) -> str:
    return "1 document" if count == 1 else f"{count:,} documents"
