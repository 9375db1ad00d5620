from .compilers._bounds.certified_errors import LayerPlan as LayerPlan
from .compilers._bounds.float32_errors import Float32Rounding as Float32Rounding
from .compilers.compiled import CompiledTransformer as CompiledTransformer
from .compilers.compiled import TransformerSize as TransformerSize
from .compilers.compiled_files import load_compiled as load_compiled
from .compilers.compiled_function_files import load_function as load_function
from .compilers.cpwl_compiler import CompiledFunction as CompiledFunction
from .compilers.cpwl_compiler import compile_cpwl as compile_cpwl
from .compilers.cpwl_compiler import maxout_form as maxout_form
from .compilers.functions.approximation import Approximation as Approximation
from .compilers.functions.approximation import approximate as approximate
from .compilers.functions.clamped_lines import maxout_from_segments as maxout_from_segments
from .compilers.functions.exact_pieces import ExactPieces as ExactPieces
from .compilers.functions.exact_pieces import SharedFacet as SharedFacet
from .compilers.functions.hats import maxout_from_hats as maxout_from_hats
from .compilers.functions.knots import Knots as Knots
from .compilers.functions.knots import maxout_from_knots as maxout_from_knots
from .compilers.functions.meshes import Mesh as Mesh
from .compilers.functions.meshes import maxout_from_mesh as maxout_from_mesh
from .compilers.functions.partition_pieces import maxout_from_partition as maxout_from_partition
from .compilers.functions.small_arity import reduce_arity as reduce_arity
from .compilers.functions.tropical_forms import DifferenceOfMaxima as DifferenceOfMaxima
from .compilers.functions.tropical_forms import LatticeForm as LatticeForm
from .compilers.functions.tropical_forms import maxout_from_difference as maxout_from_difference
from .compilers.functions.tropical_forms import maxout_from_lattice as maxout_from_lattice
from .compilers.functions.tropical_forms import maxout_from_rational_map as maxout_from_rational_map
from .compilers.maxout_assembly import MaxoutForm as MaxoutForm
from .compilers.maxout_compiler import compile_file as compile_file
from .compilers.maxout_compiler import compile_maxout as compile_maxout
from .compilers.maxout_compiler import compile_relu as compile_relu
from .compilers.state_dicts import NetworkFile as NetworkFile
from .compilers.state_dicts import read_network_file as read_network_file
from .compilers.token_origins import TokenOrigins as TokenOrigins
from .compilers.unit_origins import UnitOrigins as UnitOrigins
from .families.deep_families import tent_network as tent_network
from .families.deep_families import zigzag_network as zigzag_network
from .families.deep_families import zigzag_regions as zigzag_regions
from .families.extremal_points import extremal_heads as extremal_heads
from .families.extremal_points import extremal_points as extremal_points
from .families.literal_shattering import (
    literal_shattering_transformer as literal_shattering_transformer,
)
from .families.moment_curves import moment_curve as moment_curve
from .families.moment_curves import moment_curve_forms as moment_curve_forms
from .families.rotating_heads import rotating_transformer as rotating_transformer
from .families.sawtooth import folding_layer as folding_layer
from .families.sawtooth import sawtooth as sawtooth
from .families.self_attention import collapsing_self_attention as collapsing_self_attention
from .families.self_attention import shattering_self_attention as shattering_self_attention
from .families.shattering import attention_grid_transformer as attention_grid_transformer
from .families.shattering import (
    bias_free_shattering_transformer as bias_free_shattering_transformer,
)
from .families.shattering import shattering_count as shattering_count
from .families.shattering import shattering_transformer as shattering_transformer
from .families.two_layer_networks import extremal_relu_network as extremal_relu_network
