from kb_client.errors import KbClientError


class UnusableRequest(KbClientError):
    """A command can't do what was asked. The message says why, and what to do."""
