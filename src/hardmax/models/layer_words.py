"""The words for the layers, groups and forms of a network: *block 0, head 1, key 3*.

All numbers start at 0, as indices do. Every message, legend, table and page takes its words from
`ArgmaxNetwork.words`; the model that a network was made from chooses them. Two programs that cannot
import this file have the same words, and the tests compare them: `verify/verify.py` and
`explorer/page/models.js`.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hardmax._ground.display import html_card, short_repr

HEADS, UNITS = "heads", "units"
"""The kinds of layers whose groups are the heads, or the units, of a model."""
_HEADS, _UNITS = ("head", "key"), ("unit", "form")


class LayerWords(NamedTuple):
    """The words for one layer.

    Attributes:
        place: The layer: `block 0` or `layer 0`.
        group: A group of it: `head`, `unit` or `group`.
        form: A form of a group: `key` or `form`.

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
            form: The index of the form within the group, as signatures have it.
        """
        name = f"{self.place}, {self.group} {group}"
        return name if form is None else f"{name}, {self.form} {form}"

    def find_group(self, name: str) -> int | None:
        """Return the index of the group that a name stands for; None if it is not of this layer."""
        pattern = rf"{re.escape(self.place)}, {self.group} (\d+)(, {self.form} \d+)?"
        found = re.fullmatch(pattern, name, re.ASCII)
        return int(found[1]) if found else None


def infer_words(kinds: Sequence[str | None]) -> tuple[LayerWords, ...]:
    """Return the words for a network from the kinds of its layers.

    With heads, a block begins with them; units belong to the block of the heads right before them,
    and are a block of their own otherwise. Without heads there are layers of units. With a layer of
    no known kind there are layers of groups.

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
        blocks: For each block whether it has heads and whether it has units.
        place: What a block is called.

    Examples:
        >>> [words.name(1) for words in block_words([(True, False), (False, True)])]
        ['block 0, head 1', 'block 1, unit 1']
    """
    words = []
    for i, (has_heads, has_units) in enumerate(blocks):
        words += [LayerWords(f"{place} {i}", *_HEADS)] * has_heads
        words += [LayerWords(f"{place} {i}", *_UNITS)] * has_units
    return tuple(words)
