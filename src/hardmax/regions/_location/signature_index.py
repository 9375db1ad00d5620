"""Finding signatures among many: by a hash, then by comparison."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hardmax.typing import AnyArray, IntArray

_ENTRIES_AT_ONCE = 1 << 20


@lru_cache(maxsize=64)
def hash_weights(n_groups: int) -> AnyArray:
    """Return the words that hash signatures, shape `(n_groups,)`, the same for every call."""
    weights = np.random.Generator(np.random.Philox(key=0)).integers(
        0, 1 << 64, size=n_groups, dtype=np.uint64
    )
    # Odd, so that signatures that differ in one entry never share a hash.
    weights |= np.uint64(1)
    return weights


def hashed_signatures(names: AnyArray) -> AnyArray:
    """Hash signatures to 64 bits: random weights, the same for every call and every chunk.

    Two signatures share a hash with probability at most about $2^{-63}$, and never if they differ
    in one entry only.

    Args:
        names: Shape `(n, n_groups)`, whole numbers.

    Returns:
        Shape `(n,)`.
    """
    weights = hash_weights(names.shape[1])
    hashes = np.empty(len(names), dtype=np.uint64)
    step = max(1, _ENTRIES_AT_ONCE // max(names.shape[1], 1))
    for start in range(0, len(names), step):
        chunk = slice(start, start + step)
        hashes[chunk] = names[chunk].astype(np.uint64) @ weights
    return hashes


@dataclass(frozen=True, eq=False)
class SignatureIndex:
    """Signatures, sorted by their hashes.

    Attributes:
        signatures: All of them, different, shape `(n, n_groups)`.
        hashes: Their hashes, rising, shape `(n,)`.
        order: Which signature each is the hash of, shape `(n,)`.

    Examples:
        >>> index = SignatureIndex.of(np.array([[0, 1], [1, 0], [1, 1]], dtype=np.uint8))
        >>> index.find(np.array([[1, 1], [0, 0], [0, 1]])).tolist()
        [2, -1, 0]
    """

    signatures: AnyArray
    hashes: AnyArray
    order: IntArray

    @classmethod
    def of(cls, signatures: AnyArray) -> "SignatureIndex":
        """Sort signatures."""
        hashes = hashed_signatures(signatures)
        order = np.argsort(hashes)
        return cls(signatures, hashes[order], order)

    def find(self, names: AnyArray) -> IntArray:
        """Return the place of each of the given signatures, shape `(n_names,)`, or -1."""
        found = np.full(len(names), -1, dtype=np.int64)
        wanted = hashed_signatures(names)
        place = np.searchsorted(self.hashes, wanted)
        left = np.arange(len(names))
        while True:
            # Different signatures may share a hash; they are one after the other.
            left = left[place[left] < len(self.hashes)]
            left = left[self.hashes[place[left]] == wanted[left]]
            if not len(left):
                return found
            candidates = self.order[place[left]]
            is_it = (self.signatures[candidates] == names[left]).all(axis=1)
            found[left[is_it]] = candidates[is_it]
            left = left[~is_it]
            place[left] += 1
