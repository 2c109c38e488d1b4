"""Errors of the console's own. Those of the API are `kb_client.errors`."""


class SignedOut(Exception):
    """There is no session, or the session has ended."""


class NotOfThisOrganization(Exception):
    """The page is of another organization than the session."""


class UnusableForm(Exception):
    """A form has values that can't be sent to the API, such as a size that is no number."""

    def __init__(self, fields: dict[str, str]) -> None:
        super().__init__("the form has values that can't be used")
        self.fields = fields
        """Message of each unusable field."""
