"""`kb demo`: the system's main job on real documents, from an upstream's events to search results."""

from kb_local.demo.command import run

__all__ = ["run"]
