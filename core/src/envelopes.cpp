#include "hardmax/envelope.hpp"
#include "hardmax/interface.h"
#include "hardmax/order_k.hpp"
#include "hardmax/ranges.hpp"

namespace {

using hardmax::Arena;
using hardmax::ConvexHull;
using hardmax::Envelope;
using hardmax::LiftedForms;
using hardmax::OrderK;

LiftedForms lifted(const hm_forms& forms) {
    LiftedForms f{};
    f.n = forms.n;
    f.slope_limbs = forms.slope_limbs;
    f.offset_limbs = forms.offset_limbs;
    f.slopes = forms.slopes;
    f.offsets = forms.offsets;
    return f;
}

}  // namespace

extern "C" {

size_t hm_envelope_size(const void* hull) {
    return hardmax::room_for<Envelope>(*static_cast<const ConvexHull<3>*>(hull));
}

void hm_envelope_read(void* memory, const void* hull, hm_envelope_cells* cells) {
    Envelope& e = hardmax::placed<Envelope>(memory, *static_cast<const ConvexHull<3>*>(hull));
    hardmax::EnvelopeCells found = {
        cells->sites, cells->starts, cells->neighbours, cells->corners, cells->triples, 0, 0};
    hardmax::finish(e, found);
    cells->n_sites = found.n_sites;
    cells->n_vertices = found.n_vertices;
}

size_t hm_order_k_size(const hm_forms* forms, int32_t k, int32_t room_cells) {
    Arena arena;
    arena.take<OrderK>(1);
    hardmax::take_order_k(lifted(*forms), nullptr, k, room_cells, arena);
    return arena.used;
}

int32_t hm_order_k_begin(void* memory, const hm_forms* forms, const int32_t* multiplicity,
                         int32_t k, int32_t room_cells, const int32_t* set, const int32_t* tied,
                         int32_t n_tied, int32_t i, int32_t j) {
    const int32_t n = forms->n, length = (k < n ? k : n) + 1;
    if (k < 1 || room_cells < 1 || !hardmax::is_between(n_tied, 0, n) ||
        !hardmax::is_between(i, 0, n - 1) || !hardmax::is_between(j, 0, n - 1) ||
        !hardmax::all_between(set, length, 0, n) || !hardmax::all_between(tied, n_tied, 0, n - 1))
        return HM_OUT_OF_RANGE;
    Arena arena;
    arena.base = static_cast<char*>(memory);
    OrderK& o = *arena.take<OrderK>(1);
    o = hardmax::take_order_k(lifted(*forms), multiplicity, k, room_cells, arena);
    hardmax::fill_floats(o.forms);
    hardmax::begin(o, set, tied, n_tied, i, j);
    return HM_OK;
}

int32_t hm_order_k_run(void* order_k, int32_t budget) {
    return hardmax::run(*static_cast<OrderK*>(order_k), budget);
}

void hm_order_k_read(const void* order_k, int32_t counts[2], int32_t* sets, int32_t* first_wall,
                     int32_t* walls) {
    const OrderK& o = *static_cast<const OrderK*>(order_k);
    counts[0] = o.n_cells;
    counts[1] = o.n_walls;
    const size_t number = sizeof(int32_t), n_cells = static_cast<size_t>(o.n_cells);
    if (sets) __builtin_memcpy(sets, o.keys, number * n_cells * static_cast<size_t>(o.key_length));
    if (first_wall) __builtin_memcpy(first_wall, o.first_wall, number * (n_cells + 1));
    if (walls) __builtin_memcpy(walls, o.walls, number * 2 * static_cast<size_t>(o.n_walls));
}

}  // extern "C"
