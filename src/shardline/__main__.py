"""The entry of the program: `shardline`, or `python -m shardline`."""

import sys

from shardline.errors import MissingExtra, optional_import
from shardline.secret_arguments import hide_secrets

_USAGE = 2


def main() -> None:
    """Run the command line, or print in one line which extra it needs."""
    hide_secrets()
    try:
        with optional_import("the command line"):
            from shardline.cli import main as run
    except MissingExtra as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(_USAGE)
    run()


if __name__ == "__main__":
    main()
