"""Asks the service of this container for `/healthz`: exit status 0 if it answers 200. The HEALTHCHECK of the images."""

import os
import sys
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException

TIMEOUT_S = 3


def is_healthy(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == HTTPStatus.OK
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(not is_healthy(int(os.environ["KB_HTTP_PORT"])))
