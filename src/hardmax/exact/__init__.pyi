from .decisions import Decisions as Decisions
from .dyadic import ScaledIntegers as ScaledIntegers
from .dyadic import scaled_integers as scaled_integers
from .exact_forms import ExactForms as ExactForms
