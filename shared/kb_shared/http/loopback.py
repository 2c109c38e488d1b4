import ipaddress


def is_loopback(host: str) -> bool:
    """Say whether a server that listens on `host` can be reached from its own machine only."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
