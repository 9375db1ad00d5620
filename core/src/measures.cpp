#include "hardmax/measures.hpp"

#include "hardmax/checks.hpp"
#include "hardmax/interface.h"
#include "paths.hpp"

using namespace hardmax;

namespace {

struct Measures {
    Retracing at;
    detail::Side* sides;
    int n_rows, room_edges, n_forms;  // limits for the indices in codes and cells
};

Measures lay_out(const Network& network, int n_rows, int room_edges, Arena& arena) {
    arena.take<Measures>(1);
    Measures measures{};
    Retracing& at = measures.at;
    at.path = take_path<2>(network, arena);
    at.doubled = take_doubled_path<2>(network, arena);
    int n_forms = 0;
    for (int l = 0; l < network.n_layers; l++) n_forms += network.layers[l].n_forms;
    at.of_form = arena.take<Wall>(n_forms);
    at.may_differ = arena.take<bool>(network.n_layers);
    at.domain = arena.take<Edge>(4 + n_rows);
    at.polygon = arena.take<Edge>(room_edges);
    measures.sides = arena.take<detail::Side>(room_edges);
    measures.n_rows = n_rows, measures.room_edges = room_edges, measures.n_forms = n_forms;
    return measures;
}

// Whether the winners, edges and walls of some cells exist.
bool are_cells(const Measures& measures, const hm_measured& cells, int64_t first, int64_t end) {
    if (!have_winners(*measures.at.path.network, cells.short_signatures, cells.signatures, first,
                      end))
        return false;
    for (int64_t i = first; i < end; i++) {
        const int64_t start = cells.starts[i], after = cells.starts[i + 1];
        if (start < 0 || after <= start || after - start > measures.room_edges ||
            !are_codes(cells.walls, start, after, measures.n_rows, measures.n_forms))
            return false;
    }
    return true;
}

template <class Winner>
void measure_cells(Measures& measures, const Winner* signatures, const hm_measured& cells,
                   int questions, int64_t first, int64_t end) {
    const std::size_t n_groups = measures.at.path.network->n_groups;
    for (int64_t i = first; i < end; i++) {
        enter(measures.at, signatures + i * n_groups);
        const int64_t start = cells.starts[i];
        const int n = static_cast<int>(cells.starts[i + 1] - start);
        Measured found{};
        cells.open[i] = static_cast<uint8_t>(
            measure(measures.at, cells.walls + start, n, questions, measures.sides, found));
        if (questions & kVolume)
            cells.volumes[2 * i] = found.volume, cells.volumes[2 * i + 1] = found.volume_radius;
        if (questions & kWitness)
            cells.witnesses[2 * i] = found.x, cells.witnesses[2 * i + 1] = found.y;
        if (questions & kBall) {
            const double ball[] = {found.centre_x, found.centre_y, found.radius};
            for (int k = 0; k < 3; k++) cells.balls[3 * i + k] = ball[k];
        }
    }
}

}  // namespace

extern "C" {

size_t hm_measures_size(const void* network, int32_t n_rows, int32_t room_edges) {
    if (!is_between(n_rows, 0, kMostOfAnything) || !is_between(room_edges, 0, kMostOfAnything))
        return 0;
    Arena arena;
    lay_out(*static_cast<const Network*>(network), n_rows, room_edges, arena);
    return arena.used;
}

int32_t hm_measures_init(void* memory, const void* network_, const hm_search_start* start,
                         int32_t n_rows, int32_t room_edges, int32_t n, const double* edges,
                         const int32_t* walls) {
    for (int i = 0; i < n; i++)
        if (walls[4 * i + 1] < kLowestBorder || walls[4 * i + 1] >= n_rows) return HM_OUT_OF_RANGE;
    const Network& network = *static_cast<const Network*>(network_);
    Arena arena{static_cast<char*>(memory)};
    Measures& measures = *static_cast<Measures*>(memory);
    measures = lay_out(network, n_rows, room_edges, arena);
    Retracing& at = measures.at;
    begin_path(*start, at.path, at.doubled);
    int form = 0;
    for (int l = 0; l < network.n_layers; l++) {
        const Layer& layer = network.layers[l];
        for (int g = 0; g < layer.n_groups; g++) {
            const int n = layer.is_relu ? 2 : layer.starts[g + 1] - layer.starts[g];
            for (int rival = 0; rival < n; rival++) at.of_form[form++] = {l, g, 0, rival};
        }
    }
    for (int i = 0; i < n; i++) {
        const int row = walls[4 * i + 1];
        read_edge(edges + HM_EDGE_NUMBERS * i, walls + 4 * i, at.domain[-kLowestBorder + row]);
    }
    return HM_OK;
}

int32_t hm_measures_run(void* memory, const hm_measured* cells, int32_t questions, int64_t first,
                        int64_t end) {
    Measures& measures = *static_cast<Measures*>(memory);
    if (!are_cells(measures, *cells, first, end)) return HM_OUT_OF_RANGE;
    if (cells->short_signatures)
        measure_cells(measures, cells->short_signatures, *cells, questions, first, end);
    else
        measure_cells(measures, cells->signatures, *cells, questions, first, end);
    return HM_OK;
}

int32_t hm_test_measure(int32_t n, const double* edges, double answers[7]) {
    Edge polygon[16];
    detail::Side sides[16];
    const std::int32_t wall[4] = {0, 0, 0, 0};
    for (int i = 0; i < n; i++) read_edge(edges + HM_EDGE_NUMBERS * i, wall, polygon[i]);
    place_vertices(polygon, n);
    Measured found{};
    const int open = measure(polygon, n, kVolume | kWitness | kBall, sides, found);
    const double numbers[] = {found.volume,   found.volume_radius, found.x,     found.y,
                              found.centre_x, found.centre_y,      found.radius};
    for (int k = 0; k < 7; k++) answers[k] = numbers[k];
    return open;
}

}  // extern "C"
