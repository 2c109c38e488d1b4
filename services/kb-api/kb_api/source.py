from typing import Final

SOURCE: Final = "/kb/api"
"""The CloudEvents `source` of what this service publishes."""
