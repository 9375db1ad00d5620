"""hardmax: the exact geometry of transformers at zero temperature.

    models      AttentionHead, FeedForward, Block, HardTransformer, ReluNetwork, MaxoutNetwork,
                load_model, save_model, from_torch, to_torch, from_onnx, load_onnx,
                load_checkpoint, analyze_heads
    domains     Box, WholeSpace, Segment, Ray, Line, Slice, Polytope, Simplex, parse_domain
    regions     enumerate_regions -> Partition, sample_regions, save_partition, load_partition,
                open_partition, cell_at (the cell around a point)
    proofs      Certificate (of a partition), verify_certificate -> Verdict
    diagrams    PowerDiagram, AffineForms, extreme_points, certify_extreme_points,
                minkowski_vertices
    algebra     maxplus, minplus, deformed_add, TropicalPolynomial, TropicalRationalMap
    pictures    plot, explore (an interactive page)
    the rest    Record (a result with its origin), HardmaxError (the base class of all exceptions),
                set_workers (the default number of workers), set_progress (whether it is shown)

Every other public name is in one of these packages; `dir(hardmax.models)` lists the names of one:

    models         variants of attention, token transformers, argmax layers
    regions        the parts of a partition: neighbours, statistics, level sets, counts
    bounds         maximum and expected numbers of cells
    constructions  models that attain the bounds; compilers from functions to transformers
    stability      finite temperature: bounds on the distance of the soft model from the hard one
    geometry       convex polyhedra: cones, polytopes, Minkowski sums, refinements
    tropical       max-plus matrices, power diagrams of order k, dual subdivisions
    exact          numbers as scaled integers, and the stages of exact decisions
    papers         the claims of the papers, each with a check
    plotting       pictures of several objects, and the style
    surveys        heads of trained transformers: a table and a page
    explorer       the page that explore returns
    errors, typing exceptions; names of array types

Names are loaded on first use, so `import hardmax` loads neither scipy nor matplotlib nor any extra.
"""

from hardmax._ground.public_names import attach

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = attach(__name__, __file__)
