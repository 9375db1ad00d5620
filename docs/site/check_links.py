"""Follow every link of the built site to its file and its place: `python check_links.py FOLDER`.

Sphinx checks the links it makes itself; this one reads the pages as a browser does. The links of
the README, as a package registry shows it, lead to the same pages, and are followed too.
"""

import re
import sys
from pathlib import Path
from urllib.parse import unquote

from readme_links import ROOT, absolute

LINK = re.compile(r'\b(?:href|src)="([^"]*)"')
LOADED = re.compile(r'<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)="(?:https?:)?//')


def broken_links(folder: Path) -> list[str]:
    """Return what leads nowhere, and what would be loaded from the network, page by page."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.html"))}
    places = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in texts.items()}
    found = []
    for path, text in texts.items():
        page = path.relative_to(folder)
        found += [f"{page}: loads {tag[0]}" for tag in LOADED.finditer(text)]
        for target in LINK.findall(text):
            if re.match(r"[a-z]+:", target) or page.parts[0] == "explorer":
                continue
            file, _, place = target.partition("#")
            file = unquote(file.partition("?")[0])
            end = (path.parent / file).resolve() if file else path
            if not end.exists() or (
                place and unquote(place) not in places.get(end, {unquote(place)})
            ):
                found.append(f"{page}: {target}")
    return found


def broken_on_registry(folder: Path) -> list[str]:
    """Return the links of the README that lead to no page of the site."""
    text = absolute((ROOT / "README.md").read_text(encoding="utf-8"), "site:")
    targets = re.findall(r"\]\(site:/([^)#]*)", text)
    return [f"README.md: {target}" for target in targets if not (folder / target).exists()]


if __name__ == "__main__":
    site = Path(sys.argv[1]).resolve()
    found = broken_links(site) + broken_on_registry(site)
    sys.exit("\n".join(["links that lead nowhere:", *found]) if found else 0)
