"""`python -m kb_local.model_server --port N`: serve until SIGTERM or Ctrl-C, then exit 0."""

import argparse
import ipaddress
import signal
import socket
import sys

import uvicorn

from kb_local.model_server.app import create_app
from kb_local.serve_process import serve_until_signal
from kb_shared.http.keep_alive import KEEP_ALIVE_S


def main() -> None:
    """Print the base URL, then serve; on port 0 the system chooses a port."""
    options = _options()
    # Until it serves.
    for stop in (signal.SIGTERM, signal.SIGINT):
        signal.signal(stop, lambda *_: sys.exit(0))
    listening = _listen(options.host, options.port)
    host, port = listening.getsockname()[:2]
    print(f"model server at http://{f'[{host}]' if ':' in host else host}:{port}/v1", flush=True)
    config = uvicorn.Config(
        create_app(hash_only=options.hash_only),
        log_level="warning",
        # Enough for a query; a long request or a fault that hangs is cut off.
        timeout_graceful_shutdown=1,
        timeout_keep_alive=KEEP_ALIVE_S,
    )
    serve_until_signal(config, listening)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m kb_local.model_server", description=__doc__)
    parser.add_argument("--host", type=_loopback, default="127.0.0.1", help="a loopback address")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--hash-only", action="store_true", help="of embedding models serve only the hash models")
    return parser.parse_args()


def _loopback(host: str) -> str:
    """Return the address of `host`; without authentication, only this machine may connect."""
    address = "127.0.0.1" if host == "localhost" else host
    if not ipaddress.ip_address(address).is_loopback:
        raise argparse.ArgumentTypeError(f"{host!r} is not a loopback address")
    return address


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named because asyncio turns off the 40 ms delay of small packets only where it is.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        # Listen before the base URL is printed, because its reader may connect at once.
        listening.listen()
    except OSError as taken:
        sys.exit(f"cannot listen on {host}:{port}: {taken.strerror}; choose another with --port")
    return listening


if __name__ == "__main__":
    main()
