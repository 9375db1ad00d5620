"""Make the relative links of the README absolute, for pages that show it away from the sources.

    python release/absolute_links.py ADDRESS < README.md

ADDRESS is where the files of the release are shown, with a slash at its end; pictures come from the
same place.
"""

import re
import sys


def absolute(text: str, address: str) -> str:
    """Return Markdown whose links to files begin with an address.

    Examples:
        >>> absolute("[a](docs/a.md) [b](#b) ![c](c.png)", "https://example.org/v1/")
        '[a](https://example.org/v1/docs/a.md) [b](#b) ![c](https://example.org/v1/c.png)'
    """
    return re.sub(r"\]\((?!https?:|#)", f"]({address}", text)


if __name__ == "__main__":
    sys.stdout.write(absolute(sys.stdin.read(), sys.argv[1]))
