"""Membership of documents in KBs, and their drift."""

from kb_shared.membership.decision import Action, awaits_text, belongs, decide, membership

__all__ = ["Action", "awaits_text", "belongs", "decide", "membership"]
