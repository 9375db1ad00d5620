"""All claims, in the order of the papers. One module per subject; each has a tuple `CLAIMS`."""

from functools import cache
from importlib import import_module
from typing import Any

from hardmax.audit.claims import Claim
from hardmax.errors import ArgumentError

# In the order of [SL26], then [GYZ26].
SUBJECTS = (
    "overview",
    "related_work",
    "linear_regions",
    "tropical_functions",
    "polynomial_regions",
    "fans",
    "dequantisation",
    "lifted_polynomials",
    "attention_limit",
    "block_closure",
    "voronoi_routing",
    "cell_values",
    "multi_head",
    "region_bounds",
    "regime_names",
    "lower_bound",
    "closeness",
    "finite_temperature",
    "temperature_regime",
    "persistence",
    "finite_experiments",
    "conclusion",
    "notation",
    "table_of_symbols",
    "minkowski_proof",
    "layer_cells",
    "block_composition",
    "lower_bound_proof",
    "curvature_proof",
    "maxout_emulation",
)

REPEATS = {
    "Fig2": "III.3b",
    "VI.2a": "III-D",
    "VIII.1a": "I.3a",
    "VIII.1b": "I.3b",
    "AppE.6": "III-E.5",
}
"""Entries that say again what another one says; verdicts are counted without them."""


@cache
def all_claims() -> tuple[Claim[Any], ...]:
    """Return every claim of the ledger.

    Examples:
        >>> [claim.id for claim in all_claims()][:2]
        ['Fig1', 'I.1']
    """
    modules = [import_module(f"hardmax.audit.{subject}") for subject in SUBJECTS]
    return tuple(claim for module in modules for claim in module.CLAIMS)


def find_claims(claim_id: str) -> tuple[Claim[Any], ...]:
    """Return the claim with this id, or all parts of it: "V.2" names V.2a and V.2b too.

    Upper and lower case are the same.

    Raises:
        ArgumentError: If there is none.

    Examples:
        >>> [claim.id for claim in find_claims("iv.3")]
        ['IV.3a', 'IV.3b', 'IV.3c', 'IV.3d']
    """
    found = tuple(claim for claim in all_claims() if is_part_of(claim.id, claim_id))
    if not found:
        raise ArgumentError(
            f"`claim` must be one of the ids `hardmax audit --list` prints; got {claim_id!r}."
        )
    return found


def is_part_of(claim_id: str, whole: str) -> bool:
    """Tell whether an id is `whole` or part of it: what follows a dot, or a letter after a number.

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
