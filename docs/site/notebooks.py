"""The gallery: notebooks as pages, with what they printed and drew when they were executed."""

import json
from base64 import b64decode
from pathlib import Path
from typing import Any


def gallery_pages(folder: Path) -> dict[str, str | bytes]:
    """Return a page for each notebook, its pictures, and a page that shows one picture of each."""
    pages: dict[str, str | bytes] = {}
    shown, contents = "", ""
    for path in sorted(folder.glob("*.ipynb")):
        text, pictures = notebook_page(path)
        pages[f"gallery/{path.stem}.md"] = text
        pages |= {f"gallery/{name}": data for name, data in pictures.items()}
        title, _, rest = text.removeprefix("# ").partition("\n")
        said = rest.strip().split("\n\n")[0]
        first = next(iter(pictures), None)
        picture = f"[![{title}]({first})]({path.stem}.md)\n\n" if first else ""
        words = f"**[{title}]({path.stem}.md)**\n\n{said}"
        shown += f":::{{container}} card\n{picture}{words}\n:::\n\n"
        contents += f"{path.stem}\n"
    pages["gallery/index.md"] = (
        "# Gallery\n\nNotebooks, each executed by the tests; what they print is what is shown. "
        "They are in the folder `examples` of the sources.\n\n"
        f"::::{{container}} cards\n{shown}::::\n\n"
        f"```{{toctree}}\n:hidden:\n\n{contents}```\n"
    )
    return pages


def notebook_page(path: Path) -> tuple[str, dict[str, bytes]]:
    """Return a notebook as Markdown, and its pictures by name."""
    text, pictures = "", {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            text += f"{source}\n\n"
            continue
        text += f"```python\n{source}\n```\n\n"
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                name = f"{path.stem}_{len(pictures)}.png"
                pictures[name] = b64decode(data["image/png"])
                text += f"![what the cell above draws]({name})\n\n"
            elif printed := _text(output):
                text += f"```text\n{printed}\n```\n\n"
    return text, pictures


def _text(output: dict[str, Any]) -> str:
    lines = output.get("text") or output.get("data", {}).get("text/plain", "")
    return "".join(lines).rstrip()
