#include "hardmax/neighbours.hpp"

#include "hardmax/checks.hpp"
#include "hardmax/interface.h"
#include "hardmax/ties.hpp"

using namespace hardmax;

namespace {

// State kept between the calls.
struct Matching {
    WallLines lines;
    Pairs pairs;
    std::int32_t* starts;  // (n_cells + 1): scratch of `sort_pairs`
};

StoredPolygons read(const hm_polygons& p) {
    return {p.n_cells,          p.n_edges,      p.n_layers,    p.n_groups, p.scale,
            p.short_signatures, p.signatures,   p.starts,      p.codes,    p.points,
            p.directions,       p.first_groups, p.form_starts, p.passes,   p.has_means};
}

Matching lay_out(const StoredPolygons& p, Arena& arena) {
    arena.take<Matching>(1);
    Matching matching{};
    matching.lines = take_wall_lines(p, arena);
    matching.pairs.edges = arena.take<Pairs::Pair>(p.n_edges);
    matching.starts = arena.take<std::int32_t>(p.n_cells + 1);
    return matching;
}

Matching& matching_in(void* memory) { return *static_cast<Matching*>(memory); }

}  // namespace

extern "C" {

size_t hm_neighbours_size(const hm_polygons* polygons) {
    const StoredPolygons p = read(*polygons);
    if (!are_polygons(p)) return 0;
    Arena arena;
    lay_out(p, arena);
    return arena.used;
}

int64_t hm_neighbours_gather(const hm_polygons* polygons, void* memory) {
    const StoredPolygons p = read(*polygons);
    Arena arena{static_cast<char*>(memory)};
    Matching& matching = matching_in(memory);
    matching = lay_out(p, arena);
    if (!gather_lines(p, matching.lines)) return -1;
    return matching.lines.longest * static_cast<int64_t>(sizeof(Interval));
}

int64_t hm_neighbours_match(const hm_polygons* polygons, void* memory, void* room,
                            uint8_t* is_open) {
    const StoredPolygons p = read(*polygons);
    Matching& matching = matching_in(memory);
    matching.pairs.n = 0;
    matching.pairs.is_open = is_open;
    for (std::int32_t line = 0; line < matching.lines.n_lines; line++)
        match_line(p, matching.lines, line, static_cast<Interval*>(room), matching.pairs);
    return matching.pairs.n;
}

void hm_neighbours_pairs(const hm_polygons* polygons, void* memory, int64_t* pairs,
                         int32_t* edges) {
    const Matching& matching = matching_in(memory);
    const WallLines& lines = matching.lines;
    Pairs::Pair* sorted = reinterpret_cast<Pairs::Pair*>(edges);
    sort_pairs(matching.pairs, lines, polygons->n_cells, matching.starts, sorted);
    for (std::int64_t k = 0; k < matching.pairs.n; k++) {
        pairs[2 * k] = lines.owners[sorted[k].one];
        pairs[2 * k + 1] = lines.owners[sorted[k].other];
    }
}

int32_t hm_neighbours_ties(void* search_, const hm_polygons* polygons, uint8_t* may_tie) {
    Plane& search = *static_cast<Plane*>(search_);
    const StoredPolygons p = read(*polygons);
    const Network& network = *search.path.network;
    if (!are_polygons(p) || p.n_groups != network.n_groups || p.n_layers != network.n_layers ||
        !have_winners(network, p.short_signatures, p.signatures, 0, p.n_cells))
        return HM_OUT_OF_RANGE;
    for (std::int64_t cell = 0; cell < p.n_cells; cell++)
        if (p.starts[cell + 1] - p.starts[cell] > search.cells.room) return HM_OUT_OF_RANGE;
    for (std::int64_t cell = 0; cell < p.n_cells; cell++) {
        follow(search, p, cell);
        find_ties(search, p, cell, may_tie);
    }
    return HM_OK;
}

}  // extern "C"
