"""Names for the layers, groups and forms of a network: *block 0, head 1, key 3*.

All indices start at 0. Every message, legend, table and page takes its words from
`ArgmaxNetwork.words`; the words depend on the model that the network was made from.
`verify/verify.py` and `explorer/page/models.js` cannot import this file and repeat the words; the
tests check that they agree.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hardmax._ground.display import html_card, short_repr

HEADS, UNITS = "heads", "units"
"""The kinds of layers whose groups are the heads or the units of a model."""
_HEADS, _UNITS = ("head", "key"), ("unit", "form")


class LayerWords(NamedTuple):
    """The words for one layer.

    Attributes:
        place: The name of the layer: `block 0` or `layer 0`.
        group: The word for its groups: `head`, `unit` or `group`.
        form: The word for the forms of a group: `key` or `form`.

    Examples:
        >>> words = LayerWords("block 0", "head", "key")
        >>> words.title, words.name(1), words.name(1, 3)
        ('block 0, heads', 'block 0, head 1', 'block 0, head 1, key 3')
        >>> words.find_group("block 0, head 1, key 3"), words.find_group("block 0, unit 1")
        (1, None)
    """

    place: str
    group: str
    form: str

    def __repr__(self) -> str:
        return short_repr(self)

    def _repr_html_(self) -> str:
        return html_card(self)

    @property
    def title(self) -> str:
        """The name of the layer."""
        return f"{self.place}, {self.group}s"

    def name(self, group: int, form: int | None = None) -> str:
        """Return the name of a group, or of a form of it.

        Args:
            group: The index of the group within the layer.
            form: The index of the form within the group, as in a signature.
        """
        name = f"{self.place}, {self.group} {group}"
        return name if form is None else f"{name}, {self.form} {form}"

    def find_group(self, name: str) -> int | None:
        """Return the index of the group with a given name; None if this layer has no such group."""
        pattern = rf"{re.escape(self.place)}, {self.group} (\d+)(, {self.form} \d+)?"
        found = re.fullmatch(pattern, name, re.ASCII)
        return int(found[1]) if found else None


def infer_words(kinds: Sequence[str | None]) -> tuple[LayerWords, ...]:
    """Return the words for a network from the kinds of its layers.

    If there are heads, every layer of heads starts a block. Units belong to the block of the heads
    directly before them, and otherwise form a block of their own. Without heads, the layers are
    numbered layers of units. If any layer has no kind, all layers are numbered layers of groups.

    Args:
        kinds: `HEADS`, `UNITS` or None for each layer.

    Examples:
        >>> [words.name(2) for words in infer_words([HEADS, UNITS, UNITS])]
        ['block 0, head 2', 'block 0, unit 2', 'block 1, unit 2']
        >>> [words.name(2) for words in infer_words([UNITS, UNITS])]
        ['layer 0, unit 2', 'layer 1, unit 2']
        >>> [words.name(2, 3) for words in infer_words([HEADS, None])]
        ['layer 0, group 2, form 3', 'layer 1, group 2, form 3']
    """
    if None in kinds:
        return tuple(LayerWords(f"layer {i}", "group", "form") for i in range(len(kinds)))
    if HEADS not in kinds:
        return tuple(LayerWords(f"layer {i}", *_UNITS) for i in range(len(kinds)))
    blocks: list[tuple[bool, bool]] = []
    for kind in kinds:
        if kind == UNITS and blocks and not blocks[-1][1]:
            blocks[-1] = (True, True)
        else:
            blocks.append((kind == HEADS, kind == UNITS))
    return block_words(blocks)


def block_words(
    blocks: Iterable[tuple[bool, bool]], place: str = "block"
) -> tuple[LayerWords, ...]:
    """Return the words for blocks of heads and units.

    Args:
        blocks: For each block, whether it has heads and whether it has units.
        place: The word for a block.

    Examples:
        >>> [words.name(1) for words in block_words([(True, False), (False, True)])]
        ['block 0, head 1', 'block 1, unit 1']
    """
    words = []
    for i, (has_heads, has_units) in enumerate(blocks):
        words += [LayerWords(f"{place} {i}", *_HEADS)] * has_heads
        words += [LayerWords(f"{place} {i}", *_UNITS)] * has_units
    return tuple(words)
