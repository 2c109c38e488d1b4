"""Curated knowledge: its models, and the decisions that services and clients make in the same way, byte for byte."""
