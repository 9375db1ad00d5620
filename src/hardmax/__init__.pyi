from .algebra.forms import AffineForms as AffineForms
from .errors import HardmaxError as HardmaxError

__version__: str
