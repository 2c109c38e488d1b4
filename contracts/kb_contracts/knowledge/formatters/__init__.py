"""Formatters of one section: templates that an organization writes, which are hostile input.

A template can neither call anything nor reach anything but the knowledge of its section, and each rendering has a
limit of steps and characters. Nothing of a template is compiled to Python.
"""
