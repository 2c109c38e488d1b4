from typing import Final

SOURCE: Final = "/kb/knowledge"
"""The CloudEvents `source` of what this service publishes."""
