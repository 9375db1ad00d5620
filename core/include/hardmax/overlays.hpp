// Which cells meet across walls where a network jumps: the far side searched on facets of the near one.
//
// A facet of a cell is a polytope of dimension D - 1. Beyond it the winners up to the layer of its wall
// are those of the cell, but for the one that the wall changes, if no other group ties there. From the
// next layer on the search splits the facet as it splits cells: each vertex of a flat polytope lies on
// D facets at least, the hyperplane that holds it among them, so that edges are found and cut as those
// of a polytope of dimension D. What is found are the parts of the facet with constant winners beyond
// it: there the cell and the one with these winners share a piece of the wall, and nowhere else.
//
// Nothing is said of a facet where a sign stays open, where a later group ties on the whole of a part,
// or where it is not certain on which facets the vertices lie. A vertex lies on D independent facets at
// least; if all forms but D have a sign there, these are the ones. If more have none, but all of them
// are linear, the vertex is the origin, and lies on all of them.
#pragma once
#include "facets.hpp"
#include "polytopes.hpp"
#include "search.hpp"

namespace hardmax {

namespace detail {

// The rows of a cell, those of its facets, then those of the domain.
struct Rows {
    std::int64_t first, border;
    int n_own, n;
    Rows(const FacetTable& t, std::int64_t cell) : first(t.starts[cell]), border(t.n_facets) {
        n_own = static_cast<int>(t.starts[cell + 1] - first);
        n = n_own + t.n_borders;
    }
    std::int64_t operator[](int r) const { return r < n_own ? first + r : border + r - n_own; }
};

// Write the rows on which each vertex of a cell lies, as bits, and kNotOnRows where that is not known.
//
// The value of a row at a point with coordinates of at most X is off by 2 kappa (|a|_1 X + |c|), where
// it rounds, by d r (X + beta) + s for its radii, and by |a|_1 beta for that of the point.
constexpr Word kNotOnRows = ~Word{0};
template <int D>
void find_incidences(const FacetTable& t, std::int64_t cell, Word* masks) {
    const Rows rows(t, cell);
    const double beta = t.blurs[2 * cell];
    double coefficient[D + 1][kWindow] = {}, error[kWindow] = {}, growth[kWindow] = {};
    Word linear = 0;
    for (int r = 0; r < rows.n && rows.n < kWindow; r++) {
        const double* form = t.forms + rows[r] * (D + 3);
        double slopes = 0.0;
        for (int k = 0; k <= D; k++) coefficient[k][r] = form[k];
        for (int k = 0; k < D; k++) slopes += magnitude(form[k]);
        const double radius = D * form[D + 1];
        error[r] =
            (2.0 * kKappa * magnitude(form[D]) + form[D + 2] + (slopes + radius) * beta) * kUp +
            kTiny;
        growth[r] = (2.0 * kKappa * slopes + radius) * kUp;
        if (form[D] == 0.0 && form[D + 2] == 0.0) linear |= Word{1} << r;
    }
    for (std::int64_t i = t.point_starts[cell]; i < t.point_starts[cell + 1]; i++) {
        masks[i] = kNotOnRows;
        if (rows.n >= kWindow || t.is_far(i)) continue;
        const double* x = t.points + i * D;
        double size = 0.0;
        for (int k = 0; k < D; k++) size = larger(size, magnitude(x[k]));
        LaneMask has_sign;
        for (int r = 0; r < rows.n; r += kLanes) {
            Lanes value = load(coefficient[0] + r) * all(x[0]);
            for (int k = 1; k < D; k++) value += load(coefficient[k] + r) * all(x[k]);
            value += load(coefficient[D] + r);
            has_sign.add(absolute(value) > load(error + r) + load(growth + r) * all(size), r);
        }
        const Word mask = ~has_sign.bits() & low_bits(rows.n);
        if (bit_count(mask) == D || (mask & ~linear) == 0) masks[i] = mask;
    }
}

// Write a facet as a flat polytope to the empty stack; False if that is not possible. `masks` are
// those of all vertices, 0 where nobody has asked yet.
template <int D>
bool lay_flat(Polytopes<D>& s, const FacetTable& t, std::int64_t facet, Word* masks,
              typename Polytopes<D>::Place& place) {
    const std::int64_t cell = t.owners[facet], end = t.point_starts[cell + 1];
    const Rows rows(t, cell);
    if (masks[t.point_starts[cell]] == 0) find_incidences<D>(t, cell, masks);
    int n = 0;
    for (std::int64_t i = t.point_starts[cell]; i < end; i++) {
        if ((masks[i] >> t.place(facet) & 1) == 0) continue;
        if (masks[i] == kNotOnRows || n == s.room) return false;
        for (int k = 0; k < D; k++) s.points[n].x[k] = t.points[i * D + k];
        s.points[n].rho = t.blurs[2 * cell];
        for (int w = 0; w < s.n_words; w++) s.mask(n)[w] = w == 0 ? masks[i] : 0;
        n++;
    }
    if (n < D || rows.n > s.room) return false;
    for (int r = 0; r < rows.n; r++) {
        const double* numbers = t.forms + rows[r] * (D + 3);
        Form<D> form;
        for (int k = 0; k < D; k++) form.a[k] = numbers[k];
        form.c = numbers[D], form.slope_radius = numbers[D + 1],
        form.offset_radius = numbers[D + 2];
        // Names of walls belong to one side.
        s.pool[r] = facet_of(form, {-1, 0, 0, 0}, false);
        s.facets[r] = r;
    }
    place = {0, n, 0, rows.n, rows.n, 0, false, {}};
    place.reach = reach_of(s.at(place));
    return true;
}

// Compose the layers up to the wall of a facet for the winners beyond it; those up to layer `known` are
// composed for the winners on the path.
template <int D>
void follow(Path<D>& path, const FacetTable& t, std::int64_t facet, int& known) {
    const Network& network = *path.network;
    const std::int64_t cell = t.owners[facet];
    const int changed = t.group(facet), last = t.layer(changed);
    const auto winner = [&](int g) { return g == changed ? t.rival(facet) : t.winner(cell, g); };
    bool agrees = true;
    for (int l = 0; l <= last; l++) {
        const Layer& layer = network.layers[l];
        const int end = layer.first_group + layer.n_groups;
        if (l > known || !agrees) compose_scores(path, l);
        agrees = agrees && l <= known;
        for (int g = layer.first_group; g < end; g++) {
            agrees = agrees && path.signature[g] == winner(g);
            path.signature[g] = winner(g);
        }
        if (!agrees) compose_stream(path, l);
    }
    // The search composes what follows.
    known = last;
}

// Compare the winners of a cell with others, in the order of the groups.
inline int compared(const FacetTable& t, std::int64_t cell, const int* winners, int n_groups) {
    for (int g = 0; g < n_groups; g++)
        if (t.winner(cell, g) != winners[g]) return t.winner(cell, g) < winners[g] ? -1 : 1;
    return 0;
}

// The first cell whose winners of the first groups are not below others.
inline std::int64_t first_with(const FacetTable& t, const int* winners, int n_groups) {
    std::int64_t low = 0, high = t.n_cells;
    while (low < high) {
        const std::int64_t middle = low + (high - low) / 2;
        if (compared(t, middle, winners, n_groups) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

}  // namespace detail

// Facets on which cells beyond are looked for, and what is found.
struct Overlay {
    std::int64_t n;
    const std::int64_t* chosen;  // (n): facets
    std::int8_t* is_open;        // (n): whether nothing is known of a facet
    std::int64_t room, n_pairs;
    std::int64_t* pairs;  // (room, 2): the facet, and the one beyond
    std::int32_t* found;  // scratch: winners of kMostFound cells
    Word* masks;          // scratch: a zero for each vertex
};
constexpr int kMostFound = 64;

// Find all pairs of facets that overlap, from one of the chosen ones on; return where to go on, if there
// is no room for more, or so many cells have been found.
template <int D>
std::int64_t overlay(Search<Polytopes<D>>& s, const FacetTable& t, Overlay& o, std::int64_t begin,
                     std::int64_t budget) {
    const Network& network = *s.path.network;
    const std::int32_t nobody = 0;
    int known = -1;
    s.stores = true;
    o.n_pairs = 0;
    std::int64_t at = begin;
    for (; at < o.n && budget > 0; at++) {
        const std::int64_t facet = o.chosen[at], cell = t.owners[facet];
        const int group = t.group(facet), l = t.layer(group);
        const std::int64_t first_pair = o.n_pairs;
        o.is_open[at] = true;
        auto& item = s.items[0];
        if (D == 1 || t.kinds[l] != kJumps || t.n_ties(cell) > 0 ||
            !detail::lay_flat(s.cells, t, facet, o.masks, item.place))
            continue;
        detail::follow(s.path, t, facet, known);
        item = {item.place, l + 1, kNotEntered};
        s.n_items = 1;
        int status = kCellsFull;
        bool is_known = true, has_room = true;
        while (status == kCellsFull && is_known && has_room) {
            Cells cells{};
            cells.room_cells = kMostFound;
            cells.room_vertices = cells.room_facets = cells.room_ties = INT64_MAX;
            cells.signatures = o.found;
            status = run(s, cells, -1, INT64_MAX, &nobody);
            for (std::int64_t c = 0; c < cells.n_cells && is_known && has_room; c++) {
                const std::int32_t* winners = o.found + c * network.n_groups;
                const std::int64_t beyond = detail::first_with(t, winners, network.n_groups);
                // A cell that was not searched for.
                if (beyond == t.n_cells ||
                    detail::compared(t, beyond, winners, network.n_groups) != 0)
                    continue;
                std::int64_t other = t.starts[beyond];
                while (other < t.starts[beyond + 1] &&
                       !(t.group(other) == group && t.rival(other) == t.winner(cell, group)))
                    other++;
                is_known = other < t.starts[beyond + 1];
                has_room = o.n_pairs < o.room;
                if (!is_known || !has_room) break;
                o.pairs[2 * o.n_pairs] = facet, o.pairs[2 * o.n_pairs + 1] = other;
                o.n_pairs++;
            }
            budget -= cells.n_cells;
        }
        s.n_items = 0;
        s.cells.lacks_words = false;
        o.is_open[at] = !(is_known && status == kDone);
        if (o.is_open[at] || !has_room) o.n_pairs = first_pair;
        if (!has_room) break;
    }
    s.stores = false;
    return at;
}

}  // namespace hardmax
