#include "hardmax/solids.hpp"

#include "hardmax/checks.hpp"
#include "hardmax/interface.h"
#include "hardmax/recomposing.hpp"
#include "paths.hpp"

using namespace hardmax;

namespace {

template <int D>
struct Solids {
    int dim;
    Path<D> path;
    DoubledPath<D> doubled;
    int known;  // see `go_to_cell`
    Facet<D>* borders;
    int n_borders;
    int room_facets, room_points;  // limits per cell
    Solid<D> solid;
};

template <class F>
auto with_dimension(int dim, F call) {
    switch (dim) {
        case 3:
            return call(static_cast<Solids<3>*>(nullptr));
        case 4:
            return call(static_cast<Solids<4>*>(nullptr));
        case 5:
            return call(static_cast<Solids<5>*>(nullptr));
        case 6:
            return call(static_cast<Solids<6>*>(nullptr));
        default:
            return call(static_cast<Solids<7>*>(nullptr));
    }
}

template <int D>
Solids<D> lay_out(const Network& network, int n_borders, int room_facets, int room_points,
                  Arena& arena) {
    arena.take<Solids<D>>(1);
    Solids<D> solids{};
    solids.dim = D;
    solids.path = take_path<D>(network, arena);
    solids.doubled = take_doubled_path<D>(network, arena);
    solids.known = -1;
    solids.borders = arena.take<Facet<D>>(n_borders);
    solids.n_borders = n_borders;
    solids.room_facets = room_facets, solids.room_points = room_points;
    Solid<D>& solid = solids.solid;
    const std::size_t rows = n_borders + room_facets, words = (room_points + 63) / 64;
    solid.rows = arena.take<Facet<D>>(rows);
    solid.sets = arena.take<Word>(rows * words);
    solid.tight = arena.take<const Facet<D>*>(rows);
    solid.minors = arena.take<Minors<D + 1>>(1);
    solid.faces = arena.take<Word>((D + 1) * rows * words);
    solid.touching = arena.take<int>((D + 1) * rows);
    solid.met = arena.take<Point<D>>(room_points);
    solid.y = arena.take<double>(std::size_t(room_points) * D);
    solid.sizes = arena.take<double>(room_points);
    solid.offs = arena.take<double>(room_points);
    solid.slacks = arena.take<double>(rows);
    solid.normals = arena.take<double>(rows * D);
    return solids;
}

// Whether some cells are cells of the network and fit the buffers.
template <int D>
bool are_cells(const Solids<D>& at, const FacetTable& t, std::int64_t first, std::int64_t end) {
    if (t.dim != D || !are_facets(*at.path.network, t, first, end)) return false;
    for (std::int64_t i = first; i < end; i++)
        if (t.starts[i + 1] - t.starts[i] > at.room_facets ||
            t.point_starts[i + 1] - t.point_starts[i] > at.room_points)
            return false;
    return true;
}

// Compute quantities for a cell: its facets are first composed in floats, then in twice the
// precision.
template <int D>
int measure_cell(Solids<D>& at, const FacetTable& t, std::int64_t cell, int wanted,
                 SolidMeasured<D>& found) {
    Solid<D>& solid = at.solid;
    const Network& network = *at.path.network;
    const std::int64_t first = t.point_starts[cell], facet = t.starts[cell];
    const int n_facets = static_cast<int>(t.starts[cell + 1] - facet);
    solid.points = t.points + first * D;
    solid.directions = t.directions ? t.directions + first * D : nullptr;
    solid.n = static_cast<int>(t.point_starts[cell + 1] - first);
    solid.n_words = (solid.n + 63) / 64;
    solid.rho = t.blurs[2 * cell], solid.far_rho = t.blurs[2 * cell + 1];
    solid.scale = at.path.scale;
    solid.is_precise = false;
    solid.n_rows = n_facets + at.n_borders;
    for (int f = 0; f < at.n_borders; f++) solid.rows[n_facets + f] = at.borders[f];
    go_to_cell(at.path, t, cell, at.known);
    const auto read_rows = [&](auto form_of) {
        for (int f = 0; f < n_facets; f++) {
            const Wall wall = wall_of(network, t, cell, facet + f);
            solid.rows[f] = facet_of<D>(form_of(wall), wall, false);
        }
    };
    read_rows([&](const Wall& wall) { return wall_form(at.path, wall); });
    wanted = measure(solid, wanted, found);
    if (wanted == 0 || n_facets == 0) return wanted;
    solid.is_precise = true;
    compose_doubled(at.path, at.doubled, at.known);
    read_rows([&](const Wall& wall) { return detail::nearest_form(at.path, at.doubled, wall); });
    return measure(solid, wanted, found);
}

template <int D>
void measure_cells(Solids<D>& at, const FacetTable& t, const hm_solid_answers& answers,
                   int questions, std::int64_t first, std::int64_t end) {
    for (std::int64_t i = first; i < end; i++) {
        SolidMeasured<D> found{};
        answers.open[i] = static_cast<std::uint8_t>(
            answers.is_wanted[i] ? measure_cell(at, t, i, questions, found) : questions);
        if (questions & kVolume)
            answers.volumes[2 * i] = found.volume, answers.volumes[2 * i + 1] = found.volume_radius;
        for (int k = 0; k < D && questions & kWitness; k++)
            answers.witnesses[i * D + k] = found.witness[k];
        if (!(questions & kBall)) continue;
        for (int k = 0; k < D; k++) answers.balls[i * (D + 1) + k] = found.centre[k];
        answers.balls[i * (D + 1) + D] = found.radius;
    }
}

// A cell of a stack in the form that `about_volume` requires.
template <int D>
Solid<D> lay_out(const hm_cell& cell, Arena& arena) {
    Solid<D> solid{};
    solid.n = cell.n_vertices, solid.n_rows = cell.n_facets, solid.n_words = (solid.n + 63) / 64;
    const std::size_t n = solid.n, rows = solid.n_rows, words = solid.n_words;
    solid.sets = arena.take<Word>(rows * words);
    solid.faces = arena.take<Word>((D + 1) * rows * words);
    solid.touching = arena.take<int>((D + 1) * rows);
    solid.y = arena.take<double>(n * D);
    solid.sizes = arena.take<double>(n);
    solid.offs = arena.take<double>(n);
    return solid;
}

template <int D>
void read_cell(const hm_cell& cell, Solid<D>& solid) {
    for (int f = 0; f < solid.n_rows; f++)
        for (int w = 0; w < solid.n_words; w++) solid.set(f)[w] = 0;
    solid.is_simple = true;
    for (int i = 0; i < solid.n; i++) {
        const double* x = cell.vertices + std::size_t(i) * cell.vertex_stride;
        const Word* mask = cell.masks + std::size_t(i) * cell.n_words;
        for (int k = 0; k < D; k++) solid.y[std::size_t(i) * D + k] = x[k];
        int n_rows = 0;
        for (int f = 0; f < solid.n_rows; f++) {
            const Word lies_on = mask[f / 64] >> f % 64 & 1;
            solid.set(f)[i / 64] |= lies_on << i % 64;
            n_rows += static_cast<int>(lies_on);
        }
        solid.is_simple = solid.is_simple && n_rows == D;
    }
}

}  // namespace

extern "C" {

size_t hm_solids_size(const void* network, int32_t dim, int32_t n_borders, int32_t room_facets,
                      int32_t room_points) {
    if (!is_between(dim, 3, 7) || !is_between(n_borders, 0, kMostOfAnything) ||
        !is_between(room_facets, 0, kMostOfAnything) ||
        !is_between(room_points, 0, kMostOfAnything))
        return 0;
    return with_dimension(dim, [&]<int D>(Solids<D>*) {
        Arena arena;
        lay_out<D>(*static_cast<const Network*>(network), n_borders, room_facets, room_points,
                   arena);
        return arena.used;
    });
}

void hm_solids_init(void* memory, const void* network, const hm_search_start* start,
                    int32_t n_borders, int32_t room_facets, int32_t room_points,
                    const double* borders) {
    with_dimension(start->dim, [&]<int D>(Solids<D>*) {
        Arena arena{static_cast<char*>(memory)};
        Solids<D>& solids = *static_cast<Solids<D>*>(memory);
        solids = lay_out<D>(*static_cast<const Network*>(network), n_borders, room_facets,
                            room_points, arena);
        begin_path(*start, solids.path, solids.doubled);
        for (int f = 0; f < n_borders; f++) {
            const double* row = borders + f * (D + 3);
            Form<D> form;
            for (int k = 0; k < D; k++) form.a[k] = row[k];
            form.c = row[D], form.slope_radius = row[D + 1], form.offset_radius = row[D + 2];
            solids.borders[f] = facet_of<D>(form, {-1, f, 0, 0}, false);
        }
    });
}

int32_t hm_solids_run(void* memory, const hm_facets* cells, const hm_solid_answers* answers,
                      int32_t questions, int64_t first, int64_t end) {
    return with_dimension(*static_cast<const int*>(memory), [&]<int D>(Solids<D>*) -> int32_t {
        Solids<D>& solids = *static_cast<Solids<D>*>(memory);
        const FacetTable t{*cells};
        if (!are_cells(solids, t, first, end)) return HM_OUT_OF_RANGE;
        measure_cells(solids, t, *answers, questions, first, end);
        return HM_OK;
    });
}

size_t hm_volume_size(int32_t dim, const hm_cell* cell) {
    return with_dimension(dim, [&]<int D>(Solids<D>*) {
        Arena arena;
        lay_out<D>(*cell, arena);
        return arena.used;
    });
}

double hm_volume(int32_t dim, const hm_cell* cell, void* scratch) {
    return with_dimension(dim, [&]<int D>(Solids<D>*) {
        Arena arena{static_cast<char*>(scratch)};
        Solid<D> solid = lay_out<D>(*cell, arena);
        read_cell(*cell, solid);
        return about_volume(solid);
    });
}

}  // extern "C"
