"""Writes the OpenAPI document: `python -m tests.openapi`; with `--release`, that of the last release, too."""

import argparse

from tests.openapi.document import PACKAGED, RELEASED, build, render


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.openapi", description=__doc__)
    parser.add_argument("--release", action="store_true", help="later changes must be compatible with this document")
    options = parser.parse_args()
    text = render(build())
    PACKAGED.write_text(text)
    if options.release:
        RELEASED.write_text(text)


if __name__ == "__main__":
    main()
