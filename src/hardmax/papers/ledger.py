"""All claims, in the order of the papers. One module per subject; each has a tuple `CLAIMS`."""

from functools import cache
from importlib import import_module
from typing import Any

from hardmax.errors import ArgumentError
from hardmax.papers.claims import Claim

# In the order of [SL26], then [GYZ26].
SUBJECTS = (
    "background.overview",
    "background.related_work",
    "background.linear_regions",
    "background.tropical_functions",
    "background.polynomial_regions",
    "background.fans",
    "background.dequantisation",
    "background.lifted_polynomials",
    "attention.attention_limit",
    "attention.block_closure",
    "attention.voronoi_routing",
    "attention.cell_values",
    "attention.multi_head",
    "counting.region_bounds",
    "counting.regime_names",
    "counting.lower_bound",
    "temperature.closeness",
    "temperature.finite_temperature",
    "temperature.temperature_regime",
    "temperature.persistence",
    "statements.finite_experiments",
    "statements.conclusion",
    "statements.notation",
    "statements.table_of_symbols",
    "attention.minkowski_proof",
    "attention.layer_cells",
    "attention.block_composition",
    "counting.lower_bound_proof",
    "temperature.curvature_proof",
    "attention.maxout_emulation",
)

REPEATS = {
    "Fig2": "III.3b",
    "VI.2a": "III-D",
    "VIII.1a": "I.3a",
    "VIII.1b": "I.3b",
    "AppE.6": "III-E.5",
}
"""Claims that repeat another claim, with the id of that claim; they are not counted."""


@cache
def all_claims() -> tuple[Claim[Any], ...]:
    """Return every claim of the ledger.

    Examples:
        >>> [claim.id for claim in all_claims()][:2]
        ['Fig1', 'I.1']
    """
    modules = [import_module(f"hardmax.papers.subjects.{subject}") for subject in SUBJECTS]
    return tuple(claim for module in modules for claim in module.CLAIMS)


def find_claims(claim_id: str) -> tuple[Claim[Any], ...]:
    """Return the claim with this id, or all of its parts: "V.2" also selects V.2a and V.2b.

    Case is ignored.

    Raises:
        ArgumentError: If there is no such claim.

    Examples:
        >>> [claim.id for claim in find_claims("iv.3")]
        ['IV.3a', 'IV.3b', 'IV.3c', 'IV.3d']
    """
    found = tuple(claim for claim in all_claims() if is_part_of(claim.id, claim_id))
    if not found:
        raise ArgumentError(
            f"`claim` must be one of the ids that `hardmax audit --list` prints; got {claim_id!r}."
        )
    return found


def is_part_of(claim_id: str, whole: str) -> bool:
    """Return whether an id is `whole` or a part of it, with a suffix such as `.1` or `a`.

    Examples:
        >>> is_part_of("V.2a", "v.2"), is_part_of("Fig6a.1", "Fig6"), is_part_of("III.10", "III.1")
        (True, True, False)
        >>> is_part_of("V.2a", "V"), is_part_of("VI.2a", "V"), is_part_of("V.2a", "")
        (True, False, False)
    """
    if not whole or not claim_id.lower().startswith(whole.lower()):
        return False
    rest = claim_id[len(whole) :]
    return not rest or rest[0] in ".-" or (rest[0].isalpha() and whole[-1].isdigit())
