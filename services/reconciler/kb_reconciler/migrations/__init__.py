"""Changes of stored data that a new version of the code needs. Each has a file of its own, listed in `registry.py`."""
