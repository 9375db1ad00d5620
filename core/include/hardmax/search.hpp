// The search: polygons split layer by layer, depth first.
//
// The polygon on top of the stack belongs to a layer and to the frame of that layer, which holds the
// forms composed once for the whole region. It is split by one pending group after the other; when
// none is left the stream after the layer is composed, and it becomes a region of the next layer, or
// a cell. All polygons of one layer that are on the stack lie in the same region, because deeper
// ones are on top of them; hence one frame for each layer is enough.
//
// Parts with smaller winners come first, and groups in their order: cells are found in the
// lexicographic order of their signatures.
//
// An undecided sign leaves the stack as it is: the polygon on top is looked at in twice the
// precision, and if that does not help, it comes back as kUnclear, to be split by its next group in
// exact arithmetic by the caller. Likewise a cell with a vertex that is not known to a few digits
// comes back as kBlurred, to have its vertices computed from its lines.
#pragma once
#include "cells.hpp"
#include "doubled.hpp"
#include "walks.hpp"

namespace hardmax {

enum Status : int {
    kDone = 0,
    kBudget,
    kStackFull,
    kCellsFull,
    kCellLimit,
    kUnclear,
    kBlurred,
    kOngoing = -1,
};

// Where the layer of a polygon has not been looked at: the polygon is a region, or part of one that
// was looked at elsewhere, whose typical winners are known.
constexpr int kNotEntered = -1, kPartEntered = -2;

// A polygon still to be split: its edges, its layer, how many pending groups are done, or one of the
// above, and for which window of units its vertices have signs.
struct Item {
    int start, n, layer, position;
    int window = -1;
};

struct Search {
    Path<2> path;
    DoubledPath<2> doubled;
    Path<2> pure;  // forms composed afresh, where those of `path` are not: see `cells.hpp`
    Contest contest;
    Crowd crowd;
    SignCounts counts;
    Edge* edges;         // of all polygons, one after the other; free ones above them are scratch
    std::int8_t* signs;  // scratch
    Item* items;
    int* winners;  // (room_items, most_groups): the winners of the pending groups done
    int room_edges, room_items, n_items;
    bool has_far;   // the domain is unbounded
    bool stores;    // cells are stored, not only counted
    bool is_sharp;  // the vertices of the polygon on top have been set by the caller
    std::int64_t n_cells;

    Item& top() { return items[n_items - 1]; }
    int* winners_of(int item) { return winners + std::size_t(item) * path.network->most_groups; }
};

namespace detail {

// Compose the scores of the layer of the polygon on top, and see which groups are open.
inline void enter(Search& s) {
    Item& item = s.top();
    const Layer& layer = s.path.network->layers[item.layer];
    Frame<2>& frame = s.path.frames[item.layer];
    compose_scores(s.path, item.layer);
    if (s.has_far || frame.is_homogeneous) note_ray(s.path, item.layer);
    const Edge* polygon = s.edges + item.start;
    if (layer.is_relu)
        analyse_units(layer, frame, s.path.scale, polygon, item.n, s.counts);
    else
        analyse_groups(layer, frame, s.path.scale, polygon, item.n, s.contest, s.counts);
    const bool is_typical_known = item.position == kPartEntered;
    if (!is_typical_known && item.layer + 1 < s.path.network->n_layers &&
        s.path.frames[item.layer + 1].is_anchored)
        note_typical(layer, frame, s.path.scale, polygon, item.n);
    item.position = 0;
    item.window = -1;
}

// The winner of a unit whose wall has already split the polygon; -1 if it has not.
inline int settled_winner(Search& s, const Layer& layer, const Frame<2>& frame, const Item& item,
                          const Line& g, const Pencils& pencils) {
    const int unit = frame.pending[item.position], twin = wall_of(layer, unit);
    const int* winners = s.winners_of(s.n_items - 1);
    int p = item.position - 1;
    while (p >= 0 && frame.pending[p] != twin) p--;
    if (p < 0) return -1;
    if (layer.first[unit] >= 0) return winners[p];
    if (winners[p] == 1) return 0;
    // The opposite of a form that is nowhere positive: positive, unless both vanish everywhere.
    const Edge* polygon = s.edges + item.start;
    for (int i = 0; i < item.n; i++) {
        const Edge& before = polygon[i > 0 ? i - 1 : item.n - 1];
        if (sign_at(before, polygon[i], g, pencils, s.counts) == 1) return 1;
    }
    return -1;
}

// Pass by the pending units of the window, from the next one on, that have one sign on the polygon on
// top; return whether there is one left.
inline bool find_open_unit(Search& s, Frame<2>& frame) {
    Item& item = s.top();
    const int index = item.position / kWindow, from = item.position % kWindow;
    if (frame.window.index != index) load_window(frame, index, s.path.scale);
    Edge* polygon = s.edges + item.start;
    if (item.window != index)
        for (int i = 0; i < item.n; i++) mark_signs(frame.window, from, polygon[i].start);
    item.window = index;
    std::uint64_t positive = ~std::uint64_t{0}, negative = positive;
    for (int i = 0; i < item.n; i++)
        positive &= polygon[i].start.positive, negative &= polygon[i].start.negative;
    const std::uint64_t open = ~(positive | negative) & low_bits(frame.window.n) & ~low_bits(from);
    const int found = open != 0 ? __builtin_ctzll(open) : frame.window.n;
    int* winners = s.winners_of(s.n_items - 1) + index * kWindow;
    for (int i = from; i < found; i++) winners[i] = static_cast<int>(positive >> i & 1);
    s.counts.n_filtered += std::int64_t(item.n) * (found - from);
    item.position += found - from;
    return open != 0;
}

// The signs of the next pending unit at all vertices.
inline Signs signs_of_unit(Search& s, const Frame<2>& frame, const Pencils& pencils) {
    const Item& item = s.top();
    const Edge* polygon = s.edges + item.start;
    const int bit = item.position % kWindow;
    const Line g = line_of(frame.window, bit);
    Signs found{0, 0};
    for (int i = 0; i < item.n; i++) {
        const Vertex& v = polygon[i].start;
        int sign =
            static_cast<int>(v.positive >> bit & 1) - static_cast<int>(v.negative >> bit & 1);
        if (sign == 0) {
            sign = sign_at(polygon[i > 0 ? i - 1 : item.n - 1], polygon[i], g, pencils, s.counts);
            if (sign == kUndecided) return {-1, i};
        } else {
            s.counts.n_filtered++;
        }
        s.signs[i] = static_cast<std::int8_t>(sign);
        found.n_positive += sign > 0;
        found.n_negative += sign < 0;
    }
    return found;
}

// Split the polygon on top by pending ReLU units until the one on top has none left.
inline int split_by_units(Search& s) {
    const int l = s.top().layer;
    const Layer& layer = s.path.network->layers[l];
    Frame<2>& frame = s.path.frames[l];
    const Pencils pencils = pencils_of(s.path, l);
    while (true) {
        Item& item = s.top();
        if (item.position == frame.n_pending) return kOngoing;
        if (!find_open_unit(s, frame)) continue;
        if (item.start + 3 * item.n + 6 > s.room_edges || s.n_items + 1 > s.room_items)
            return kStackFull;
        const int unit = frame.pending[item.position], bit = item.position % kWindow;
        int* winners = s.winners_of(s.n_items - 1);
        const Line g = line_of(frame.window, bit);
        if (layer.first[unit] != unit) {
            const int winner = settled_winner(s, layer, frame, item, g, pencils);
            if (winner >= 0) {
                winners[item.position++] = winner;
                continue;
            }
        }
        Edge* polygon = s.edges + item.start;
        const Signs found = signs_of_unit(s, frame, pencils);
        if (found.n_positive < 0) return kUnclear;
        // A form that is zero everywhere coincides with the first form, zero.
        winners[item.position++] = found.n_positive > 0 ? 1 : 0;
        if (found.n_positive == 0 || found.n_negative == 0) continue;
        // Both parts are written above the polygon; its edges are free again when they are done.
        Edge* to = polygon + item.n;
        const int upper = cut(polygon, item.n, s.signs, 1, g, {l, unit, 1, 0}, to, nullptr, 0);
        mark_signs(frame.window, bit + 1, to[0].start);
        mark_signs(frame.window, bit + 1, to[upper - 1].start);
        const int lower =
            cut(polygon, item.n, s.signs, -1, g, {l, unit, 0, 1}, to + upper, to, upper);
        item.start += item.n;
        item.n = upper;
        s.items[s.n_items] = {item.start + upper, lower, l, item.position, item.window};
        int* others = s.winners_of(s.n_items);
        for (int p = 0; p + 1 < item.position; p++) others[p] = winners[p];
        others[item.position - 1] = 0;
        s.n_items++;
    }
}

// Whether two coinciding forms of a group certainly contribute the same.
inline bool contribute_alike(const Layer& layer, const Frame<2>& frame, int one, int other) {
    if (frame.is_merged) return true;
    bool is_zero = frame.scores.radius[one] == 0.0 && frame.scores.radius[other] == 0.0;
    for (const double* row : frame.scores.coefficient)
        is_zero = is_zero && row[one] == 0.0 && row[other] == 0.0;
    // A radius stands for a number between floats: equal floats are then no proof.
    if (!is_zero && (layer.gains[one] != layer.gains[other] || layer.gain_radii[one] != 0.0 ||
                     layer.gain_radii[other] != 0.0))
        return false;
    for (int k = 0; k < layer.width; k++) {
        const std::size_t p = std::size_t(one) * layer.width + k,
                          q = std::size_t(other) * layer.width + k;
        if (layer.values[p] != layer.values[q] ||
            layer.value_radii[p] + layer.value_radii[q] != 0.0)
            return false;
    }
    return true;
}

// What splitting the polygon on top by a group works on.
struct GroupSplit {
    const Layer& layer;
    const Frame<2>& frame;
    Pencils pencils;
    int l, group, first;
    double scale;
};

// Write the part of a polygon where one form wins to `to`, with as much room above as below; return
// its number of edges, or -1 if a sign is undecided.
inline int winning_part(Search& s, const GroupSplit& split, const Edge* polygon, int n, int w,
                        int count, Edge* to) {
    Edge *area = to, *other = to + n + count + 2;
    const int winner = s.contest.form[w];
    for (int i = 0; i < n; i++) area[i] = polygon[i];
    for (int r = 0; r < count; r++) {
        if (r == w) continue;
        const int rival = s.contest.form[r];
        const Line g = difference(split.frame, split.frame.scores, winner, rival, split.scale);
        const Signs found = signs_of(area, n, g, split.pencils, s.signs, s.counts);
        if (found.n_positive < 0) return -1;
        if (found.n_positive == 0 && found.n_negative == 0) {
            // Both forms are the same function: the first names the cell, the mean is passed on.
            if (!contribute_alike(split.layer, split.frame, winner, rival)) return -1;
            if (winner > rival) return 0;
        } else if (found.n_positive == 0) {
            return 0;
        } else if (found.n_negative > 0) {
            const Wall wall{split.l, split.group, winner - split.first, rival - split.first};
            n = cut(area, n, s.signs, 1, g, wall, other, nullptr, 0);
            Edge* swap = area;
            area = other, other = swap;
        }
    }
    if (area != to)
        for (int i = 0; i < n; i++) to[i] = area[i];
    return n;
}

// A vertex to go on with: an unknown one, else one with ties, else any.
inline int least_marked(const Edge* polygon, int n) {
    int chosen = 0;
    for (int v = 0; v < n; v++) {
        if (polygon[v].mark == 0) return v;
        if (polygon[v].mark < 0) chosen = v;
    }
    return chosen;
}

// Name the new edges of a walked part by the first form that ties with its own along each, as cutting
// by all forms in turn does; False if a sign is undecided. Another one than the edge was cut by has
// ties at both ends (mark 2).
inline bool name_edges(Search& s, const GroupSplit& split, int w, Edge* part, int n) {
    const Crowd& crowd = s.crowd;
    for (int i = 0; i < n; i++) {
        const int after = i + 1 < n ? i + 1 : 0;
        Edge& edge = part[i];
        if (!edge.is_new || edge.mark != 2 || part[after].mark != 2) continue;
        const Box& box = box_at(crowd, edge.start);
        for (int p = box.start; p < box.start + box.length; p++) {
            const int m = crowd.listed[p];
            if (m == crowd.position[edge.wall.rival]) break;
            if (m == w || !may_tie(crowd, m, w, edge.start, split.scale) ||
                !may_tie(crowd, m, w, part[after].start, split.scale))
                continue;
            const Line g = difference(split.frame, split.frame.scores, crowd.form[w], crowd.form[m],
                                      split.scale);
            const Signs found = signs_of(part, n, g, split.pencils, s.signs, s.counts);
            if (found.n_positive < 0) return false;
            // A form that is zero everywhere coincides with this one.
            if (found.n_positive == 0 || s.signs[i] != 0 || s.signs[after] != 0) continue;
            edge.line = g;
            edge.wall.rival = crowd.form[m] - split.first;
            break;
        }
    }
    return true;
}

// Do the same, comparing only with forms that are large at a vertex (see `walks.hpp`).
//
// Vertices are marked: 0, nothing is known; -1, no form certainly exceeds this one; 1 and 2, no form
// exceeds it at all, and none, or some, tie beside those that name the edges.
inline int walked_part(Search& s, const GroupSplit& split, const Edge* polygon, int n, int w,
                       Edge* to) {
    Crowd& crowd = s.crowd;
    Edge *area = to, *other = to + n + crowd.count + 2;
    const int winner = crowd.form[w];
    for (int i = 0; i < n; i++) {
        area[i] = polygon[i];
        area[i].mark = 0;
    }
    int since = 0;
    while (true) {
        const int v = least_marked(area, n);
        Edge& at = area[v];
        const Edge& before = area[v > 0 ? v - 1 : n - 1];
        if (at.mark > 0) break;
        const int mark = at.mark;
        int m;
        if (mark == 0) {
            m = largest_rival(crowd, w, at.start, split.scale);
            if (m < 0) {
                at.mark = -1;
                continue;
            }
        } else if ((split.frame.is_homogeneous && at.start.is_origin()) ||
                   split.pencils.meets(before, at)) {
            // All forms vanish here; those that coincide are met at the other vertices.
            at.mark = 2;
            continue;
        } else {
            m = next_tie(crowd, w, before, at, split.scale, since);
            if (m < 0) {
                at.mark = since > 0 ? 2 : 1;
                since = 0;
                continue;
            }
        }
        const int rival = crowd.form[m];
        const Line g = difference(split.frame, split.frame.scores, winner, rival, split.scale);
        if (mark < 0) {
            const int sign = compare(area, n, g, split.pencils, s.counts);
            if (sign == kUndecided) return -1;
            if (sign == 0 && !contribute_alike(split.layer, split.frame, winner, rival)) return -1;
            if (sign == 0 && winner > rival) return 0;
            if (sign >= 0) continue;
        }
        const Signs found = signs_of(area, n, g, split.pencils, s.signs, s.counts);
        if (found.n_positive < 0) return -1;
        if (found.n_positive == 0) return 0;
        if (found.n_negative > 0) {
            const Wall wall{split.l, split.group, winner - split.first, rival - split.first};
            n = cut(area, n, s.signs, 1, g, wall, other, nullptr, 0);
            Edge* swap = area;
            area = other, other = swap;
            since = 0;
        }
    }
    if (!name_edges(s, split, w, area, n)) return -1;
    if (area != to)
        for (int i = 0; i < n; i++) to[i] = area[i];
    return n;
}

// Split the polygon on top by the winner of its next group.
inline int split_by_group(Search& s) {
    const int top = s.n_items - 1;
    const Item item = s.items[top];
    const Layer& layer = s.path.network->layers[item.layer];
    const Frame<2>& frame = s.path.frames[item.layer];
    const int group = frame.pending[item.position], first = layer.starts[group];
    const GroupSplit split{layer,       frame, pencils_of(s.path, item.layer, group),
                           item.layer,  group, first,
                           s.path.scale};
    const Edge* polygon = s.edges + item.start;
    int count = frame.n_candidates[group];
    const bool walks = count >= kWalkFrom;
    if (walks) {
        gather_crowd(s.crowd, frame.scores, frame.candidates + first, count, first);
        plant(s.crowd, polygon, item.n, split.scale);
    } else {
        for (int m = 0; m < count; m++) s.contest.form[m] = frame.candidates[first + m];
        count = cull(frame.scores, split.scale, polygon, item.n, split.pencils, count, s.contest,
                     s.counts);
        if (count == 1) {
            s.winners_of(top)[item.position] = s.contest.form[0] - first;
            s.top().position++;
            return kOngoing;
        }
    }
    // Parts are looked for one by one: all of them, or those that are met on the way. They are written
    // above the polygon, and noted in the items above the top one.
    int n_queued = count;
    if (walks) {
        const int m = lead_in_the_middle(s.crowd, polygon, item.n);
        s.crowd.queue[0] = m;
        s.crowd.is_queued[m] = 1;
        n_queued = 1;
    }
    int end = item.start + item.n, n_parts = 0;
    for (int q = 0; q < n_queued; q++) {
        // Room for this part twice, and for all parts once more.
        const int used = end - item.start - item.n;
        if (end + used + 3 * (item.n + count + 2) > s.room_edges ||
            top + n_parts + 3 > s.room_items)
            return kStackFull;
        const int m = walks ? s.crowd.queue[q] : q;
        Edge* to = s.edges + end;
        const int size = walks ? walked_part(s, split, polygon, item.n, m, to)
                               : winning_part(s, split, polygon, item.n, m, count, to);
        if (size < 0) return kUnclear;
        if (size > 0) {
            n_parts++;
            const int winner = (walks ? s.crowd.form[m] : s.contest.form[m]) - first;
            s.items[top + n_parts] = {end, size, item.layer, winner};
            if (walks) n_queued = push_neighbours(s.crowd, m, to, size, n_queued, split.scale);
            end += size;
        }
        if (q + 1 == n_queued && n_parts == 0 && walks) {
            // The first form wins nowhere: rounding, or an equal form before it. Try the others.
            for (int o = 0; o < count; o++) {
                if (s.crowd.is_queued[o]) continue;
                s.crowd.is_queued[o] = 1;
                s.crowd.queue[n_queued++] = o;
            }
        }
    }
    // The part of the smallest winner goes on top.
    Item* parts = s.items + top + 1;
    for (int i = 1; i < n_parts; i++) {
        const Item part = parts[i];
        int k = i;
        for (; k > 0 && parts[k - 1].position < part.position; k--) parts[k] = parts[k - 1];
        parts[k] = part;
    }
    Edge* sorted = s.edges + end;
    int n_edges = 0;
    for (int i = 0; i < n_parts; i++) {
        for (int e = 0; e < parts[i].n; e++) {
            sorted[n_edges] = s.edges[parts[i].start + e];
            sorted[n_edges++].is_new = false;
        }
    }
    for (int e = 0; e < n_edges; e++) s.edges[item.start + e] = sorted[e];
    const int* winners = s.winners_of(top);
    for (int i = 0, start = item.start; i < n_parts; i++) {
        int* own = s.winners_of(top + i);
        for (int p = 0; i > 0 && p < item.position; p++) own[p] = winners[p];
        own[item.position] = parts[i].position;
        s.items[top + i] = {start, parts[i].n, item.layer, item.position + 1};
        start += s.items[top + i].n;
    }
    s.n_items = top + n_parts;
    return kOngoing;
}

// Send the polygon on top to the next layer, or store it as a cell.
inline int pass_on(Search& s, Cells& cells) {
    const Network& network = *s.path.network;
    Item& item = s.top();
    const int l = item.layer;
    const bool is_last = l >= network.n_layers - 1;
    if (is_last && s.stores && !cells.has_room(item.n)) return kCellsFull;
    if (l < network.n_layers && (s.stores || !is_last)) {
        const Layer& layer = network.layers[l];
        const Frame<2>& frame = s.path.frames[l];
        int* signature = s.path.signature + layer.first_group;
        const int* winners = s.winners_of(s.n_items - 1);
        for (int g = 0; !layer.is_relu && g < layer.n_groups; g++) signature[g] = frame.fixed[g];
        for (int first = 0; layer.is_relu && first < layer.n_groups; first += kWindow) {
            const std::uint64_t on = frame.on[first / kWindow];
            const int n = least(kWindow, layer.n_groups - first);
            for (int g = 0; g < n; g++) signature[first + g] = static_cast<int>(on >> g & 1);
        }
        for (int p = 0; p < frame.n_pending; p++) signature[frame.pending[p]] = winners[p];
    }
    if (!is_last) {
        compose_stream(s.path, l);
        item.layer = l + 1;
        item.position = kNotEntered;
        return kOngoing;
    }
    if (s.stores &&
        !store_cell(s.path, s.pure, s.doubled, s.edges + item.start, item.n, s.is_sharp, cells))
        return kBlurred;
    s.is_sharp = false;
    s.n_cells++;
    s.n_items--;
    return kOngoing;
}

// Read the line of an edge anew; say whether it is known better.
inline bool sharpen_line(const Path<2>& path, Edge& edge) {
    if (edge.wall.layer < 0) return false;
    const Line line = wall_line(path, edge.wall);
    const Line old = edge.line;
    if (!(line.slope_radius <= old.slope_radius && line.offset_radius <= old.offset_radius))
        return false;
    edge.line = line;
    return 2.0 * line.slope_radius < old.slope_radius ||
           2.0 * line.offset_radius < old.offset_radius;
}

// Look at the polygon on top in twice the precision; say whether anything is known better.
inline bool sharpen(Search& s) {
    Item& item = s.top();
    item.window = -1;
    const int l = least(item.layer, s.path.network->n_layers - 1);
    bool is_clearer = sharpen_path(s.path, s.doubled, l);
    for (int i = 0; i <= l; i++) s.path.frames[i].window.index = -1;
    Edge* polygon = s.edges + item.start;
    for (int i = 0; i < item.n; i++) is_clearer = sharpen_line(s.path, polygon[i]) || is_clearer;
    for (int i = 0; i < item.n; i++) {
        const Vertex v = meet(polygon[i > 0 ? i - 1 : item.n - 1], polygon[i]);
        Vertex& old = polygon[i].start;
        if (!(v.rho <= old.rho && v.far_rho <= old.far_rho)) continue;
        is_clearer = is_clearer || 2.0 * v.rho < old.rho || 2.0 * v.far_rho < old.far_rho;
        old = v;
    }
    return is_clearer;
}

}  // namespace detail

// Go on splitting until something has to be done outside; return what.
inline int run(Search& s, Cells& cells, std::int64_t limit, std::int64_t budget) {
    const Network& network = *s.path.network;
    for (; budget > 0; budget--) {
        if (s.n_items == 0) return kDone;
        if (s.n_cells == limit) return kCellLimit;
        const Item& item = s.top();
        int status = kOngoing;
        if (item.layer < network.n_layers && item.position < 0)
            detail::enter(s);
        else if (item.layer == network.n_layers ||
                 item.position == s.path.frames[item.layer].n_pending)
            status = detail::pass_on(s, cells);
        else if (network.layers[item.layer].is_relu)
            status = detail::split_by_units(s);
        else
            status = detail::split_by_group(s);
        if (status == kUnclear && detail::sharpen(s)) continue;
        if (status != kOngoing) return status;
    }
    return s.n_items == 0 ? kDone : kBudget;
}

}  // namespace hardmax
