"""Webhooks: events are sent to addresses of organizations, signed, again and again for a day."""
