"""Serves one model file with llama.cpp's server until its standard input is closed. Runs in an environment of its own.

.venv-models/bin/python tests/models/llama_server.py MODEL.gguf PORT
"""

import sys

from xllamacpp import CommonParams, Server  # type: ignore[import-not-found]  # it is in the other environment

CONTEXT_TOKENS = 4_096


def main() -> None:
    path, port = sys.argv[1:]
    params = CommonParams()
    params.model.path = path
    params.hostnames = ["127.0.0.1"]
    params.port = int(port)
    params.n_ctx = CONTEXT_TOKENS
    params.n_parallel = 1
    params.use_jinja = True
    params.warmup = False
    server = Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
