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

// Write a facet as a flat polytope to the empty stack, but for the rows of the pool; False if that is not
// possible. `masks` are those of all vertices, 0 where nobody has asked yet.
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
    place = {0, n, 0, rows.n, rows.n, 0, false, {}};
    place.reach = reach_of(s.at(place));
    return true;
}

// Write the rows of the pool that the facet on the stack needs where it is cut: those that its vertices
// lie on.
template <int D>
void write_rows(Polytopes<D>& s, const FacetTable& t, std::int64_t facet, int n_vertices) {
    const Rows rows(t, t.owners[facet]);
    Word touched = 0;
    for (int i = 0; i < n_vertices; i++) touched |= s.mask(i)[0];
    for (int r = 0; r < rows.n; r++) {
        s.facets[r] = r;
        s.pool[r].wall = {-1, 0, 0, 0};
        if ((touched >> r & 1) == 0) continue;
        const double* numbers = t.forms + rows[r] * (D + 3);
        Form<D> form;
        for (int k = 0; k < D; k++) form.a[k] = numbers[k];
        form.c = numbers[D], form.slope_radius = numbers[D + 1],
        form.offset_radius = numbers[D + 2];
        // Names of walls belong to one side.
        s.pool[r] = facet_of(form, {-1, 0, 0, 0}, false);
    }
}

// Compose the layers up to the wall of a facet for the winners beyond it, those up to layer `known`
// being composed for the winners on the path; say whether anything changed.
template <int D>
bool follow(Path<D>& path, const FacetTable& t, std::int64_t facet, int& known) {
    const Network& network = *path.network;
    const std::int64_t cell = t.owners[facet];
    const int changed = t.group(facet), last = t.layer(changed);
    const auto winner = [&](int g) { return g == changed ? t.rival(facet) : t.winner(cell, g); };
    bool agrees = true, is_new = known != last;
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
    return is_new || !agrees;
}

// Compare winners of the groups from `first` to `end`, in their order.
inline int compared(const std::uint8_t* one, const std::uint8_t* other, int first, int end) {
    return __builtin_memcmp(one + first, other + first, static_cast<std::size_t>(end - first));
}
inline int compared(const std::int32_t* one, const std::int32_t* other, int first, int end) {
    int g = first;
    while (g < end && one[g] == other[g]) g++;
    return g == end ? 0 : one[g] < other[g] ? -1 : 1;
}

// The first cell of a range whose winners of some groups are not below others, or above them, where
// those of the groups before are the same.
template <class Winner>
std::int64_t first_with(const Winner* signatures, int n_groups, std::int64_t low, std::int64_t high,
                        const Winner* winners, int first, int end, bool is_above) {
    while (low < high) {
        const std::int64_t middle = low + (high - low) / 2;
        if (compared(signatures + middle * n_groups, winners, first, end) < is_above)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// The cells with the winners of the first `end` groups on the path.
struct Beyond {
    int end;
    std::int64_t low, high;
};

template <class Winner>
Beyond cells_beyond(const Winner* signatures, std::int64_t n_cells, int n_groups, const int* path,
                    int end, Winner* winners) {
    for (int g = 0; g < end; g++) winners[g] = static_cast<Winner>(path[g]);
    const std::int64_t low = first_with(signatures, n_groups, 0, n_cells, winners, 0, end, false);
    return {end, low, first_with(signatures, n_groups, low, n_cells, winners, 0, end, true)};
}

// The cell with some winners, or -1.
template <class Winner>
std::int64_t cell_with(const Winner* signatures, int n_groups, const Beyond& beyond,
                       const Winner* winners) {
    const std::int64_t cell = first_with(signatures, n_groups, beyond.low, beyond.high, winners,
                                         beyond.end, n_groups, false);
    const bool is_there = cell < beyond.high && compared(signatures + cell * n_groups, winners,
                                                         beyond.end, n_groups) == 0;
    return is_there ? cell : -1;
}

// Likewise by the units of the last layer: see `write_words`.
inline std::int64_t cell_with(const Word* words, const Beyond& beyond, Word word) {
    std::int64_t low = beyond.low, n = beyond.high - beyond.low;
    while (n > 1) {
        const std::int64_t half = n / 2;
        low = words[low + half] <= word ? low + half : low;
        n -= half;
    }
    return n == 1 && words[low] == word ? low : -1;
}

// A word with its bits in the opposite order.
inline Word reversed(Word word) {
    constexpr Word ones = 0x5555555555555555u, pairs = 0x3333333333333333u,
                   fours = 0x0f0f0f0f0f0f0f0fu;
    word = (word >> 1 & ones) | (word & ones) << 1;
    word = (word >> 2 & pairs) | (word & pairs) << 2;
    word = (word >> 4 & fours) | (word & fours) << 4;
    return __builtin_bswap64(word);
}

// Whether the last layer has units only, as many as a word has bits at most.
inline bool ends_in_a_word(const Network& network) {
    const Layer* last = network.layers + network.n_layers - 1;
    return network.n_layers > 0 && last->is_relu && last->n_groups <= kWindow;
}

// Write which units of the last layer are on in each cell, the first one in the highest bit, so that words
// are in the order of signatures.
template <class Winner>
void write_words(const Winner* signatures, std::int64_t n_cells, int n_groups, int first,
                 Word* words) {
    for (std::int64_t cell = 0; cell < n_cells; cell++) {
        const Winner* winners = signatures + cell * n_groups + first;
        Word word = 0;
        for (int g = 0; g < n_groups - first; g++)
            word |= static_cast<Word>(winners[g]) << (kWindow - 1 - g);
        words[cell] = word;
    }
}

// Enter the layer beyond the wall of the facet on the stack; `is_new` if its scores are not composed. The
// units of a last layer that fit in one window are all pending, so that it is loaded once for a wall.
template <int D>
void enter_beyond(Search<Polytopes<D>>& s, bool is_new) {
    auto& item = s.top();
    const Layer& layer = s.path.network->layers[item.layer];
    if (item.layer + 1 < s.path.network->n_layers || !layer.is_relu || layer.n_groups > kWindow) {
        if (is_new)
            enter(s);
        else
            analyse(s);
        return;
    }
    Frame<D>& frame = s.path.frames[item.layer];
    item.position = 0;
    if (!is_new) return;
    compose_scores(s.path, item.layer);
    frame.n_pending = layer.n_groups;
    for (int g = 0; g < layer.n_groups; g++) frame.pending[g] = g;
    frame.on[0] = 0;
    frame.window.index = -1;
}

// Which forms of a window are certainly positive on a bounded polytope, and which certainly negative.
//
// Bounds are those of `Polytopes::error_on`, one for each form at all vertices.
template <int D>
Marks marks_on(const Window<D>& window, const Polytope<D>& cell, const Reach& reach) {
    const Lanes size = all(reach.size), rho = all(reach.rho), dim = all(D);
    LaneMask positive, negative;
    for (int i = 0; i < window.n; i += kLanes) {
        Lanes a[D];
        for (int k = 0; k < D; k++) a[k] = load(window.coefficient[k] + i);
        const Lanes c = load(window.coefficient[D] + i), radius = load(window.slope_radius + i);
        Lanes slopes = absolute(a[0]);
        for (int k = 1; k < D; k++) slopes += absolute(a[k]);
        Lanes low = all(kBeyond), high = all(-kBeyond);
        for (int v = 0; v < cell.n; v++) {
            Lanes value = a[0] * all(cell.x(v, 0));
            for (int k = 1; k < D; k++) value += a[k] * all(cell.x(v, k));
            value += c;
            low = value < low ? value : low;
            high = value > high ? value : high;
        }
        // Infinite, or not a number, where a product overflows.
        const Lanes error = (all(kKappa) * (slopes * size + absolute(c)) + radius * dim * size +
                             load(window.offset_radius + i) + (slopes + dim * radius) * rho) *
                                all(kUp) +
                            all(kTiny);
        positive.add(low > error, i);
        negative.add(high < -error, i);
    }
    return {positive.bits(), negative.bits()};
}

// Write the words of the cells of the last layer that meet the facet on the stack, without cutting it;
// return how many, 0 if that is not possible.
template <int D>
int list_uncut(Search<Polytopes<D>>& s, Word* words) {
    auto& item = s.top();
    Frame<D>& frame = s.path.frames[item.layer];
    const Network& network = *s.path.network;
    if (item.layer + 1 < network.n_layers || !ends_in_a_word(network)) return 0;
    words[0] = 0;
    if (frame.n_pending == 0) return 1;
    // All units are pending, in their order: see `enter_beyond`.
    if (frame.window.index != 0) load_window(frame, 0, s.path.scale);
    const Marks marks = marks_on(frame.window, s.cells.at(item.place), item.place.reach);
    const Word open = ~(marks.positive | marks.negative) & low_bits(frame.window.n),
               same = reversed(marks.positive);
    words[0] = same;
    if (open == 0) return 1;
    if (bit_count(open) > kMostListed) return 0;
    const int n = s.cells.list_parts(item.place, frame.window, open, s.path.scale, words);
    item.is_cut = n < 0;
    for (int i = 0; i < n; i++) {
        Word signs = words[i], word = same;
        for (Word rest = open; rest != 0; rest &= rest - 1, signs >>= 1)
            word |= (signs & 1) << (kWindow - 1 - lowest_bit(rest));
        words[i] = word;
    }
    return most(n, 0);
}

}  // namespace detail

// Facets on which cells beyond are looked for, and what is found.
struct Overlay {
    std::int64_t n;
    const std::int64_t* chosen;  // (n): facets
    std::int8_t* is_open;        // (n): whether nothing is known of a facet
    std::int64_t room, n_pairs;
    std::int64_t* pairs;  // (room, 2): the facet, and the one beyond
    std::int32_t* found;  // scratch: winners of kMostFound cells, as bytes where that is enough
    Word* masks;          // scratch: a zero for each vertex
    Word* words;          // scratch: for each cell the units of a last layer
};
constexpr int kMostFound = kMostParts;

// Find all pairs of facets that overlap, from one of the chosen ones on; return where to go on, if there
// is no room for more, or so many cells have been found.
template <int D>
std::int64_t overlay(Search<Polytopes<D>>& s, const FacetTable& t, Overlay& o, std::int64_t begin,
                     std::int64_t budget) {
    const Network& network = *s.path.network;
    const std::int32_t nobody = 0;
    int known = -1;
    detail::Beyond range{};
    const int n_groups = network.n_groups;
    std::uint8_t* short_found =
        t.short_signatures ? reinterpret_cast<std::uint8_t*>(o.found) : nullptr;
    // Call a function with the winners of all cells, and scratch for those of some.
    const auto with_winners = [&](auto call) {
        return short_found ? call(t.short_signatures, short_found) : call(t.signatures, o.found);
    };
    if (begin == 0 && detail::ends_in_a_word(network))
        with_winners([&](auto* all, auto*) {
            const int first = network.layers[network.n_layers - 1].first_group;
            detail::write_words(all, t.n_cells, n_groups, first, o.words);
        });
    s.stores = true;
    o.n_pairs = 0;
    std::int64_t at = begin;
    for (; at < o.n && budget > 0; at++) {
        const std::int64_t facet = o.chosen[at], cell = t.owners[facet];
        const int group = t.group(facet), l = t.layer(group), winner = t.winner(cell, group);
        const std::int64_t first_pair = o.n_pairs;
        o.is_open[at] = true;
        auto& item = s.items[0];
        if (D == 1 || t.kinds[l] != kJumps || t.n_ties(cell) > 0 ||
            !detail::lay_flat(s.cells, t, facet, o.masks, item.place))
            continue;
        item = {item.place, l + 1, kNotEntered};
        s.n_items = 1;
        const bool is_new = detail::follow(s.path, t, facet, known);
        if (is_new)
            range = with_winners([&](auto* all, auto* found) {
                const int end = network.layers[l].first_group + network.layers[l].n_groups;
                return detail::cells_beyond(all, t.n_cells, n_groups, s.path.signature, end, found);
            });
        detail::enter_beyond(s, is_new);
        int status = kDone;
        bool is_known = true, has_room = true;
        // Note a cell beyond the facet; -1 is one that was not searched for.
        const auto note = [&](std::int64_t beyond) {
            if (beyond < 0) return true;
            std::int64_t other = t.starts[beyond];
            while (other < t.starts[beyond + 1] &&
                   !(t.group(other) == group && t.rival(other) == winner))
                other++;
            is_known = other < t.starts[beyond + 1];
            has_room = o.n_pairs < o.room;
            if (!is_known || !has_room) return false;
            o.pairs[2 * o.n_pairs] = facet, o.pairs[2 * o.n_pairs + 1] = other;
            o.n_pairs++;
            return true;
        };
        Word words[kMostParts];
        const int n_listed = detail::list_uncut(s, words);
        budget -= n_listed;
        for (int i = 0; i < n_listed; i++)
            if (!note(detail::cell_with(o.words, range, words[i]))) break;
        if (n_listed == 0) {
            detail::write_rows(s.cells, t, facet, item.place.n);
            status = kCellsFull;
        }
        while (status == kCellsFull && is_known && has_room) {
            Cells cells{};
            cells.room_cells = kMostFound;
            cells.room_vertices = cells.room_facets = cells.room_ties = INT64_MAX;
            cells.short_signatures = short_found, cells.signatures = o.found;
            status = run(s, cells, -1, INT64_MAX, &nobody);
            with_winners([&](auto* all, auto* found) {
                for (std::int64_t c = 0; c < cells.n_cells; c++)
                    if (!note(detail::cell_with(all, n_groups, range, found + c * n_groups))) break;
            });
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
