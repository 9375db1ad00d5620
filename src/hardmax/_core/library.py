"""Locating and loading the compiled core.

An installed package contains one library per instruction set, next to this file. The library for
the widest instruction set that the processor supports is loaded. A checkout has the libraries in
its build folder, where they are rebuilt when a source has changed (`building`).
"""

import functools
import os
import sys
from ctypes import CDLL, POINTER, c_char_p, c_double, c_int32, c_int64, c_size_t, c_void_p
from typing import Any

from hardmax.errors import ArgumentError, CoreError

INTERFACE_VERSION = 16
"""The `HM_INTERFACE_VERSION` that the signatures below describe."""

_DOUBLES = POINTER(c_double)
_AT = c_void_p
OUT_OF_RANGE = 3
"""The `HM_OUT_OF_RANGE` of the interface."""


def out_of_range_error() -> ArgumentError:
    """Return the error for a size or an index that the core has rejected."""
    return ArgumentError(
        "a size or an index is out of range: an array refers to an entry that does not exist. "
        "Check or rebuild the model or the cells, or the file from which they were read."
    )


def check_status(status: int) -> int:
    """Return the status of a call, unless it is `OUT_OF_RANGE`.

    Raises:
        ArgumentError: If a size or an index is out of range.
    """
    if status == OUT_OF_RANGE:
        raise out_of_range_error()
    return status


def check_size(n_bytes: int) -> int:
    """Return a number of bytes; raise the error of `check_status` if it is 0."""
    if n_bytes == 0:
        raise out_of_range_error()
    return n_bytes


SIGNATURES: dict[str, tuple[Any, ...]] = {
    # name: the return type (or a function that checks the status), then the argument types
    "hm_interface_version": (c_int32,),
    "hm_instruction_set": (c_char_p,),
    "hm_widest_instruction_set": (c_char_p,),
    "hm_float_environment": (c_int32,),
    "hm_network_size": (c_size_t, _AT, c_int64, _AT, c_int64),
    "hm_network_init": (c_int32, _AT, _AT, _AT, _AT),
    "hm_search_begin": (c_size_t, _AT, c_size_t, _AT, _AT, c_int32, c_int32),
    "hm_search_stack_size": (c_size_t, _AT, c_int32, c_int32),
    "hm_search_set_stack": (None, _AT, _AT, c_int32, c_int32),
    "hm_search_push": (check_status, _AT, c_int32, c_int32, _AT, _AT, _AT),
    "hm_search_drop": (None, _AT, c_int32),
    "hm_search_typical": (None, _AT, _AT),
    "hm_search_recompose": (None, _AT, c_int32),
    "hm_search_run": (c_int32, _AT, _AT, c_int64, c_int64, _AT, _AT, _AT),
    "hm_cells_pack": (c_size_t, _AT, c_int32, *3 * [_AT], c_size_t),
    "hm_search_counts": (None, _AT, _AT),
    "hm_search_item": (None, _AT, c_int32, _AT, _AT),
    "hm_search_sizes": (None, _AT, _AT),
    "hm_search_signature": (None, _AT, _AT),
    "hm_search_versions": (None, _AT, _AT, _AT),
    "hm_search_candidates": (c_int32, _AT, c_int32, c_int32, _AT),
    "hm_search_set_chain": (check_status, _AT, c_int32, c_int32, c_int32, _AT),
    "hm_search_scores": (None, _AT, c_int32, _AT),
    "hm_search_replace": (check_status, _AT, c_int32, _AT, _AT),
    "hm_search_set_vertices": (None, _AT, _AT),
    "hm_search_refresh": (
        None,
        _AT,
        c_int32,
        _AT,
        c_int32,
        c_int32,
        _AT,
        c_int32,
        c_int32,
        *5 * [_AT],
    ),
    "hm_facets_meet": (c_size_t, *4 * [_AT], c_size_t, c_int64),
    "hm_facets_overlay": (None, _AT, _AT, c_int64),
    "hm_facets_sort": (None, _AT, _AT, c_int64, _AT, _AT, _AT),
    "hm_facets_compose": (None, _AT, _AT, c_int64, _AT),
    "hm_facets_corners": (None, _AT, c_int64, *4 * [_AT]),
    "hm_facets_compare": (
        c_int64,
        _AT,
        c_int64,
        *4 * [_AT],
        c_int64,
        *5 * [_AT],
        c_int64,
        *3 * [_AT],
    ),
    "hm_neighbours_size": (c_size_t, _AT),
    "hm_neighbours_gather": (c_int64, _AT, _AT),
    "hm_neighbours_match": (c_int64, _AT, _AT, _AT, _AT),
    "hm_neighbours_pairs": (None, _AT, _AT, _AT, _AT),
    "hm_neighbours_ties": (check_status, _AT, _AT, _AT),
    "hm_measures_size": (c_size_t, _AT, c_int32, c_int32),
    "hm_measures_init": (check_status, _AT, _AT, _AT, *3 * [c_int32], _AT, _AT),
    "hm_measures_run": (check_status, _AT, _AT, c_int32, c_int64, c_int64),
    "hm_solids_size": (c_size_t, _AT, *4 * [c_int32]),
    "hm_solids_init": (None, _AT, _AT, _AT, *3 * [c_int32], _AT),
    "hm_solids_run": (check_status, _AT, _AT, _AT, c_int32, c_int64, c_int64),
    "hm_volume_size": (c_size_t, c_int32, _AT),
    "hm_volume": (c_double, c_int32, _AT, _AT),
    "hm_points_size": (c_size_t, _AT, c_int32, c_int32),
    "hm_points_init": (None, _AT, _AT, c_int32, c_int32, _AT),
    "hm_points_run": (None, _AT, c_int64, _AT, c_int32, _AT, _AT, _AT),
    "hm_points_tally": (
        c_int64,
        *(_AT, c_int64, _AT, _AT, c_int32, _AT, _AT, c_int64),
        *4 * [_AT],
    ),
    "hm_hull_size": (c_size_t, _AT),
    "hm_hull_facets_size": (c_size_t, c_int32, c_int32),
    "hm_hull_begin": (check_status, _AT, _AT, c_int32, _AT, _AT, c_int32),
    "hm_hull_move": (None, _AT, c_int32, _AT, c_int32),
    "hm_hull_run": (c_int32, _AT, c_int32, c_int32),
    "hm_hull_n_facets": (c_int32, _AT, c_int32),
    "hm_hull_finish": (c_int32, _AT, c_int32, _AT, _AT),
    "hm_hull_vertices": (check_status, _AT, _AT, _AT, c_int32, c_int32, _AT),
    "hm_planar_hull": (check_status, c_int32, _AT, c_int32, *4 * [_AT]),
    "hm_envelope_size": (c_size_t, _AT),
    "hm_envelope_read": (None, _AT, _AT, _AT),
    "hm_order_k_size": (c_size_t, _AT, c_int32, c_int32),
    "hm_order_k_begin": (
        check_status,
        *3 * [_AT],
        c_int32,
        c_int32,
        *2 * [_AT],
        *3 * [c_int32],
    ),
    "hm_order_k_run": (c_int32, _AT, c_int32),
    "hm_order_k_read": (None, *5 * [_AT]),
    "hm_graph_check": (check_status, _AT, c_int64),
    "hm_graph_compose": (None, _AT, c_int32, c_int64, c_int64),
    "hm_graph_differentiate": (None, _AT, c_int64, _AT, _AT),
    "hm_graph_side_size": (c_size_t, c_int32),
    "hm_graph_search_begin": (None, _AT, c_int32, c_int64, _AT, _AT),
    "hm_graph_search_run": (c_int32, _AT, c_int32, c_int64, _AT),
    "hm_line_pack": (c_size_t, _AT, c_int64, c_int64, _AT),
    "hm_line_enter": (None, *5 * [_AT]),
    "hm_line_advance": (c_int32, _AT, c_int64, c_double, *3 * [_AT], c_int64, _AT, c_size_t),
    "hm_line_between": (c_int32, _AT, c_int64, *5 * [_AT], c_int64, _AT, c_size_t),
    "hm_line_ends": (None, c_int64, _AT, _AT, c_int64, c_double, _AT, _AT),
    "hm_line_integers_size": (c_size_t, _AT, c_int64),
    "hm_line_integers_begin": (c_int32, _AT, _AT, c_int64, _AT, c_int32, _AT),
    "hm_line_integers_run": (None, _AT, _AT),
    "hm_line_doubled": (None, _AT, c_int64, c_int64, _AT, _AT, c_int64, c_int64),
    "hm_line_maps_size": (c_size_t, _AT, c_int64, c_int64),
    "hm_line_maps_init": (check_status, _AT, _AT, c_int64, c_int64, c_int64, *6 * [_AT]),
    "hm_line_maps_compose": (c_int64, _AT, c_int64, _AT, _AT),
    "hm_winners_clear": (c_int64, c_int64, c_int64, *4 * [_AT]),
    "hm_winners_exact": (None, c_int64, c_int64, *4 * [_AT]),
    "hm_winners_play_off": (
        None,
        *(_AT, c_int64, _AT, c_int64, _AT, c_int32, c_double, c_double),
        *5 * [_AT],
    ),
    "hm_max_plus_n_tiles": (c_int64, c_int64, c_int64),
    "hm_max_plus_tiles": (None, _AT, _AT, _AT, *7 * [c_int64]),
    "hm_max_plus_relax": (c_int32, c_int64, _AT, _AT, _AT, c_int64),
    "hm_nearest_size": (c_size_t, c_int32),
    "hm_nearest": (
        c_int32,
        *(_AT, _AT, c_int64, c_int32, c_int32, c_double, c_int32),
        *4 * [_AT],
    ),
    "hm_invert_size": (c_size_t, c_int32),
    "hm_invert": (c_int32, _AT, _AT, c_int32, _AT, _AT),
    "hm_candidates_size": (c_size_t, c_int64, c_int64, c_int32),
    "hm_candidates_init": (None, _AT, c_int64, c_int64, c_int32, _AT, _AT, _AT, c_double),
    "hm_candidates_find": (check_status, _AT, c_int64, *5 * [_AT]),
    "hm_hull_vertices_size": (c_size_t, c_int64, c_int32),
    "hm_hull_vertices_init": (None, _AT, c_int64, c_int32, _AT, _AT),
    "hm_hull_vertices_decide": (None, _AT, c_int64, c_int64, _AT, _AT),
    "hm_hull_edges_size": (c_size_t, c_int64, c_int32),
    "hm_hull_edges_init": (c_int32, _AT, c_int64, c_int32, _AT, _AT, _AT, c_int64, c_int32),
    "hm_hull_edges_decide": (c_int64, _AT, c_int64, c_int64),
    "hm_joint_size": (c_size_t, _AT, c_int64),
    "hm_joint_init": (None, _AT, _AT, c_int64),
    "hm_joint_load": (check_status, _AT, c_int64, c_int64, _AT, _AT, _AT),
    "hm_joint_run": (c_int32, _AT, c_int64, c_int64, _AT),
    "hm_joint_check": (check_status, _AT, c_int64, *4 * [_AT]),
    "hm_joint_facets_size": (c_size_t, _AT),
    "hm_joint_facets": (check_status, _AT, _AT, _AT, _AT, c_int64, _AT, _AT, _AT),
    "hm_test_line_changes": (None, _AT, _AT, _AT, c_double, c_double, c_double, _AT),
    "hm_test_line_careful": (c_int64, *5 * [_AT]),
    "hm_test_line_zeros": (c_int32, _AT, _AT, _AT, c_double, c_double, c_int64, _AT),
    "hm_test_line_blurs": (c_int32, _AT, c_int64, _AT, _AT),
    "hm_test_is_positive": (c_int32, _AT, _AT, c_int32),
    "hm_test_is_inside": (c_int32, _AT, c_double, _AT, _AT, c_int32),
    "hm_test_improve": (c_int32, _AT),
    "hm_test_meet": (None, _AT, _AT, _AT),
    "hm_test_facet": (None, _AT, _AT),
    "hm_test_meet_facets": (None, _AT, c_double, _AT),
    "hm_test_measure": (c_int32, c_int32, _AT, _AT),
    "hm_test_difference": (c_int32, _AT, _AT),
    "hm_test_filtered_sign": (c_int32, _AT, _AT),
    "hm_test_two_sum": (None, c_double, c_double, _DOUBLES),
    "hm_test_fast_two_sum": (None, c_double, c_double, _DOUBLES),
    "hm_test_halves": (None, c_double, _DOUBLES),
    "hm_test_two_product": (None, c_double, c_double, _DOUBLES),
    "hm_test_two_product_by_halves": (None, c_double, c_double, _DOUBLES),
    "hm_test_two_product_by_fma": (c_int32, c_double, c_double, _DOUBLES),
    "hm_test_grow": (c_int64, _DOUBLES, c_int64, c_double),
    "hm_test_grow_by_product": (c_int64, _DOUBLES, c_int64, c_double, c_double),
    "hm_test_compress": (c_int64, _DOUBLES, c_int64),
    "hm_test_sign": (c_int32, _DOUBLES, c_int64),
    "hm_test_add_float": (None, _DOUBLES, c_double, _DOUBLES),
    "hm_test_add": (None, _DOUBLES, _DOUBLES, _DOUBLES),
    "hm_test_multiply_float": (None, _DOUBLES, c_double, _DOUBLES),
    "hm_test_multiply": (None, _DOUBLES, _DOUBLES, _DOUBLES),
    "hm_test_add_terms": (None, c_double, _DOUBLES, _DOUBLES, c_int64, _DOUBLES),
}
"""All functions of the interface; a test compares them with the header."""

INSTRUCTION_SETS = ("baseline", "x86-64-v3")
"""The instruction sets that the core is compiled for, the narrowest first."""

_SUFFIX = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")


@functools.cache
def core() -> CDLL:
    """Return the core for this processor, loaded once.

    The environment variable `HARDMAX_CPU` selects an instruction set, `baseline` or `x86-64-v3`,
    instead of the widest one that the processor supports. Results do not depend on it.

    Raises:
        CoreError: If the library is missing or has another version, if the processor does not
            support the selected instruction set, or if the floating-point settings of this thread
            violate IEEE 754.

    Examples:
        >>> core().hm_interface_version()
        16
    """
    folder = library_folder()
    baseline = load(folder, "baseline")
    widest = baseline.hm_widest_instruction_set().decode()
    wanted = os.environ.get("HARDMAX_CPU") or widest
    if wanted not in INSTRUCTION_SETS:
        raise CoreError(
            f"`HARDMAX_CPU` must be one of {', '.join(INSTRUCTION_SETS)}; got {wanted!r}."
        )
    if INSTRUCTION_SETS.index(wanted) > INSTRUCTION_SETS.index(widest):
        raise CoreError(f"`HARDMAX_CPU` is {wanted}, but this processor supports only {widest}.")
    if baseline.hm_float_environment() != 0:
        raise CoreError(
            "this thread does not round to nearest, or it flushes subnormal numbers to zero (a "
            "library was built with -ffast-math, or torch.set_flush_denormal was called), so that "
            "no sign could be proven."
        )
    return baseline if wanted == "baseline" else load(folder, wanted)


def library_folder() -> str:
    """Return the folder of the libraries; in a checkout, build them first if they are stale.

    In a checkout the environment variable `HARDMAX_BUILD` selects the build: `release` (the
    default), `debug` or `sanitize`.
    """
    # Use os.path here and in `building`, because importing pathlib takes longer than all of this.
    here = os.path.dirname(os.path.abspath(__file__))
    checkout = os.path.abspath(os.path.join(here, "..", "..", ".."))
    if os.path.isfile(os.path.join(checkout, "core", "CMakeLists.txt")):
        from hardmax._core.building import up_to_date_folder

        return up_to_date_folder(checkout, os.environ.get("HARDMAX_BUILD") or "release")
    return here


def library_path(folder: str, instruction_set: str) -> str:
    """Return the path of the library for an instruction set in a folder."""
    return os.path.join(folder, f"libhardmax-{instruction_set}{_SUFFIX}")


def load(folder: str, instruction_set: str) -> CDLL:
    """Load one library and declare its functions.

    Raises:
        CoreError: If the library is missing, cannot be loaded, or has another version.
    """
    path = library_path(folder, instruction_set)
    if not os.path.isfile(path):
        raise CoreError(
            f"the compiled core is missing: {path} does not exist. Install hardmax from a wheel, "
            "or build it with a C++20 compiler: run `pip install .` in the source tree, or "
            "`make setup`, which also downloads a compiler if there is none."
        )
    try:
        library = CDLL(path)
        library.hm_interface_version.restype = c_int32
        version = library.hm_interface_version()
    except (OSError, AttributeError) as error:
        raise CoreError(f"the compiled core cannot be loaded: {error}.") from error
    if version != INTERFACE_VERSION:
        raise CoreError(
            f"the compiled core {path} has interface version {version}, but this package needs "
            f"{INTERFACE_VERSION}: reinstall hardmax, or run `make setup` in the source tree."
        )
    for name, (result, *arguments) in SIGNATURES.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library
