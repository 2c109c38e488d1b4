"""Rows of cells as lines of text, whatever file they stand in."""
