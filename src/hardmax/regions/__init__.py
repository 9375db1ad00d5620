"""The cells and linear regions of a model, and certificates that the list is complete.

`enumerate_regions`, `Partition` and `verify_certificate` are exported from `hardmax` itself. This
package exports the types of their results, level sets and the maker of certificates.
"""

from hardmax._ground.public_names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
