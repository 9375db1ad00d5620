"""Public names in running text link to the reference, citations to the list of references."""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import make_refnode

KINDS = ("class", "function", "exception", "data")
CITATION = re.compile(r"\[([A-Z][A-Za-z]*\d\d)\]")
CALL = re.compile(r"(?:hm\.|hardmax\.)?(\w+(?:\.\w+)*)(?:\(.*\))?", re.DOTALL)


def entries(objects: dict[str, Any]) -> dict[str, Any]:
    """Return entries of the reference by every name that means only one of them.

    Examples:
        >>> found = entries({"hardmax.Box": 1, "hardmax.bounds.zaslavsky": 2, "hardmax.models": 3})
        >>> found["Box"], found["bounds.zaslavsky"], found["zaslavsky"]
        (1, 2, 2)
    """
    short: dict[str, list[Any]] = {}
    for name, entry in objects.items():
        parts = name.removeprefix("hardmax.").split(".")
        for k in range(len(parts)):
            short.setdefault(".".join(parts[k:]), []).append(entry)
    return {name: found[0] for name, found in short.items() if len(found) == 1}


class LinkNames(SphinxPostTransform):
    """Make references of code spans that are public names."""

    default_priority = 900

    def run(self, **kwargs: Any) -> None:
        """Go through the code spans of a page."""
        domain = self.env.domains["py"]
        known = entries(
            {
                name: entry
                for name, entry in domain.objects.items()
                if entry.objtype in KINDS and not entry.aliased
            }
        )
        for node in list(self.document.findall(nodes.literal)):
            match = CALL.fullmatch(node.astext())
            entry = known.get(match[1]) if match else None
            if entry is None or _is_linked(node):
                continue
            page, code = self.env.docname, node.deepcopy()
            node.replace_self(
                make_refnode(self.app.builder, page, entry.docname, entry.node_id, code)
            )


class LinkCitations(SphinxPostTransform):
    """Make references of citations such as [SL26]."""

    default_priority = 901

    def run(self, **kwargs: Any) -> None:
        """Go through the text of a page."""
        known = self.env.domains["std"].anonlabels
        for node in list(self.document.findall(nodes.Text)):
            parts = CITATION.split(str(node))
            if (
                len(parts) == 1
                or isinstance(node.parent, nodes.literal | nodes.strong)
                or _is_linked(node)
            ):
                continue
            made: list[nodes.Node] = []
            for k, part in enumerate(parts):
                page, anchor = known.get(part.lower(), (None, None)) if k % 2 else (None, None)
                if page is None:
                    made.append(nodes.Text(f"[{part}]" if k % 2 else part))
                else:
                    text = nodes.Text(f"[{part}]")
                    made.append(
                        make_refnode(self.app.builder, self.env.docname, page, anchor, text)
                    )
            node.parent.replace(node, made)


def _is_linked(node: nodes.Node) -> bool:
    while node is not None:
        if isinstance(node, nodes.reference | nodes.title | nodes.literal_block):
            return True
        node = node.parent
    return False


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the transform."""
    app.add_post_transform(LinkNames)
    app.add_post_transform(LinkCitations)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
