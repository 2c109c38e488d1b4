"""Reads of curated knowledge: entries, and what is known about an entity."""
