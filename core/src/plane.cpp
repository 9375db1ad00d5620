#include "hardmax/interface.h"
#include "hardmax/polygons.hpp"
#include "hardmax/search.hpp"
#include "paths.hpp"

using namespace hardmax;

namespace {

using Plane = Search<Polygons>;

Plane& plane(void* search) { return *static_cast<Plane*>(search); }
const Plane& plane(const void* search) { return *static_cast<const Plane*>(search); }
const Network& network_of(const void* network) { return *static_cast<const Network*>(network); }

Plane lay_out(const Network& network, bool stores, Arena& arena) {
    arena.take<Plane>(1);
    Plane search{};
    search.dimension = 2;
    search.path = take_path<2>(network, arena);
    search.doubled = take_doubled_path<2>(network, arena);
    if (stores) search.pure = take_path<2>(network, arena);
    const int n = network.largest_group;
    search.contest.form = arena.take<int>(n);
    search.contest.error = arena.take<double>(n + kLanes);
    search.contest.far_error = arena.take<double>(n + kLanes);
    search.cells.crowd = take_crowd(network, arena);
    return search;
}

void write_edge(const Edge& edge, double* numbers, std::int32_t* wall) {
    const Line& line = edge.line;
    const Vertex& v = edge.start;
    const double row[] = {line.a[0],
                          line.a[1],
                          line.c,
                          edge.far_offset,
                          line.slope_radius,
                          line.offset_radius,
                          v.x,
                          v.y,
                          v.rho,
                          v.dx,
                          v.dy,
                          v.far_rho};
    for (int k = 0; numbers && k < HM_EDGE_NUMBERS; k++) numbers[k] = row[k];
    const int who[] = {edge.wall.layer, edge.wall.group, edge.wall.winner, edge.wall.rival};
    for (int k = 0; wall && k < 4; k++) wall[k] = who[k];
}

}  // namespace

extern "C" {

size_t hm_network_size(const int64_t* integers, const double* numbers) {
    Arena arena;
    read_network({integers, numbers}, arena);
    return arena.used;
}

int32_t hm_network_init(void* memory, const int64_t* integers, const double* numbers) {
    Arena arena{static_cast<char*>(memory)};
    const Network& network = *read_network({integers, numbers}, arena);
    for (int l = 0; l < network.n_layers; l++)
        if (!network.layers[l].is_distinct) return 0;
    return 1;
}

size_t hm_plane_size(const void* network, int32_t stores) {
    Arena arena;
    lay_out(network_of(network), stores, arena);
    return arena.used;
}

void hm_plane_init(void* memory, const void* network_, const hm_plane_start* start) {
    const Network& network = network_of(network_);
    Arena arena{static_cast<char*>(memory)};
    Plane& search = plane(memory);
    search = lay_out(network, start->stores, arena);
    search.has_far = !start->is_bounded;
    search.stores = start->stores;
    Path<2>& path = search.path;
    begin_path(*start, path, search.doubled);
    if (!search.stores) return;
    Path<2>& pure = search.pure;
    pure.scale = path.scale;
    pure.signature = path.signature;
    copy_rows(start->stream, network.dim_stream, pure.frames[0].stream);
    pure.frames[0].stream_exactness = path.frames[0].stream_exactness;
    for (int l = 0; l < network.n_layers; l++) {
        pure.frames[l].is_homogeneous = path.frames[l].is_homogeneous;
        pure.frames[l].version = -1;
    }
}

size_t hm_plane_stack_size(const void* network, int32_t room_edges, int32_t room_items) {
    Arena arena;
    arena.take<Edge>(room_edges);
    arena.take<std::int8_t>(room_edges);
    arena.take<Item<Polygons::Place>>(room_items);
    arena.take<int>(std::size_t(room_items) * network_of(network).most_groups);
    return arena.used;
}

void hm_plane_set_stack(void* search_, void* memory, int32_t room_edges, int32_t room_items) {
    Plane& search = plane(search_);
    Arena arena{static_cast<char*>(memory)};
    Edge* edges = arena.take<Edge>(room_edges);
    std::int8_t* signs = arena.take<std::int8_t>(room_edges);
    auto* items = arena.take<Item<Polygons::Place>>(room_items);
    const std::size_t most_groups = search.path.network->most_groups;
    int* winners = arena.take<int>(room_items * most_groups);
    if (search.n_items > 0) {
        const auto& top = search.top();
        for (int i = 0; i < top.place.start + top.place.n; i++) edges[i] = search.cells.edges[i];
        for (int i = 0; i < search.n_items; i++) items[i] = search.items[i];
        for (std::size_t i = 0; i < search.n_items * most_groups; i++)
            winners[i] = search.winners[i];
    }
    search.cells.edges = edges, search.cells.signs = signs, search.cells.room = room_edges;
    search.items = items, search.winners = winners, search.room_items = room_items;
}

int32_t hm_plane_push(void* search_, int32_t layer, int32_t is_part, const int32_t* signature,
                      const int8_t* typical, int32_t n, const double* edges, const int32_t* walls) {
    Plane& search = plane(search_);
    const Network& network = *search.path.network;
    const int start = search.n_items > 0 ? search.top().place.start + search.top().place.n : 0;
    if (search.n_items + 1 > search.room_items || start + 4 * n + 8 > search.cells.room) return 1;
    for (int l = 0; l < layer + is_part; l++) {
        const Layer& passed = network.layers[l];
        for (int g = 0; g < passed.n_groups; g++)
            search.path.frames[l].typical[g] = typical[passed.first_group + g];
        if (l == layer) break;
        compose_scores(search.path, l);
        if (search.has_far || search.path.frames[l].is_homogeneous) note_ray(search.path, l);
        for (int g = passed.first_group; g < passed.first_group + passed.n_groups; g++)
            search.path.signature[g] = signature[g];
        compose_stream(search.path, l);
    }
    for (int i = 0; i < n; i++)
        read_edge(edges + HM_EDGE_NUMBERS * i, walls + 4 * i, search.cells.edges[start + i]);
    search.items[search.n_items++] = {{start, n}, layer, is_part ? kPartEntered : kNotEntered};
    return 0;
}

void hm_plane_drop(void* search_, int32_t n_items) {
    Plane& search = plane(search_);
    const std::size_t most_groups = search.path.network->most_groups;
    for (int i = n_items; i < search.n_items; i++) search.items[i - n_items] = search.items[i];
    for (std::size_t i = n_items * most_groups; i < search.n_items * most_groups; i++)
        search.winners[i - n_items * most_groups] = search.winners[i];
    search.n_items -= n_items;
}

void hm_plane_typical(const void* search_, int8_t* typical) {
    const Plane& search = plane(search_);
    for (int l = 0; l < search.path.network->n_layers; l++) {
        const Layer& layer = search.path.network->layers[l];
        for (int g = 0; g < layer.n_groups; g++)
            typical[layer.first_group + g] = search.path.frames[l].typical[g];
    }
}

void hm_plane_recompose(void* search, int32_t layer) { compose_stream(plane(search).path, layer); }

int32_t hm_plane_run(void* search, hm_cells* cells, int64_t limit, int64_t budget,
                     const int32_t* is_wanted) {
    Cells found{};
    found.room_cells = cells->room_cells, found.room_vertices = cells->room_vertices;
    found.n_cells = cells->n_cells, found.n_vertices = cells->n_vertices;
    found.n_broken = cells->n_broken, found.short_signatures = cells->short_signatures;
    found.signatures = cells->signatures, found.maps = cells->maps;
    found.map_radii = cells->map_radii, found.ends = cells->ends, found.points = cells->points;
    found.directions = cells->directions, found.walls = cells->walls;
    const int status = run(plane(search), found, limit, budget, is_wanted);
    cells->n_cells = found.n_cells, cells->n_vertices = found.n_vertices,
    cells->n_broken = found.n_broken;
    return status;
}

void hm_plane_counts(const void* search_, int64_t counts[4]) {
    const Plane& search = plane(search_);
    counts[0] = search.n_cells, counts[1] = search.counts.n_filtered;
    counts[2] = search.counts.n_expanded, counts[3] = search.n_items;
}

int32_t hm_plane_item(const void* search_, int32_t item, int32_t place[3], double* edges,
                      int32_t* walls) {
    const Plane& search = plane(search_);
    const auto& chosen = search.items[item];
    place[0] = chosen.layer, place[1] = chosen.position, place[2] = -1;
    if (chosen.layer < search.path.network->n_layers && chosen.position >= 0) {
        const Frame<2>& frame = search.path.frames[chosen.layer];
        if (chosen.position < frame.n_pending) place[2] = frame.pending[chosen.position];
    }
    for (int i = 0; i < chosen.place.n; i++)
        write_edge(search.cells.edges[chosen.place.start + i],
                   edges ? edges + HM_EDGE_NUMBERS * i : nullptr, walls ? walls + 4 * i : nullptr);
    return chosen.place.n;
}

void hm_plane_signature(const void* search_, int32_t* signature) {
    const Plane& search = plane(search_);
    for (int g = 0; g < search.path.network->n_groups; g++) signature[g] = search.path.signature[g];
}

void hm_plane_versions(const void* search_, int64_t* versions, int32_t* are_merged) {
    const Plane& search = plane(search_);
    for (int l = 0; l < search.path.network->n_layers; l++) {
        versions[l] = search.path.frames[l].version;
        are_merged[l] = search.path.frames[l].is_merged;
    }
}

int32_t hm_plane_candidates(const void* search_, int32_t layer, int32_t group, int32_t* forms) {
    const Plane& search = plane(search_);
    const Frame<2>& frame = search.path.frames[layer];
    const int first = search.path.network->layers[layer].starts[group];
    for (int m = 0; m < frame.n_candidates[group]; m++) forms[m] = frame.candidates[first + m];
    return frame.n_candidates[group];
}

void hm_plane_scores(const void* search_, int32_t layer, double* block) {
    const Plane& search = plane(search_);
    const Forms<2>& scores = search.path.frames[layer].scores;
    const int n = search.path.network->layers[layer].n_scores();
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < 3; k++) block[k * n + i] = scores.coefficient[k][i];
        block[3 * n + i] = scores.radius[i];
    }
}

int32_t hm_plane_replace(void* search_, int32_t n_parts, const int32_t* winners,
                         const int32_t* sizes, const double* edges, const int32_t* walls) {
    Plane& search = plane(search_);
    const int top = search.n_items - 1;
    const auto item = search.items[top];
    int n = 0;
    for (int i = 0; i < n_parts; i++) n += sizes[i];
    if (item.place.start + n > search.cells.room || top + n_parts > search.room_items) return 1;
    for (int i = 0; i < n; i++)
        read_edge(edges + HM_EDGE_NUMBERS * i, walls + 4 * i,
                  search.cells.edges[item.place.start + i]);
    const int* known = search.winners_of(top);
    for (int i = 0, start = item.place.start; i < n_parts; start += sizes[i++]) {
        search.items[top + i] = {{start, sizes[i]}, item.layer, item.position + 1};
        int* own = search.winners_of(top + i);
        for (int p = 0; i > 0 && p < item.position; p++) own[p] = known[p];
        own[item.position] = winners[i];
    }
    search.n_items = top + n_parts;
    return 0;
}

void hm_plane_set_vertices(void* search_, const double* vertices) {
    Plane& search = plane(search_);
    const auto& item = search.top();
    for (int i = 0; i < item.place.n; i++) {
        const double* v = vertices + 6 * i;
        search.cells.edges[item.place.start + i].start = {v[0], v[1], v[2], v[3], v[4], v[5]};
    }
    search.is_sharp = true;
}

void hm_plane_refresh(void* search_, int32_t l, const double* stream, int32_t stream_is_exact,
                      int32_t stream_grid, const double* scores, int32_t scores_are_exact,
                      int32_t scores_grid, const int32_t* first, const double* gains,
                      const double* gain_radii, const double* values, const double* value_radii) {
    Plane& search = plane(search_);
    const Layer& layer = search.path.network->layers[l];
    Frame<2>& frame = search.path.frames[l];
    copy_rows(stream, layer.dim_in, frame.stream);
    copy_rows(scores, layer.n_scores(), frame.scores);
    frame.stream_exactness = {stream_is_exact != 0, stream_grid};
    frame.scores_exactness = {scores_are_exact != 0, scores_grid};
    frame.has_exact = true;
    frame.is_pure = false;
    frame.window.index = -1;
    search.path.frames[l + 1].anchor_version = -1;
    if (!first) return;
    const Merged& merged = frame.merged;
    for (int j = 0; j < layer.n_forms; j++) {
        merged.gains[j] = gains[j], merged.gain_radii[j] = gain_radii[j];
    }
    for (std::size_t v = 0; v < std::size_t(layer.n_forms) * layer.width; v++)
        merged.values[v] = values[v], merged.value_radii[v] = value_radii[v];
    frame.is_merged = true;
    for (int g = 0; g < layer.n_groups; g++) {
        int* candidates = frame.candidates + layer.starts[g];
        int count = 0;
        for (int m = 0; m < frame.n_candidates[g]; m++)
            if (first[candidates[m]] == candidates[m]) candidates[count++] = candidates[m];
        frame.n_candidates[g] = count;
    }
}

int32_t hm_test_plane_sharpen(void* search) { return detail::sharpen(plane(search)); }

void hm_test_meet(const double* one, const double* other, double* vertex) {
    const std::int32_t no_wall[4] = {-1, 0, 0, 0};
    Edge a, b;
    read_edge(one, no_wall, a);
    read_edge(other, no_wall, b);
    const Vertex v = meet(a, b);
    const double numbers[] = {v.x, v.y, v.rho, v.dx, v.dy, v.far_rho};
    for (int k = 0; k < 6; k++) vertex[k] = numbers[k];
}

int32_t hm_test_filtered_sign(const double* form, const double* v) {
    return filtered_sign({{form[0], form[1]}, form[2], 0.0, 0.0},
                         {v[0], v[1], v[2], v[3], v[4], v[5]});
}

}  // extern "C"
