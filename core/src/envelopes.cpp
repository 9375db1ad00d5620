#include "hardmax/envelope.hpp"
#include "hardmax/interface.h"

namespace {

using hardmax::Arena;
using hardmax::Envelope;
using hardmax::LiftedForms;

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

size_t hm_envelope_size(const hm_forms* forms) {
    Arena arena;
    arena.take<Envelope>(1);
    hardmax::take_envelope(lifted(*forms), arena);
    return arena.used;
}

int32_t hm_envelope_begin(void* memory, const hm_forms* forms, int32_t* order) {
    Arena arena;
    arena.base = static_cast<char*>(memory);
    Envelope& e = *arena.take<Envelope>(1);
    e = hardmax::take_envelope(lifted(*forms), arena);
    hardmax::fill_floats(e.forms);
    return hardmax::begin(e, order);
}

void hm_envelope_insert(void* envelope, const int32_t* order, int32_t n) {
    hardmax::insert(*static_cast<Envelope*>(envelope), order, n);
}

void hm_envelope_finish(void* envelope, hm_envelope_cells* cells) {
    hardmax::EnvelopeCells found = {
        cells->sites, cells->starts, cells->neighbours, cells->corners, cells->triples, 0, 0};
    hardmax::finish(*static_cast<Envelope*>(envelope), found);
    cells->n_sites = found.n_sites;
    cells->n_vertices = found.n_vertices;
}

void hm_envelope_vertices(const void* envelope, const int32_t* triples, int32_t n, int32_t exponent,
                          double* points) {
    const Envelope& e = *static_cast<const Envelope*>(envelope);
    for (int32_t k = 0; k < n; k++, triples += 3, points += 2)
        hardmax::meeting_point(e.forms, triples[0], triples[1], triples[2], exponent, points);
}

}  // extern "C"
