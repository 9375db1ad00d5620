from .stability import plot_annealing as plot_annealing
from .stability import plot_persistent_counts as plot_persistent_counts
from .style import house_style as house_style
