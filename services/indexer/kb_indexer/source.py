from typing import Final

SOURCE: Final = "/kb/indexer"
"""The CloudEvents `source` of what this service publishes."""
