// The cells that meet across walls where a network jumps: the far side is searched on facets of the
// near side.
//
// A facet of a cell is a polytope of dimension D - 1. If no other group ties there, the winners beyond
// it and in the cell are the same up to the layer of its wall, except for the winner that the wall
// changes. From the next layer on, the search splits the facet as it splits cells. Each vertex of
// this flat polytope lies on at least D facets, including the hyperplane that contains the
// polytope, so that edges are found and cut as for a polytope of dimension D. The results are the
// parts of the facet with constant winners beyond it. On each part, the cell and the cell with
// these winners share part of the wall, and they share no other part.
//
// A facet is left open if a sign is undecided, if a later group ties on the whole of a part, or if
// it is not certain on which facets the vertices lie (see `outlines.hpp`).
//
// The facets of a wall are consecutive, and with them the same regions beyond it: a layer is
// recomposed only if the winners before it change. If all cells are stored and no groups tie, the
// cells beyond a wall are the cells of its other facets (`settle_walls`), so a region with only one
// of these cells is not searched any further. If this is less work, the facets of a wall are compared
// instead.
#pragma once
#include "outlines.hpp"
#include "polytopes.hpp"
#include "search.hpp"

namespace hardmax {

namespace detail {

// Write a facet as a flat polytope to the empty stack, without the rows of the pool. Return false
// if this is not possible. `masks` belong to all vertices; a mask is 0 if it was not computed yet.
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

// Write the rows of the pool on which the vertices of the stack's facet lie; cuts require them.
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

// Compose the layers up to the layer of a facet's wall, and write the winners beyond the wall to
// the path. The layers up to `known` are already composed for the winners on the path. Return
// whether anything changed.
template <int D>
bool follow(Path<D>& path, const FacetTable& t, std::int64_t facet, Meeting& m, int& known) {
    const Network& network = *path.network;
    const std::int64_t cell = t.owners[facet];
    const int changed = t.group(facet), last = t.layer(changed);
    const auto winner = [&](int g) { return g == changed ? t.rival(facet) : t.winner(cell, g); };
    bool agrees = true, is_new = known != last;
    for (int l = 0; l <= last; l++) {
        const Layer& layer = network.layers[l];
        const int end = layer.first_group + layer.n_groups;
        if (l > known || !agrees) {
            if (l > 0) compose_stream(path, l - 1);
            compose_scores(path, l);
            m.versions[l] = -1;
        }
        agrees = agrees && l <= known;
        for (int g = layer.first_group; g < end; g++) {
            agrees = agrees && path.signature[g] == winner(g);
            path.signature[g] = winner(g);
        }
    }
    known = last;
    return is_new || !agrees;
}

// Whether a layer is composed for the earlier winners that are on the path.
template <int D>
bool is_composed(const Path<D>& path, const Meeting& m, int l) {
    const Layer& before = path.network->layers[l - 1];
    bool is_same = m.versions[l] == path.frames[l - 1].version;
    for (int g = before.first_group; is_same && g < before.first_group + before.n_groups; g++)
        is_same = m.winners[g] == path.signature[g];
    return is_same;
}

// Whether a cell with the given winners is stored.
template <class Winner>
bool is_stored(const FacetTable& t, const Winner* winners) {
    return with_signatures(t, [&](const auto* signatures) {
        std::int64_t low = 0, high = t.n_cells;
        while (low < high) {
            const std::int64_t middle = low + (high - low) / 2;
            const auto* own = signatures + middle * t.n_groups;
            int g = 0;
            while (g < t.n_groups && own[g] == winners[g]) g++;
            if (g == t.n_groups) return true;
            (static_cast<int>(own[g]) < static_cast<int>(winners[g]) ? low : high) =
                middle + (static_cast<int>(own[g]) < static_cast<int>(winners[g]));
        }
        return false;
    });
}

// The place of a word in a range, or -1.
inline std::int64_t place_of(const Word* words, const Range& range, Word word) {
    std::int64_t low = range.low, n = range.high - range.low;
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

// Whether the last layer contains only units, at most one per bit of a word.
inline bool ends_in_a_word(const Network& network) {
    const Layer* last = network.layers + network.n_layers - 1;
    return network.n_layers > 0 && last->is_relu && last->n_groups <= kWindow;
}

// Write the words of the last layer's units in the cells of facets.
inline void write_words(const FacetTable& t, const Meeting& m, const Range& range, int first) {
    with_signatures(t, [&](const auto* signatures) {
        for (std::int64_t at = range.low; at < range.high; at++)
            m.words[at] = word_of(signatures + t.owners[m.order[at]] * t.n_groups + first,
                                  t.n_groups - first);
    });
}

// Enter the layer of the top part, which may or may not already be composed for the winners on the
// path. If the units of the last layer fit into one window, all of them are pending, so that the
// window is loaded once per region.
template <int D>
void enter_beyond(Search<Polytopes<D>>& s, Meeting& m, bool is_same) {
    auto& item = s.top();
    const int l = item.layer;
    const Network& network = *s.path.network;
    const Layer &layer = network.layers[l], &before = network.layers[l - 1];
    Frame<D>& frame = s.path.frames[l];
    const bool is_listed = l + 1 == network.n_layers && ends_in_a_word(network);
    if (!is_same) {
        compose_stream(s.path, l - 1);
        compose_scores(s.path, l);
        m.versions[l] = s.path.frames[l - 1].version;
        for (int g = before.first_group; g < before.first_group + before.n_groups; g++)
            m.winners[g] = s.path.signature[g];
        frame.window.index = -1;
        frame.n_pending = layer.n_groups;
        for (int g = 0; is_listed && g < layer.n_groups; g++) frame.pending[g] = g;
        if (is_listed) frame.on[0] = 0;
    }
    item.position = 0, item.window = -1;
    if (is_listed) return;
    analyse(s);
    // The typical winners have changed.
    s.path.frames[l + 1].anchor_version = -1;
}

// The forms of a window that are certainly positive, and those that are certainly negative, on a
// bounded polytope.
//
// The bounds are as in `Polytopes::error_on`, one per form for all vertices.
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
        // Infinite or NaN if a product overflows.
        const Lanes error = (all(kKappa) * (slopes * size + absolute(c)) + radius * dim * size +
                             load(window.offset_radius + i) + (slopes + dim * radius) * rho) *
                                all(kUp) +
                            all(kTiny);
        positive.add(low > error, i);
        negative.add(high < -error, i);
    }
    return {positive.bits(), negative.bits()};
}

// Write the words of the last layer's cells that meet the top part, without cutting it. Return
// their number, or 0 if this is not possible.
template <int D>
int list_uncut(Search<Polytopes<D>>& s, Word* words) {
    auto& item = s.top();
    Frame<D>& frame = s.path.frames[item.layer];
    const Network& network = *s.path.network;
    if (item.layer + 1 < network.n_layers || !ends_in_a_word(network)) return 0;
    words[0] = 0;
    if (frame.n_pending == 0) return 1;
    // All units are pending, in order: see `enter_beyond`.
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

// Find all pairs of overlapping facets, starting with the next facet to be searched, whose cells
// have been composed. Stop if there is no capacity for more pairs, or the requested number has been
// found.
template <int D>
void overlay(Search<Polytopes<D>>& s, const FacetTable& t, Meeting& m, std::int64_t budget) {
    const Network& network = *s.path.network;
    const int n_layers = network.n_layers, last_group = network.layers[n_layers - 1].first_group;
    const bool names_all = t.names_all(), has_words = detail::ends_in_a_word(network);
    detail::Range* ranges = reinterpret_cast<detail::Range*>(m.ranges);
    std::uint8_t* short_found =
        t.short_signatures ? reinterpret_cast<std::uint8_t*>(m.found) : nullptr;
    const auto narrow = [&](const detail::Range& range, const auto* winners, int first, int end) {
        return detail::with_signatures(t, [&](const auto* signatures) {
            return detail::narrowed(t, signatures, m.order, range, winners, first, end);
        });
    };
    if (m.next == 0) {
        const std::int64_t n_points = t.point_starts[t.n_cells];
        std::memset(m.masks, 0, static_cast<std::size_t>(n_points) * sizeof *m.masks);
    }
    for (int l = 0; l < n_layers; l++) m.versions[l] = -1;
    int known = -1;
    std::int64_t wall = 0;
    detail::Range near{}, far{};
    bool is_other_range = true, compares = false, has_room = true;
    int n_beyond = 0;
    const auto outline_at = [&](std::int64_t place) -> Outline& {
        return m.outlines[place - m.sides[wall].begin];
    };
    const auto add = [&](std::int64_t one, std::int64_t other) {
        budget--;
        has_room = has_room && m.n_pairs < m.room;
        if (!has_room) return;
        m.pairs[2 * m.n_pairs] = one, m.pairs[2 * m.n_pairs + 1] = other;
        m.n_pairs++;
    };
    s.stores = true;
    for (; m.next < m.n_searched && budget > 0; m.next++) {
        const std::int64_t place = m.searched[m.next], facet = m.order[place],
                           cell = t.owners[facet], first_pair = m.n_pairs;
        while (place >= m.sides[wall + 1].begin) wall++;
        const int group = t.group(facet), l = t.layer(group) + 1,
                  first_group = network.layers[l].first_group;
        if (place >= near.high) {
            // The next facets whose cells have the same winners of the layer, and the facets
            // beyond.
            detail::with_signatures(t, [&](const auto* signatures) {
                const auto* winners = signatures + cell * t.n_groups;
                const WallSides& sides = m.sides[wall];
                near = narrow({place, sides.middle}, winners, group + 1, first_group);
                far = narrow({sides.middle, m.sides[wall + 1].begin}, winners, group + 1,
                             first_group);
            });
            is_other_range = true;
            compares = are_compared(t, m, wall);
            double* free = m.outline_room;
            const auto write_outlines = [&](const detail::Range& range) {
                for (std::int64_t i = range.low; i < range.high; i++)
                    detail::write_outline<D>(t, m.order[i], m.masks, free,
                                          m.outline_room + kRoomForOutlines, outline_at(i));
            };
            n_beyond = static_cast<int>(far.high - far.low);
            if (compares) {
                write_outlines(near), write_outlines(far);
                detail::write_boxes<D>(&outline_at(far.low), n_beyond, m.boxes);
            }
        }
        if (compares) {
            const bool is_settled = detail::for_overlapping<D>(
                outline_at(place), &outline_at(far.low), n_beyond, m.boxes,
                [&](int i) { add(facet, m.order[far.low + i]); });
            m.left[place] = !is_settled;
            if (has_room && is_settled) continue;
            m.n_pairs = first_pair;
            if (!has_room) break;
        }
        auto& whole = s.items[0];
        if (D == 1 || t.n_ties(cell) > 0 ||
            !detail::lay_flat(s.cells, t, facet, m.masks, whole.place))
            continue;
        if (detail::follow(s.path, t, facet, m, known) || is_other_range) {
            ranges[l] = far;
            if (has_words) detail::write_words(t, m, far, last_group);
            for (int after = l + 1; after < n_layers; after++) m.versions[after] = -1;
            is_other_range = false;
        }
        bool is_known = true;
        // Record the facet at a position, or its absence: the cell may not have been part of the
        // search.
        const auto note = [&](std::int64_t beyond, const auto* winners) {
            if (beyond < 0) {
                is_known = is_known && !names_all && !detail::is_stored(t, winners);
                return;
            }
            add(facet, m.order[beyond]);
        };
        // Enter the layer of the top part, and list its cells if it is the last layer.
        const auto go_on = [&](bool is_same) {
            detail::enter_beyond(s, m, is_same);
            const int at = s.top().layer;
            if (at + 1 < n_layers || !has_words) return;
            Word words[kMostParts];
            const int n = detail::list_uncut(s, words);
            for (int i = 0; i < n; i++) {
                int* units = s.path.signature + last_group;
                const std::int64_t beyond = detail::place_of(m.words, ranges[at], words[i]);
                for (int g = 0; beyond < 0 && g < network.n_groups - last_group; g++)
                    units[g] = static_cast<int>(words[i] >> (kWindow - 1 - g) & 1);
                note(beyond, s.path.signature);
            }
            if (n > 0) s.n_items--;
        };
        whole = {whole.place, l, kNotEntered};
        s.n_items = 1;
        go_on(detail::is_composed(s.path, m, l));
        Cells cells{};
        cells.room_cells = kMostFound;
        cells.room_vertices = cells.room_facets = cells.room_ties = INT64_MAX;
        cells.short_signatures = short_found, cells.signatures = m.found;
        int status = kOngoing;
        bool has_rows = false;
        while (s.n_items > 0 && status == kOngoing && is_known && has_room) {
            auto& item = s.top();
            const int at = item.layer;
            if (at + 1 < n_layers && item.position == s.path.frames[at].n_pending) {
                const Layer& layer = network.layers[at];
                detail::write_winners(s);
                const bool is_same = detail::is_composed(s.path, m, at + 1);
                const detail::Range range =
                    is_same ? ranges[at + 1]
                            : narrow(ranges[at], s.path.signature, layer.first_group,
                                     layer.first_group + layer.n_groups);
                if (names_all && range.high - range.low == 1) {
                    note(range.low, s.path.signature);
                    s.n_items--;
                    continue;
                }
                ranges[at + 1] = range;
                item.layer = at + 1, item.position = kNotEntered;
                go_on(is_same);
                continue;
            }
            // Only cuts use the rows of the facet.
            if (!has_rows) detail::write_rows(s.cells, t, facet, whole.place.n);
            has_rows = true;
            status = detail::step(s, cells);
            const auto note_found = [&](const auto* found) {
                for (std::int64_t c = 0; c < cells.n_cells; c++, found += t.n_groups) {
                    if (has_words) {
                        const Word word =
                            detail::word_of(found + last_group, t.n_groups - last_group);
                        note(detail::place_of(m.words, ranges[n_layers - 1], word), found);
                        continue;
                    }
                    const detail::Range one = narrow(ranges[l], found, first_group, t.n_groups);
                    note(one.low < one.high ? one.low : -1, found);
                }
            };
            short_found ? note_found(short_found) : note_found(m.found);
            cells.n_cells = 0;
        }
        m.left[place] = !(is_known && s.n_items == 0);
        s.n_items = 0;
        s.cells.lacks_words = false;
        if (m.left[place] || !has_room) m.n_pairs = first_pair;
        if (!has_room) break;
    }
    s.stores = false;
}

}  // namespace hardmax
