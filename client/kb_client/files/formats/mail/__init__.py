"""Mails: the parts that a mail program shows."""
