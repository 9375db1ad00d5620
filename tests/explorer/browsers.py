"""The browsers in which the tests open the explorer's page."""

import shutil

BROWSERS = "chromium", "chromium-browser", "google-chrome"


def installed_browser():
    """Return the command of a browser on the path, or None."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)
