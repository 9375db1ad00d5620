"""The headlines of the report: what holds, what is false and what is new, in a sentence each."""

from typing import NamedTuple


class Finding(NamedTuple):
    """A sentence that is true, and the claims of the ledger it answers; none if it is new.

    Attributes:
        sentence: What is so.
        claims: Ids of the ledger whose verdicts stand beside it.
        experiment: The experiment that shows it; empty if none does.
    """

    sentence: str
    claims: tuple[str, ...] = ()
    experiment: str = ""


class Work(NamedTuple):
    """A work as a bibliography cites it, with its address if it has one."""

    authors: str
    title: str
    where: str
    address: str = ""


FINDINGS = (
    Finding(
        "As the temperature falls, a head hands each query to one key: the winner of a power "
        "diagram of the keys. Heads together cut space as the normal fan of a Minkowski sum.",
        ("IV.3a", "III.13a"),
        "fig3",
    ),
    Finding(
        "Depth multiplies cells: with a query bias the construction of the paper has N^(dL) "
        "routing cells and more, built and counted here up to 262\u00a0144.",
        ("V.7d", "V.9c"),
        "fig1",
    ),
    Finding(
        "Softmax is exponentially close to its limit where the margin is large against the "
        "temperature.",
        ("VI.1a", "VI.3a"),
        "persistence",
    ),
    Finding(
        "Every maxout network becomes a transformer that can be written down; here it comes with "
        "a certified error.",
        ("B.1", "B.4"),
        "emulation",
    ),
    Finding(
        "Without biases all walls pass through the origin, and N^(dL) is out of reach: each layer "
        "loses one power of N.",
        ("I.3a", "V.9a"),
        "growth",
    ),
    Finding(
        "Three heads with six keys in space have at most 92 vertices, not 216, and for more heads "
        "than dimensions the stated order (NH)^floor(d/2) is too small [Wei12].",
        ("Fig4", "V.2b"),
        "fig4",
    ),
    Finding(
        "Two layers of three ReLU units make at most 34 regions, not 49.",
        ("Fig2",),
        "fig2",
    ),
    Finding(
        "A key is dead if it lies in the hull of the others, not if its norm is small.",
        ("Fig3",),
        "fig3",
    ),
    Finding(
        "The standard scaling is the temperature sqrt(d_k), not 1/sqrt(d_k): a margin of 2 leaves "
        "the winner of 512 keys as little as a quarter of a percent of the weight, where the paper "
        "finds 99.98 percent.",
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
        "The bound on the curvature at finite temperature fails; a sharp one takes its place.",
        ("VI.1c",),
    ),
    Finding(
        "Regions of transformers, called intractable even for five keys in the plane, are counted "
        "exactly, each count with a certificate that anyone can check.",
        ("VII.1b",),
        "fig6a",
    ),
    Finding(
        "The sharp number of cells of a layer, with and without bias, for every number of heads "
        "and every dimension, and keys that attain it.",
        experiment="growth",
    ),
    Finding(
        "The largest number of regions of two ReLU layers, the first of up to three units, and "
        "networks that have it.",
        experiment="fig2",
    ),
    Finding(
        "Maxout networks, meshes and continuous functions compiled to standard transformers, and "
        "the regions of these counted.",
        experiment="deep",
    ),
    Finding(
        "Log-lifted attention has more linear regions than routing has cells, counted exactly.",
        experiment="log-lift",
    ),
    Finding(
        "How many cells of a hard model survive at a given temperature, with proofs from both "
        "sides.",
        experiment="persistence",
    ),
    Finding(
        "Top-k and sparsemax attention have exact cells too, the latter at every temperature.",
        experiment="sparsemax",
    ),
)

BIBLIOGRAPHY = {
    "SL26": Work(
        "Y. Su, Y. Liu",
        "Expressivity of Transformers: A Tropical Geometry Perspective",
        "2026",
        "https://arxiv.org/abs/2604.14727",
    ),
    "GYZ26": Work(
        "L. Gu, L. Yang, F. Zhou",
        "On the Expressive Power of Transformers for Maxout Networks and Continuous Piecewise "
        "Linear Functions",
        "2026",
        "https://arxiv.org/abs/2603.03084",
    ),
    "Lin86": Work(
        "N. Linial",
        "Hard enumeration problems in geometry and combinatorics",
        "SIAM Journal on Algebraic and Discrete Methods 7, 1986",
    ),
    "Mon17": Work(
        "G. Montúfar",
        "Notes on the number of linear regions of deep neural networks",
        "SampTA, 2017",
    ),
    "Wei12": Work(
        "C. Weibel",
        "Maximal f-vectors of Minkowski sums of large numbers of polytopes",
        "Discrete & Computational Geometry 47, 2012",
    ),
}
"""The works the report names."""
