from .animations import animate_depth as animate_depth
from .animations import animate_temperature as animate_temperature
from .stability import plot_annealing as plot_annealing
from .stability import plot_persistent_counts as plot_persistent_counts
from .style import house_style as house_style
