#include "hardmax/search.hpp"

#include <cstring>
#include <type_traits>

#include "hardmax/checks.hpp"
#include "hardmax/interface.h"
#include "hardmax/overlays.hpp"
#include "hardmax/polygons.hpp"
#include "hardmax/polytopes.hpp"
#include "hardmax/recomposing.hpp"
#include "paths.hpp"
#include "searches.hpp"

#if !defined(HM_PLANE_ONLY)
namespace hardmax {

HM_SEARCH(extern, Polytopes<1>)
HM_SEARCH(extern, Polygons)
HM_SEARCH(extern, Polytopes<3>)
HM_SEARCH(extern, Polytopes<4>)
HM_SEARCH(extern, Polytopes<5>)
HM_SEARCH(extern, Polytopes<6>)
HM_SEARCH(extern, Polytopes<7>)

}  // namespace hardmax
#endif

using namespace hardmax;

namespace {

const Network& network_of(const void* network) { return *static_cast<const Network*>(network); }

// Call a function with a search object of the right dimension type. The browser version supports
// only the plane.
template <class F>
auto with_dimension([[maybe_unused]] int dim, F call) {
#if defined(HM_PLANE_ONLY)
    return call(static_cast<Search<Polygons>*>(nullptr));
#else
    switch (dim) {
        case 1:
            return call(static_cast<Search<Polytopes<1>>*>(nullptr));
        case 2:
            return call(static_cast<Search<Polygons>*>(nullptr));
        case 3:
            return call(static_cast<Search<Polytopes<3>>*>(nullptr));
        case 4:
            return call(static_cast<Search<Polytopes<4>>*>(nullptr));
        case 5:
            return call(static_cast<Search<Polytopes<5>>*>(nullptr));
        case 6:
            return call(static_cast<Search<Polytopes<6>>*>(nullptr));
        default:
            return call(static_cast<Search<Polytopes<7>>*>(nullptr));
    }
#endif
}

bool has_dimension(int dim) {
#if defined(HM_PLANE_ONLY)
    return dim == 2;
#else
    return dim >= 1 && dim <= 7;
#endif
}

template <class F>
auto with_search(void* search, F call) {
    return with_dimension(*static_cast<const int*>(search),
                          [&](auto* kind) { return call(*static_cast<decltype(kind)>(search)); });
}

// The same for functions that only read the search.
template <class F>
auto with_search(const void* search, F call) {
    return with_search(const_cast<void*>(search), call);
}

// --- Memory --------------------------------------------------------------------------------------

void lay_out(Polygons& polygons, const Network& network, Arena& arena) {
    polygons.crowd = take_crowd(network, arena);
}

template <int D>
void lay_out(Polytopes<D>& polytopes, const Network& network, Arena& arena) {
    polytopes.zeros = arena.take<bool>(network.n_groups + 1);
    polytopes.n_words = 1;
}

// Scratch arrays, whose contents are not preserved.
void take_scratch(Polygons& polygons, Arena& arena) {
    polygons.sections = arena.take<Sections<2>>(1);
}

template <int D>
void take_scratch(Polytopes<D>& polytopes, Arena& arena) {
    polytopes.minors = arena.take<Minors<D + 1>>(1);
    polytopes.sections = arena.take<Sections<D>>(1);
}

// Lay out a search without its stack; scratch memory starts after the first `n_kept` bytes.
template <class S>
S laid_out(const Network& network, bool stores, Arena& arena, std::size_t& n_kept) {
    arena.take<S>(1);
    S search{};
    search.dimension = S::dim;
    search.path = take_path<S::dim>(network, arena);
    search.doubled = take_doubled_path<S::dim>(network, arena);
    if (stores) search.pure = take_path<S::dim>(network, arena);
    const int n = network.largest_group;
    search.contest.form = arena.take<int>(n);
    search.contest.error = arena.take<double>(n + kLanes);
    search.contest.far_error = arena.take<double>(n + kLanes);
    search.contest.slopes = arena.take<double>(n + kLanes);
    search.contest.listed = arena.take<int>(n);
    search.contest.is_kept = arena.take<bool>(n);
    lay_out(search.cells, network, arena);
    n_kept = arena.used;
    take_scratch(search.cells, arena);
    return search;
}

void start_cells(Polygons& polygons, const hm_search_start& start) {
    polygons.has_far = !start.is_bounded;
}

template <int D>
void start_cells(Polytopes<D>& polytopes, const hm_search_start& start) {
    polytopes.has_far = !start.is_bounded;
    polytopes.stores = start.stores;
    polytopes.scale = start.scale;
    polytopes.most_rho = 0x1p-22 * start.scale;
}

// Allocate an array in an arena and copy its previous contents.
template <class T>
void renew(Arena& arena, T*& piece, std::size_t room, std::size_t n_kept) {
    T* larger = arena.take<T>(room);
    for (std::size_t i = 0; larger && i < n_kept; i++) larger[i] = piece[i];
    if (larger) piece = larger;
}

void renew_stack(Polygons& polygons, Arena& arena, int room, const Polygons::Place* top) {
    renew(arena, polygons.edges, room, top ? top->start + top->n : 0);
    renew(arena, polygons.signs, room, 0);
    polygons.room = room;
}

template <int D>
void renew_stack(Polytopes<D>& s, Arena& arena, int room, const typename Polytopes<D>::Place* top) {
    const int n_words = s.lacks_words ? 2 * s.n_words : s.n_words;
    const std::size_t n = top ? top->start + top->n : 0, n_bits = 64 * n_words;
    renew(arena, s.points, room, n);
    if (s.has_far) renew(arena, s.directions, room, n);
    renew(arena, s.marks, room, n);
    Word* masks = arena.take<Word>(std::size_t(room) * n_words);
    for (std::size_t i = 0; masks && i < n; i++)
        for (int w = 0; w < n_words; w++)
            masks[i * n_words + w] = w < s.n_words ? s.masks[i * s.n_words + w] : 0;
    renew(arena, s.facets, room, top ? top->first_facet + top->n_facets : 0);
    renew(arena, s.pool, room, top ? top->n_pool : 0);
    renew(arena, s.ties, room, top ? top->n_ties : 0);
    renew(arena, s.signs, room + 1, 0);
    renew(arena, s.values, room + 1, 0);
    renew(arena, s.above, room + 1, 0);
    renew(arena, s.below, room + 1, 0);
    renew(arena, s.words, room + 1, 0);
    renew(arena, s.pairs, 8 * std::size_t(room) + 1, 0);
    renew(arena, s.tight, n_bits, 0);
    renew(arena, s.counts, n_bits, 0);
    renew(arena, s.rest, n_bits, 0);
    renew(arena, s.common, 2 * std::size_t(n_words), 0);
    if (!masks) return;
    s.masks = masks, s.n_words = n_words, s.room = room, s.lacks_words = false;
}

template <class S>
void renew_stack(S& search, Arena& arena, int room, int room_items) {
    const std::size_t n_items = search.n_items, most_groups = search.path.network->most_groups;
    renew_stack(search.cells, arena, room, n_items > 0 ? &search.top().place : nullptr);
    renew(arena, search.items, room_items, n_items);
    renew(arena, search.winners, room_items * most_groups, n_items * most_groups);
    if (arena.base) search.room_items = room_items;
}

// --- Reading and writing cells -------------------------------------------------------------------

constexpr int kIsFull = 1;

int count_facets(const Polygons::Place& place) { return place.n; }

template <class Place>
int count_facets(const Place& place) {
    return place.n_facets;
}

Wall read_wall(const std::int32_t* wall) { return {wall[0], wall[1], wall[2], wall[3]}; }

void write_wall(const Wall& wall, std::int32_t* to) {
    const int who[] = {wall.layer, wall.group, wall.winner, wall.rival};
    for (int k = 0; k < 4; k++) to[k] = who[k];
}

Vertex read_vertex(const double* v) { return {v[0], v[1], v[2], v[3], v[4], v[5], {}}; }

// Write an input cell to the place `to` on the stack. Return false if the stack is full. The cell
// is a part of `whole`, if that is given.
bool read_cell(Polygons& polygons, const hm_cell& cell, const Polygons::Place*,
               Polygons::Place& to) {
    if (to.start + 4 * cell.n_vertices + 8 > polygons.room) return false;
    for (int i = 0; i < cell.n_vertices; i++) {
        read_edge(cell.facets + i * cell.facet_stride, cell.vertices + i * cell.vertex_stride,
                  cell.walls + 4 * i, polygons.edges[to.start + i]);
    }
    to.n = cell.n_vertices;
    return true;
}

template <int D>
void read_vertex(const double* numbers, Polytopes<D>& s, int i) {
    for (int k = 0; k < D; k++) s.points[i].x[k] = numbers[k];
    s.points[i].rho = numbers[D];
    if (!s.has_far) return;
    for (int k = 0; k < D; k++) s.directions[i].x[k] = numbers[D + 1 + k];
    s.directions[i].rho = numbers[2 * D + 1];
}

template <int D>
void read_facet(const double* numbers, Facet<D>& facet) {
    for (int k = 0; k < D; k++) facet.form.a[k] = numbers[k];
    facet.form.c = numbers[D], facet.far = numbers[D + 1];
    facet.form.slope_radius = numbers[D + 2], facet.form.offset_radius = numbers[D + 3];
    facet.norm = numbers[D + 4];
}

template <int D>
void write_facet(const Facet<D>& facet, double* to) {
    for (int k = 0; k < D; k++) to[k] = facet.form.a[k];
    to[D] = facet.form.c, to[D + 1] = facet.far;
    to[D + 2] = facet.form.slope_radius, to[D + 3] = facet.form.offset_radius;
    to[D + 4] = facet.norm;
}

template <int D>
bool read_cell(Polytopes<D>& s, const hm_cell& cell, const typename Polytopes<D>::Place* whole,
               typename Polytopes<D>::Place& to) {
    const int n = cell.n_vertices, n_facets = cell.n_facets;
    if (n_facets > 64 * s.n_words) {
        s.lacks_words = true;
        return false;
    }
    if (to.start + n > s.room || most(to.first_facet, to.n_pool) + n_facets > s.room ||
        to.n_ties + cell.n_ties > s.room)
        return false;
    for (int i = 0; i < n; i++) {
        read_vertex(cell.vertices + i * cell.vertex_stride, s, to.start + i);
        for (int w = 0; w < s.n_words; w++)
            s.mask(to.start + i)[w] = w < cell.n_words ? cell.masks[i * cell.n_words + w] : 0;
    }
    for (int f = 0; f < n_facets; f++) {
        int& row = s.facets[to.first_facet + f];
        if (whole && cell.sources[f] >= 0) {
            row = s.facets[whole->first_facet + cell.sources[f]];
            continue;
        }
        row = to.n_pool++;
        Facet<D>& facet = s.pool[row];
        read_facet(cell.facets + f * cell.facet_stride, facet);
        facet.wall = read_wall(cell.walls + 4 * f);
        facet.is_pure = cell.is_pure && cell.is_pure[f];
    }
    for (int t = 0; t < cell.n_ties; t++) {
        const std::int32_t* tie = cell.ties + 3 * t;
        const int row = tie[0] < 0 ? -1 : s.facets[to.first_facet + tie[0]];
        // A tie on the whole cell may already exist, shared with a cell below.
        int known = row < 0 ? 0 : to.n_ties;
        while (known < to.n_ties && !(s.ties[known].row == row && s.ties[known].group == tie[1] &&
                                      s.ties[known].winner == tie[2]))
            known++;
        if (known == to.n_ties) s.ties[to.n_ties++] = {row, tie[1], tie[2]};
    }
    to.n = n, to.n_facets = n_facets;
    to.is_canonical = cell.is_canonical;
    to.reach = reach_of(s.at(to));
    return true;
}

void write_cell(const Polygons& polygons, const Polygons::Place& place, hm_cell& cell) {
    cell.n_vertices = cell.n_facets = place.n;
    for (int i = 0; i < place.n && cell.vertices; i++) {
        const Edge& edge = polygons.edges[place.start + i];
        const Line& line = edge.line;
        const Vertex& v = edge.start;
        const double numbers[] = {line.a[0],       line.a[1],         line.c,
                                  edge.far_offset, line.slope_radius, line.offset_radius};
        const double start[] = {v.x, v.y, v.rho, v.dx, v.dy, v.far_rho};
        for (int k = 0; k < 6; k++) {
            cell.facets[i * cell.facet_stride + k] = numbers[k];
            cell.vertices[i * cell.vertex_stride + k] = start[k];
        }
        write_wall(edge.wall, cell.walls + 4 * i);
    }
}

double about_size(const Polygon& polygon) {
    double doubled = 0.0;
    for (int i = 0; i < polygon.n; i++) {
        if (polygon.is_far(i)) return __builtin_nan("");
        const Vertex &a = polygon.at(i > 0 ? i - 1 : polygon.n - 1), &b = polygon.at(i);
        doubled += a.x * b.y - b.x * a.y;
    }
    return 0.5 * doubled;
}

template <int D>
double about_size(const Polytope<D>& polytope) {
    double low[D] = {}, high[D] = {}, volume = 1.0;
    for (int i = 0; i < polytope.n; i++) {
        if (polytope.is_far(i)) return __builtin_nan("");
        for (int k = 0; k < D; k++) {
            const double x = polytope.x(i, k);
            if (i == 0 || x < low[k]) low[k] = x;
            if (i == 0 || x > high[k]) high[k] = x;
        }
    }
    for (int k = 0; k < D; k++) volume *= high[k] - low[k];
    return volume;
}

template <int D>
void write_cell(const Polytopes<D>& s, const typename Polytopes<D>::Place& place, hm_cell& cell) {
    cell.n_vertices = place.n, cell.n_facets = place.n_facets, cell.n_words = s.n_words;
    cell.n_ties = place.n_ties;
    cell.is_canonical = place.is_canonical;
    if (!cell.vertices) return;
    for (int i = 0; i < place.n; i++) {
        const int v = place.start + i;
        double* to = cell.vertices + i * cell.vertex_stride;
        for (int k = 0; k < D; k++) {
            to[k] = s.points[v].x[k];
            to[D + 1 + k] = s.has_far ? s.directions[v].x[k] : 0.0;
        }
        to[D] = s.points[v].rho;
        to[2 * D + 1] = s.has_far ? s.directions[v].rho : 0.0;
        for (int w = 0; w < s.n_words; w++) cell.masks[i * s.n_words + w] = s.mask(v)[w];
    }
    for (int f = 0; f < place.n_facets; f++) {
        const Facet<D>& facet = s.pool[s.facets[place.first_facet + f]];
        write_facet(facet, cell.facets + f * cell.facet_stride);
        write_wall(facet.wall, cell.walls + 4 * f);
        cell.is_pure[f] = facet.is_pure;
    }
    int n_ties = 0;
    for (int t = 0; t < place.n_ties; t++) {
        const Tie& tie = s.ties[t];
        int facet = tie.row < 0 ? -1 : 0;
        while (facet >= 0 && facet < place.n_facets &&
               s.facets[place.first_facet + facet] != tie.row)
            facet++;
        if (facet == place.n_facets) continue;
        const int numbers[] = {facet, tie.group, tie.winner};
        for (int k = 0; k < 3; k++) cell.ties[3 * n_ties + k] = numbers[k];
        n_ties++;
    }
    cell.n_ties = n_ties;
}

void set_vertices(Polygons& polygons, const Polygons::Place& place, const double* vertices) {
    for (int i = 0; i < place.n; i++)
        polygons.edges[place.start + i].start = read_vertex(vertices + 6 * i);
}

template <int D>
void set_vertices(Polytopes<D>& s, typename Polytopes<D>::Place& place, const double* vertices) {
    for (int i = 0; i < place.n; i++) read_vertex(vertices + (2 * D + 2) * i, s, place.start + i);
}

template <class S>
void init(S& search, const Network& network, const hm_search_start& start) {
    search.has_far = !start.is_bounded;
    search.stores = start.stores;
    start_cells(search.cells, start);
    auto& path = search.path;
    begin_path(start, path, search.doubled);
    if (!search.stores) return;
    auto& pure = search.pure;
    pure.scale = path.scale;
    pure.signature = path.signature;
    copy_rows(start.stream, network.dim_stream, pure.frames[0].stream);
    pure.frames[0].stream_exactness = path.frames[0].stream_exactness;
    for (int l = 0; l < network.n_layers; l++) {
        pure.frames[l].is_homogeneous = path.frames[l].is_homogeneous;
        pure.frames[l].version = -1;
    }
}

template <class S>
int push(S& search, int layer, bool is_part, const std::int32_t* signature,
         const std::int8_t* typical, const hm_cell& cell) {
    const Network& network = *search.path.network;
    const int lowest = search.n_items > 0 ? search.top().layer : 0;
    if (layer < lowest || layer > network.n_layers - is_part ||
        !detail::are_winners(network, signature, 0, layer) ||
        !detail::are_typical(network, typical, layer + is_part) ||
        !is_cell(network, S::dim, cell, -1))
        return HM_OUT_OF_RANGE;
    if (search.n_items + 1 > search.room_items) return kIsFull;
    typename S::Place place{};
    if (search.n_items > 0) place = search.cells.after(search.top().place);
    if (!read_cell(search.cells, cell, nullptr, place)) return kIsFull;
    // Cells that are pushed one after the other share the path up to the lower one.
    for (int l = lowest; l < layer + is_part; l++) {
        const Layer& passed = network.layers[l];
        for (int g = 0; g < passed.n_groups; g++)
            search.path.frames[l].typical[g] = typical[passed.first_group + g];
        if (l == layer) break;
        compose_scores(search.path, l);
        search.cells.note_region(search.path, l, search.has_far);
        for (int g = passed.first_group; g < passed.first_group + passed.n_groups; g++)
            search.path.signature[g] = signature[g];
        compose_stream(search.path, l);
    }
    search.items[search.n_items++] = {place, layer, is_part ? kPartEntered : kNotEntered, -1};
    // The lines of a part are renewed once its layer has been composed.
    if (!is_part && layer > 0) renew_lines(search.cells, place, search.path, layer - 1);
    return HM_OK;
}

template <class S>
int replace(S& search, int n_parts, const std::int32_t* winners, const hm_cell* parts) {
    const int top = search.n_items - 1;
    const auto item = search.items[top];
    for (int i = 0; i < n_parts; i++)
        if (!is_cell(*search.path.network, S::dim, parts[i], count_facets(item.place)))
            return HM_OUT_OF_RANGE;
    if (top + n_parts + 1 > search.room_items) return kIsFull;
    auto end = search.cells.after(item.place);
    for (int i = 0; i < n_parts; i++) {
        auto place = end;
        if (!read_cell(search.cells, parts[i], &item.place, place)) return kIsFull;
        search.items[top + 1 + i] = {place, item.layer, winners[i], -1};
        end = search.cells.after(place);
    }
    if (!search.cells.has_room(item.place, end, 0)) return kIsFull;
    settle_parts(search, item, end, n_parts);
    return HM_OK;
}

template <class Frame>
void merge(const Layer& layer, Frame& frame, const std::int32_t* first, const double* gains,
           const double* gain_radii, const double* values, const double* value_radii) {
    const Merged& merged = frame.merged;
    for (int j = 0; j < layer.n_forms; j++)
        merged.gains[j] = gains[j], merged.gain_radii[j] = gain_radii[j];
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
    for (int j = 0; j < layer.n_forms; j++) {
        merged.has_coinciding[j] = false;
        if (first[j] != layer.first[j]) merged.has_coinciding[first[j]] = true;
    }
}

// Write the forms of some cells' facets, or mark them as unknown.
template <int D>
void compose_facets(Path<D>& path, const FacetTable& t, const std::int8_t* is_wanted) {
    int known = -1;
    for (std::int64_t cell = 0; cell < t.n_cells; cell++) {
        if (!is_wanted[cell]) continue;
        if (t.passes_mean(cell)) {
            for (std::int64_t f = t.starts[cell]; f < t.starts[cell + 1]; f++) {
                double* to = t.forms + f * (D + 3);
                for (int k = 0; k < D + 3; k++) to[k] = k <= D ? 0.0 : kInfinity;
            }
            continue;
        }
        go_to_cell(path, t, cell, known);
        for (std::int64_t f = t.starts[cell]; f < t.starts[cell + 1]; f++) {
            const Form<D> form = wall_form(path, wall_of(*path.network, t, cell, f));
            double* to = t.forms + f * (D + 3);
            for (int k = 0; k < D; k++) to[k] = form.a[k];
            to[D] = form.c, to[D + 1] = form.slope_radius, to[D + 2] = form.offset_radius;
        }
    }
}

// Begin a search with an empty stack: see `hm_search_begin`.
std::size_t begin_search(void* memory, std::size_t n_bytes, const Network& network,
                         const hm_search_start& start, int room, int room_items) {
    return with_dimension(start.dim, [&](auto* kind) {
        using S = std::remove_pointer_t<decltype(kind)>;
        Arena needed;
        std::size_t n_kept;
        S sized = laid_out<S>(network, start.stores, needed, n_kept);
        const std::size_t n_own = needed.used;
        start_cells(sized.cells, start);
        renew_stack(sized, needed, room, room_items);
        if (needed.used > n_bytes) return needed.used;
        char* begin = static_cast<char*>(memory);
        std::memset(begin, 0, n_kept);
        std::memset(begin + n_own, 0, needed.used - n_own);
        Arena arena{begin};
        S& search = *static_cast<S*>(memory);
        search = laid_out<S>(network, start.stores, arena, n_kept);
        init(search, network, start);
        renew_stack(search, arena, room, room_items);
        return needed.used;
    });
}

// Begin a search on facets. Its stack does not grow: it has capacity for a facet and its parts,
// and, if groups are large, for all parts at once.
std::size_t begin_on_facets(void* memory, std::size_t n_bytes, const Network& network,
                            const hm_search_start& start) {
    const int widest = network.largest_group >= 24 ? network.largest_group : 0;
    return begin_search(memory, n_bytes, network, start, 256 + 16 * widest, 48 + widest);
}

}  // namespace

extern "C" {

size_t hm_network_size(const int64_t* integers, int64_t n_integers, const double* numbers,
                       int64_t n_numbers) {
    if (!is_network(integers, n_integers, numbers, n_numbers)) return 0;
    Arena arena;
    read_network({integers, numbers}, arena);
    return arena.used;
}

int32_t hm_network_init(void* memory, const int64_t* integers, const double* numbers,
                        const int32_t* is_stopped) {
    Arena arena{static_cast<char*>(memory)};
    const Network& network = *read_network({integers, numbers, is_stopped}, arena);
    if (network.n_layers < 0) return -1;
    for (int l = 0; l < network.n_layers; l++)
        if (!network.layers[l].is_distinct) return 0;
    return 1;
}

size_t hm_search_begin(void* memory, size_t n_bytes, const void* network,
                       const hm_search_start* start, int32_t room, int32_t room_items) {
    if (!has_dimension(start->dim) || room <= 0 || room_items <= 0) return 0;
    return begin_search(memory, n_bytes, network_of(network), *start, room, room_items);
}

size_t hm_search_stack_size(const void* search, int32_t room, int32_t room_items) {
    return with_search(search, [&](auto& s) {
        Arena arena;
        renew_stack(s, arena, room, room_items);
        return arena.used;
    });
}

void hm_search_set_stack(void* search, void* memory, int32_t room, int32_t room_items) {
    with_search(search, [&](auto& s) {
        Arena needed, arena{static_cast<char*>(memory)};
        renew_stack(s, needed, room, room_items);
        std::memset(memory, 0, needed.used);
        renew_stack(s, arena, room, room_items);
    });
}

int32_t hm_search_push(void* search, int32_t layer, int32_t is_part, const int32_t* signature,
                       const int8_t* typical, const hm_cell* cell) {
    return with_search(search, [&](auto& s) {
        return push(s, layer, is_part != 0, signature, typical, *cell);
    });
}

void hm_search_drop(void* search, int32_t n_items) {
    with_search(search, [&](auto& s) {
        const std::size_t most_groups = s.path.network->most_groups;
        for (int i = n_items; i < s.n_items; i++) s.items[i - n_items] = s.items[i];
        for (std::size_t i = n_items * most_groups; i < s.n_items * most_groups; i++)
            s.winners[i - n_items * most_groups] = s.winners[i];
        s.n_items -= n_items;
    });
}

void hm_search_typical(const void* search, int8_t* typical) {
    with_search(search, [&](auto& s) {
        for (int l = 0; l < s.path.network->n_layers; l++) {
            const Layer& layer = s.path.network->layers[l];
            for (int g = 0; g < layer.n_groups; g++)
                typical[layer.first_group + g] = s.path.frames[l].typical[g];
        }
    });
}

void hm_search_recompose(void* search, int32_t layer) {
    with_search(search, [&](auto& s) { compose_stream(s.path, layer); });
}

int32_t hm_search_run(void* search, hm_cells* cells, int64_t limit, int64_t budget,
                      const int32_t* is_wanted, int64_t counts[4], const int32_t* is_stopped) {
    Cells found{cells->room_cells,       cells->room_vertices, cells->room_facets,
                cells->room_ties,        cells->n_cells,       cells->n_vertices,
                cells->n_facets,         cells->n_ties,        cells->n_broken,
                cells->short_signatures, cells->signatures,    cells->maps,
                cells->map_radii,        cells->ends,          cells->points,
                cells->directions,       cells->walls,         cells->facet_ends,
                cells->tie_ends,         cells->ties,          cells->blurs,
                cells->bit_signatures};
    const int status =
        with_search(search, [&](auto& s) {
            return run(s, found, limit, budget, is_wanted, is_stopped);
        });
    cells->n_cells = found.n_cells, cells->n_vertices = found.n_vertices;
    cells->n_facets = found.n_facets, cells->n_ties = found.n_ties;
    cells->n_broken = found.n_broken;
    hm_search_counts(search, counts);
    return status;
}

size_t hm_cells_pack(const hm_cells* cells, int32_t n, const hm_column* columns, hm_cells* packed,
                     void* block, size_t n_bytes) {
    const std::int64_t counts[] = {cells->n_cells, cells->n_vertices, cells->n_facets,
                                   cells->n_ties};
    std::size_t needed = 0;
    for (int i = 0; i < n; i++)
        needed += (counts[columns[i].counted] + columns[i].n_before) * columns[i].row_bytes;
    if (needed > n_bytes) return needed;
    *packed = {};
    packed->n_cells = counts[0], packed->n_vertices = counts[1];
    packed->n_facets = counts[2], packed->n_ties = counts[3];
    char* to = static_cast<char*>(block);
    for (int i = 0; i < n; i++) {
        const hm_column& column = columns[i];
        const std::size_t n_before = column.n_before * column.row_bytes,
                          n_rows = counts[column.counted] * column.row_bytes;
        const char* from;
        std::memcpy(&from, reinterpret_cast<const char*>(cells) + column.field, sizeof from);
        std::memcpy(to, from - n_before, n_before + n_rows);
        to += n_before;
        std::memcpy(reinterpret_cast<char*>(packed) + column.field, &to, sizeof to);
        to += n_rows;
    }
    return needed;
}

void hm_search_counts(const void* search, int64_t counts[4]) {
    with_search(search, [&](auto& s) {
        counts[0] = s.n_cells, counts[1] = s.counts.n_filtered;
        counts[2] = s.counts.n_expanded, counts[3] = s.n_items;
    });
}

void hm_search_item(const void* search, int32_t item, int32_t place[3], hm_cell* cell) {
    with_search(search, [&](auto& s) {
        const auto& chosen = s.items[item];
        place[0] = chosen.layer, place[1] = chosen.position, place[2] = -1;
        if (chosen.layer < s.path.network->n_layers && chosen.position >= 0) {
            const auto& frame = s.path.frames[chosen.layer];
            if (chosen.position < frame.n_pending) place[2] = frame.pending[chosen.position];
        }
        write_cell(s.cells, chosen.place, *cell);
    });
}

void hm_search_sizes(const void* search, double* sizes) {
    with_search(search, [&](auto& s) {
        for (int i = 0; i < s.n_items; i++) sizes[i] = about_size(s.cells.at(s.items[i].place));
    });
}

void hm_search_signature(const void* search, int32_t* signature) {
    with_search(search, [&](auto& s) {
        for (int g = 0; g < s.path.network->n_groups; g++) signature[g] = s.path.signature[g];
    });
}

void hm_search_versions(const void* search, int64_t* versions, int32_t* are_merged) {
    with_search(search, [&](auto& s) {
        for (int l = 0; l < s.path.network->n_layers; l++) {
            versions[l] = s.path.frames[l].version;
            are_merged[l] = s.path.frames[l].is_merged;
        }
    });
}

int32_t hm_search_candidates(const void* search, int32_t layer, int32_t group, int32_t* forms) {
    return with_search(search, [&](auto& s) {
        const auto& frame = s.path.frames[layer];
        const int first = s.path.network->layers[layer].starts[group];
        for (int m = 0; m < frame.n_candidates[group]; m++) forms[m] = frame.candidates[first + m];
        return frame.n_candidates[group];
    });
}

int32_t hm_search_set_chain(void* search, int32_t layer, int32_t group, int32_t n,
                            const int32_t* forms) {
    return with_search(search, [&](auto& s) -> int32_t {
        const Network& network = *s.path.network;
        if (s.dim != 1 || !is_between(layer, 0, network.n_layers - 1)) return HM_OUT_OF_RANGE;
        const Layer& changed = network.layers[layer];
        auto& frame = s.path.frames[layer];
        if (changed.is_relu || !is_between(group, 0, changed.n_groups - 1)) return HM_OUT_OF_RANGE;
        if (n == 0) return frame.is_chain[group] ? HM_OK : HM_UNAVAILABLE;
        const int first = changed.starts[group], end = changed.starts[group + 1];
        if (!is_between(n, 1, end - first) || !all_between(forms, n, first, end - 1))
            return HM_OUT_OF_RANGE;
        for (int m = 0; m < n; m++) frame.candidates[first + m] = forms[m];
        frame.n_candidates[group] = n;
        frame.is_chain[group] = true;
        return HM_OK;
    });
}

void hm_search_scores(const void* search, int32_t layer, double* block) {
    with_search(search, [&](auto& s) {
        constexpr int D = std::remove_reference_t<decltype(s)>::dim;
        const Forms<D>& scores = s.path.frames[layer].scores;
        const int n = s.path.network->layers[layer].n_scores();
        for (int i = 0; i < n; i++) {
            for (int k = 0; k <= D; k++) block[k * n + i] = scores.coefficient[k][i];
            block[(D + 1) * n + i] = scores.radius[i];
        }
    });
}

int32_t hm_search_replace(void* search, int32_t n_parts, const int32_t* winners,
                          const hm_cell* parts) {
    return with_search(search, [&](auto& s) { return replace(s, n_parts, winners, parts); });
}

void hm_search_set_vertices(void* search, const double* vertices) {
    with_search(search, [&](auto& s) {
        set_vertices(s.cells, s.top().place, vertices);
        s.is_precise = true;
    });
}

void hm_search_refresh(void* search, int32_t l, const double* stream, int32_t stream_is_exact,
                       int32_t stream_grid, const double* scores, int32_t scores_are_exact,
                       int32_t scores_grid, const int32_t* first, const double* gains,
                       const double* gain_radii, const double* values, const double* value_radii) {
    with_search(search, [&](auto& s) {
        const Layer& layer = s.path.network->layers[l];
        auto& frame = s.path.frames[l];
        copy_rows(stream, layer.dim_in, frame.stream);
        copy_rows(scores, layer.n_scores(), frame.scores);
        frame.has_exact = true;
        frame.stream_exactness = {stream_is_exact != 0, stream_grid};
        frame.scores_exactness = {scores_are_exact != 0, scores_grid};
        frame.is_pure = frame.has_rows = false;
        frame.window.index = -1;
        s.path.frames[l + 1].anchor_version = -1;
        if (first) merge(layer, frame, first, gains, gain_radii, values, value_radii);
    });
}

size_t hm_facets_meet(hm_facets* facets, const void* network, const hm_search_start* start,
                      void* memory, size_t n_bytes, int64_t budget) {
    const std::size_t n_own = (room_for<Meeting>(FacetTable{*facets}) + 63) / 64 * 64,
                      n_search = begin_on_facets(nullptr, 0, network_of(network), *start);
    if (n_own + n_search > n_bytes) return n_own + n_search;
    if (!are_facets(network_of(network), FacetTable{*facets})) return 0;
    Meeting& m = placed<Meeting>(memory, FacetTable{*facets});
    m.search = static_cast<char*>(memory) + n_own, m.search_bytes = n_search;
    m.network = network, m.start = *start;
    facets->owners = m.owners, facets->splits = m.splits, facets->forms = m.forms;
    const FacetTable t{*facets};
    const std::size_t row = t.dim + 3;
    std::memcpy(m.forms + t.n_facets * row, t.borders, t.n_borders * row * sizeof(double));
    m.next = 0, m.is_sorted = false;
    m.n_pairs = match_facets(t, m, m.pairs);
    list_walls(t, m);
    m.n_pairs = settle_walls(t, m, m.n_pairs, m.pairs);
    count_open(m);
    if (t.n_facets <= budget) {
        if (m.n_searched > 0) hm_facets_overlay(facets, memory, budget);
        m.is_sorted = m.next == m.n_searched && m.n_open == 0 && !t.is_chosen &&
                      t.tie_starts[t.n_cells] == 0;
        if (m.is_sorted) sort_pairs(t, m, m.n_pairs, m.pairs, m.cells, m.groups);
    }
    return n_own + n_search;
}

void hm_facets_overlay(const hm_facets* facets, void* memory, int64_t budget) {
    const FacetTable t{*facets};
    Meeting& m = *static_cast<Meeting*>(memory);
    const bool is_first = m.next == 0;
    if (is_first) {
        begin_on_facets(m.search, m.search_bytes, network_of(m.network), m.start);
        want_cells(t, m);
    }
    with_search(m.search, [&](auto& s) {
        if constexpr (!std::is_same_v<std::remove_reference_t<decltype(s)>, Search<Polygons>>) {
            if (is_first) compose_facets(s.path, t, m.is_wanted);
            overlay(s, t, m, budget);
        }
    });
    if (m.next == m.n_searched) count_open(m);
}

void hm_facets_compose(const hm_facets* facets, void* memory, int64_t n, const int64_t* chosen) {
    const FacetTable t{*facets};
    Meeting& m = *static_cast<Meeting*>(memory);
    std::memset(m.is_wanted, 0, t.n_cells);
    for (std::int64_t i = 0; i < n; i++) m.is_wanted[t.owners[chosen[i]]] = 1;
    begin_on_facets(m.search, m.search_bytes, network_of(m.network), m.start);
    with_search(m.search, [&](auto& s) { compose_facets(s.path, t, m.is_wanted); });
}

int32_t hm_test_improve(void* search) {
    return with_search(search, [&](auto& s) { return detail::improve(s) ? 1 : 0; });
}

void hm_test_meet(const double* one, const double* other, double* vertex) {
    const std::int32_t no_wall[4] = {-1, 0, 0, 0};
    Edge a, b;
    read_edge(one, no_wall, a);
    read_edge(other, no_wall, b);
    const Vertex v = meet(a, b);
    const double numbers[] = {v.x, v.y, v.rho, v.dx, v.dy, v.far_rho};
    for (int k = 0; k < 6; k++) vertex[k] = numbers[k];
}

void hm_test_facet(const double* form, double* facet) {
    write_facet(facet_of<3>({{form[0], form[1], form[2]}, form[3], 0.0, 0.0}, {}, false), facet);
}

void hm_test_meet_facets(const double* facets, double scale, double* vertex) {
    Facet<3> rows[3];
    for (int j = 0; j < 3; j++) read_facet(facets + 8 * j, rows[j]);
    const Facet<3>* const chosen[3] = {&rows[0], &rows[1], &rows[2]};
    Point<3> v, direction;
    meet(&chosen, 1, scale, &v, &direction);
    for (int k = 0; k < 3; k++) vertex[k] = v.x[k], vertex[4 + k] = direction.x[k];
    vertex[3] = v.rho, vertex[7] = direction.rho;
}

int32_t hm_test_filtered_sign(const double* form, const double* vertex) {
    return filtered_sign({{form[0], form[1]}, form[2], 0.0, 0.0}, read_vertex(vertex));
}

}  // extern "C"
