"""Messages between services: CloudEvents 1.0 in JSON. These models are the source of docs/schemas.

Evolve by adding optional fields. Every example under tests/contract/examples must parse for ever.
"""
