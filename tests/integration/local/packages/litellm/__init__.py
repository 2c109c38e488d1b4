"""Stands in for the real one, whose import costs seconds: the dummy service embeds nothing."""
