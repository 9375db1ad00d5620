"""The headlines of the report: what holds, what is false and what is new, one sentence each."""

from typing import NamedTuple


class Finding(NamedTuple):
    """A true sentence, and the claims of the ledger that it answers; no claims if it is new.

    Attributes:
        sentence: The sentence.
        claims: Ids of claims in the ledger; their verdicts appear next to the sentence.
        experiment: The experiment that shows it; empty if there is none.
    """

    sentence: str
    claims: tuple[str, ...] = ()
    experiment: str = ""


class Citation(NamedTuple):
    """A work as cited in a bibliography, with its address if it has one."""

    authors: str
    title: str
    where: str
    address: str = ""


FINDINGS = (
    Finding(
        "As the temperature tends to 0, a head assigns each query to a single key, the winner in "
        "a power diagram of the keys. Several heads together partition space by the normal fan of "
        "a Minkowski sum.",
        ("IV.3a", "III.13a"),
        "fig3",
    ),
    Finding(
        "Depth multiplies the number of cells. With a query bias, the paper's construction has at "
        "least N^(dL) routing cells; here it is built, and up to 262\u00a0144 of them are counted.",
        ("V.7d", "V.9c"),
        "fig1",
    ),
    Finding(
        "Softmax is exponentially close to its limit where the margin is large compared with the "
        "temperature.",
        ("VI.1a", "VI.3a"),
        "persistence",
    ),
    Finding(
        "Every maxout network can be written explicitly as a transformer; here the transformer "
        "has a certified error.",
        ("B.1", "B.4"),
        "emulation",
    ),
    Finding(
        "Without biases, all walls pass through the origin and N^(dL) is out of reach: each layer "
        "loses one power of N.",
        ("I.3a", "V.9a"),
        "growth",
    ),
    Finding(
        "Three heads with six keys in space have at most 92 vertices, not 216. For more heads "
        "than dimensions, the stated order (NH)^floor(d/2) is too small [Wei12].",
        ("Fig4", "V.2b"),
        "fig4",
    ),
    Finding(
        "Two layers of three ReLU units have at most 34 regions, not 49.",
        ("Fig2",),
        "fig2",
    ),
    Finding(
        "A key never wins alone if it lies in the convex hull of the others, whatever its norm.",
        ("Fig3",),
        "fig3",
    ),
    Finding(
        "The standard scaling is the temperature sqrt(d_k), not 1/sqrt(d_k). At a margin of 2, "
        "the winner of 512 keys may have as little as a quarter of a percent of the weight, where "
        "the paper finds 99.98 percent.",
        ("VI.2a", "VI.2e"),
        "ex-VI2",
    ),
    Finding(
        "A block is not the common refinement of its two halves, and it jumps at routing walls: "
        "hard transformers are not continuous.",
        ("Fig7a", "III-E.5"),
        "fig7",
    ),
    Finding(
        "The bound on the curvature at finite temperature fails; a sharp bound replaces it.",
        ("VI.1c",),
    ),
    Finding(
        "The regions of transformers, whose enumeration the paper calls intractable even for five "
        "keys in the plane, are counted exactly, and each count has a certificate that anyone can "
        "check.",
        ("VII.1b",),
        "fig6a",
    ),
    Finding(
        "The exact maximum number of cells of a layer, with and without bias, for every number of "
        "heads and every dimension, and keys that attain it.",
        experiment="growth",
    ),
    Finding(
        "The largest number of regions of two ReLU layers, with up to three units in the first, "
        "and networks that attain it.",
        experiment="fig2",
    ),
    Finding(
        "Maxout networks, meshes and continuous functions are compiled to standard transformers, "
        "and the regions of these transformers are counted.",
        experiment="deep",
    ),
    Finding(
        "Log-lifted attention can have more linear regions than its routing has cells; both are "
        "counted exactly.",
        experiment="log-lift",
    ),
    Finding(
        "Proven lower and upper bounds on the number of cells of a hard model that persist at a "
        "given temperature.",
        experiment="persistence",
    ),
    Finding(
        "Top-k and sparsemax attention also have exact cells, sparsemax at every temperature.",
        experiment="sparsemax",
    ),
)

BIBLIOGRAPHY = {
    "SL26": Citation(
        "Y. Su, Y. Liu",
        "Expressivity of Transformers: A Tropical Geometry Perspective",
        "2026",
        "https://arxiv.org/abs/2604.14727",
    ),
    "GYZ26": Citation(
        "L. Gu, L. Yang, F. Zhou",
        "On the Expressive Power of Transformers for Maxout Networks and Continuous Piecewise "
        "Linear Functions",
        "2026",
        "https://arxiv.org/abs/2603.03084",
    ),
    "Lin86": Citation(
        "N. Linial",
        "Hard enumeration problems in geometry and combinatorics",
        "SIAM Journal on Algebraic and Discrete Methods 7, 1986",
    ),
    "Mon17": Citation(
        "G. Montúfar",
        "Notes on the number of linear regions of deep neural networks",
        "SampTA, 2017",
    ),
    "Wei12": Citation(
        "C. Weibel",
        "Maximal f-vectors of Minkowski sums of large numbers of polytopes",
        "Discrete & Computational Geometry 47, 2012",
    ),
}
"""The works that the report cites."""
