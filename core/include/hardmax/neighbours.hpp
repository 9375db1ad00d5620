// The pairs of cells of the plane that share part of a wall.
//
// Let an edge of a cell lie on the line L on which its winner of group g of layer l ties with a
// rival. Groups split cells in order, so (l, g) is the first pair with a tie along L, seen from
// either side: the winners of the layers before l are the same on both sides. Hence these winners
// and the two forms identify L, and edges are gathered by them. If three forms of a group tie along
// L, the two sides may name different pairs of these forms. Such lines have edges on one side only
// and are left to the caller.
//
// On each side, the edges are disjoint intervals of L. Two edges on different sides share part of
// the wall if and only if each begins before the other ends. There are two ways to decide this:
// - By floats: the error of a stored vertex is at most kStoredRadius times its size
//   (`is_imprecise`), and points on L are ordered by a coordinate in which two of them are proven
//   to differ.
// - By names: two ends on L are the same point if the walls that meet L there are the same line. A
//   wall of a layer up to l is the same line if its forms are the same. A wall of a layer after l
//   is the same line if, in addition, the layers between pass on the same stream along L: their
//   winners are the same, or tie along L in groups that pass on the largest form. Winners of cells
//   that share part of L tie there. A winner that passes on a mean, over forms that coincide on its
//   cell, is not the same as a winner that does not.
//
// Two edges with the same ends are the same set, and no other edge touches them.
//
// If all groups from layer l on pass on their largest form, edges that share part of L are the
// same. Proof: the forms of these layers agree on both sides of L. A group splits a segment F of L,
// bounding regions on both sides, into the sets {x in F : s_a(x) >= all s_b(x)}, where a is one of
// its winners beside F. These sets depend only on the forms on F.
//
// Undecided edges are left to the caller, one by one.
#pragma once
#include "arena.hpp"
#include "cells.hpp"

namespace hardmax {

// Cells in the lexicographic order of their signatures, as in `Cells`. Edge i of a cell goes from
// its vertex i to the next vertex.
struct StoredPolygons {
    std::int64_t n_cells, n_edges;
    std::int32_t n_layers, n_groups;
    double scale;
    const std::uint8_t* short_signatures;  // (n_cells, n_groups), or null
    const std::int32_t* signatures;        // the same shape, or null
    const std::int64_t* starts;            // (n_cells + 1)
    const std::int32_t* codes;             // (n_edges): see `wall_code`
    const double* points;                  // (n_edges, 2)
    const double* directions;              // (n_edges, 2), or null
    const std::int32_t* first_groups;      // (n_layers + 1)
    const std::int32_t* form_starts;       // (n_groups + 1)
    const std::uint8_t* passes;            // (n_groups): whether the largest form is passed on
    std::int32_t has_means;                // whether means are passed on that depend on the cell

    int winner(std::int64_t cell, int group) const {
        const std::int64_t at = cell * n_groups + group;
        return short_signatures ? short_signatures[at] : signatures[at];
    }
    bool is_far(std::int64_t vertex) const {
        return directions && (directions[2 * vertex] != 0.0 || directions[2 * vertex + 1] != 0.0);
    }
};

// A line: the first cell with its earlier winners, and its two forms, counted over all layers.
struct WallLine {
    std::int32_t cell, low, high;
};

// Data about all lines.
struct WallLines {
    std::int32_t* group_of;     // (n_forms)
    std::int32_t* layer_of;     // (n_groups)
    std::int32_t* first_cells;  // (n_layers): the first cells with the winners of the current cell
    std::int32_t* owners;       // (n_edges): the cell of each edge
    std::int32_t* line_of;      // (n_edges): its line; -1 for a side of the domain
    std::int32_t* members;      // (n_edges): the edges of each line, one line after the other
    std::int32_t* starts;       // (n_edges + 1): the start of each line's edges
    WallLine* lines;            // (at most n_edges)
    std::int32_t* table;        // (n_slots): lines by their hashes; -1 marks an empty slot
    std::size_t n_slots;
    std::int32_t n_lines, longest;
    int continuous_from;  // the first layer such that it and all later ones pass on their largest
                          // forms
};

// An edge on its line: bounds on the positions of its ends along the line.
struct Interval {
    double begin_low, begin_high, end_low, end_high;
    std::int32_t edge;
    bool is_done;  // an edge of the other side is the same set
};

inline WallLines take_wall_lines(const StoredPolygons& p, Arena& arena) {
    WallLines lines{};
    lines.group_of = arena.take<std::int32_t>(p.form_starts[p.n_groups]);
    lines.layer_of = arena.take<std::int32_t>(p.n_groups);
    lines.first_cells = arena.take<std::int32_t>(p.n_layers);
    lines.owners = arena.take<std::int32_t>(p.n_edges);
    lines.line_of = arena.take<std::int32_t>(p.n_edges);
    lines.members = arena.take<std::int32_t>(p.n_edges);
    lines.starts = arena.take<std::int32_t>(p.n_edges + 1);
    lines.lines = arena.take<WallLine>(p.n_edges);
    // Most lines have two edges or more.
    lines.n_slots = 64;
    while (lines.n_slots < std::size_t(p.n_edges)) lines.n_slots *= 2;
    lines.table = arena.take<std::int32_t>(2 * lines.n_slots);
    lines.n_slots *= 2;
    return lines;
}

namespace detail {

inline std::size_t hash_of(const WallLine& line) {
    std::uint64_t x = (std::uint64_t(std::uint32_t(line.low)) << 32 | std::uint32_t(line.high)) *
                      0x9e3779b97f4a7c15u;
    x = (x ^ x >> 29 ^ std::uint32_t(line.cell)) * 0xbf58476d1ce4e5b9u;
    return x ^ x >> 32;
}

// The number of a line, which is entered if it is new.
inline std::int32_t number_of(WallLines& lines, const WallLine& line) {
    std::size_t slot = hash_of(line) & (lines.n_slots - 1);
    while (true) {
        const std::int32_t known = lines.table[slot];
        if (known < 0) break;
        const WallLine& other = lines.lines[known];
        if (other.cell == line.cell && other.low == line.low && other.high == line.high)
            return known;
        slot = (slot + 1) & (lines.n_slots - 1);
    }
    lines.lines[lines.n_lines] = line;
    return lines.table[slot] = lines.n_lines++;
}

// The form of the cell that wins beside a wall, counted over all layers.
inline std::int32_t own_form(const StoredPolygons& p, const WallLines& lines, std::int64_t cell,
                             std::int32_t code) {
    const int group = lines.group_of[code];
    return p.form_starts[group] + p.winner(cell, group);
}

// Record, for each layer, the first cell with the same winners before that layer. Return false if
// the cell does not come after the previous one in the order.
inline bool note_first_cells(const StoredPolygons& p, WallLines& lines, std::int64_t cell) {
    int group = 0;
    if (cell > 0) {
        while (group < p.n_groups && p.winner(cell - 1, group) == p.winner(cell, group)) group++;
        if (group == p.n_groups || p.winner(cell - 1, group) > p.winner(cell, group)) return false;
    }
    for (int l = p.n_layers - 1; l >= 0 && (cell == 0 || p.first_groups[l] > group); l--)
        lines.first_cells[l] = static_cast<std::int32_t>(cell);
    return true;
}

}  // namespace detail

// Gather the edges by their lines. Return false if the cells are not in order.
inline bool gather_lines(const StoredPolygons& p, WallLines& lines) {
    for (int l = 0; l < p.n_layers; l++)
        for (int g = p.first_groups[l]; g < p.first_groups[l + 1]; g++) lines.layer_of[g] = l;
    for (int g = 0; g < p.n_groups; g++)
        for (int j = p.form_starts[g]; j < p.form_starts[g + 1]; j++) lines.group_of[j] = g;
    lines.continuous_from = 0;
    for (int g = 0; g < p.n_groups; g++)
        if (!p.passes[g]) lines.continuous_from = lines.layer_of[g] + 1;
    for (std::size_t slot = 0; slot < lines.n_slots; slot++) lines.table[slot] = -1;
    lines.n_lines = 0;
    for (std::int64_t cell = 0; cell < p.n_cells; cell++) {
        if (!detail::note_first_cells(p, lines, cell)) return false;
        for (std::int64_t e = p.starts[cell]; e < p.starts[cell + 1]; e++) {
            lines.owners[e] = static_cast<std::int32_t>(cell);
            lines.line_of[e] = -1;
            const std::int32_t rival = p.codes[e];
            if (rival < 0) continue;
            const std::int32_t own = detail::own_form(p, lines, cell, rival);
            const int layer = lines.layer_of[lines.group_of[rival]];
            lines.line_of[e] = detail::number_of(
                lines, {lines.first_cells[layer], least(own, rival), most(own, rival)});
        }
    }
    // Count the edges of each line, then list them.
    for (std::int32_t k = 0; k <= lines.n_lines; k++) lines.starts[k] = 0;
    for (std::int64_t e = 0; e < p.n_edges; e++)
        if (lines.line_of[e] >= 0) lines.starts[lines.line_of[e]]++;
    std::int32_t end = 0;
    lines.longest = 0;
    for (std::int32_t k = 0; k <= lines.n_lines; k++) {
        const std::int32_t n = lines.starts[k];
        lines.longest = most(lines.longest, n);
        lines.starts[k] = end += n;
    }
    for (std::int64_t e = p.n_edges - 1; e >= 0; e--)
        if (lines.line_of[e] >= 0)
            lines.members[--lines.starts[lines.line_of[e]]] = static_cast<std::int32_t>(e);
    return true;
}

namespace detail {

// Sort by increasing key (Shell sort: the gaps shrink to 1).
template <class T, class Key>
void sort_by(T* items, std::int64_t n, Key key) {
    for (std::int64_t gap = n; gap > 1;) {
        gap = gap < 4 ? 1 : (4 * gap) / 9;
        for (std::int64_t i = gap; i < n; i++) {
            const T item = items[i];
            std::int64_t k = i;
            for (; k >= gap && key(item) < key(items[k - gap]); k -= gap) items[k] = items[k - gap];
            items[k] = item;
        }
    }
}

// Twice a bound on the error of a stored vertex; the factor covers the errors of what is computed
// from it here. Infinite if a coordinate may have overflowed.
inline double stored_error(const StoredPolygons& p, std::int64_t vertex) {
    const double* point = p.points + 2 * vertex;
    const double size = bound(bound(p.scale, magnitude(point[0])), magnitude(point[1]));
    return size < 1e300 ? 2.0 * kStoredRadius * size : kInfinity;
}

inline std::int64_t edge_after(const StoredPolygons& p, const WallLines& lines, std::int64_t edge) {
    const std::int64_t cell = lines.owners[edge];
    return edge + 1 < p.starts[cell + 1] ? edge + 1 : p.starts[cell];
}

inline std::int64_t edge_before(const StoredPolygons& p, const WallLines& lines,
                                std::int64_t edge) {
    const std::int64_t cell = lines.owners[edge];
    return edge > p.starts[cell] ? edge - 1 : p.starts[cell + 1] - 1;
}

// The coordinate along which the edges of the cells with the lower form run, and the direction.
struct Course {
    int coordinate, sign;  // 0: unknown
};

inline bool has_low_form(const StoredPolygons& p, const WallLines& lines, std::int32_t edge) {
    return p.codes[edge] != lines.lines[lines.line_of[edge]].low;
}

// Determine the course of a line from its longest edge.
inline Course course_of(const StoredPolygons& p, const WallLines& lines, std::int32_t line) {
    Course course{0, 0};
    double longest = 0.0;
    for (std::int32_t m = lines.starts[line]; m < lines.starts[line + 1]; m++) {
        const std::int32_t e = lines.members[m];
        const std::int64_t next = edge_after(p, lines, e);
        const bool is_far = p.is_far(e) || p.is_far(next);
        for (int k = 0; k < 2; k++) {
            // Directions are known up to kStoredRadius, and one of their coordinates is 1 or -1.
            const double step = is_far ? p.directions[2 * next + k] - p.directions[2 * e + k]
                                       : p.points[2 * next + k] - p.points[2 * e + k];
            const double error =
                is_far ? 4.0 * kStoredRadius : stored_error(p, e) + stored_error(p, next);
            const double length = magnitude(step) * (is_far ? 1e300 : 1.0);
            if (!(magnitude(step) > error) || !(length > longest)) continue;
            longest = length;
            course = {k, (step > 0.0) == has_low_form(p, lines, e) ? 1 : -1};
        }
    }
    return course;
}

// Edges of the lower form run along the course; edges of the other form run against it.
inline Interval interval_of(const StoredPolygons& p, const WallLines& lines, const Course& course,
                            std::int32_t edge) {
    const std::int64_t next = edge_after(p, lines, edge);
    const bool is_low = has_low_form(p, lines, edge);
    const std::int64_t begin = is_low ? edge : next, end = is_low ? next : edge;
    Interval found{-kInfinity, -kInfinity, kInfinity, kInfinity, edge, false};
    const auto place = [&](std::int64_t vertex, double& low, double& high) {
        if (p.is_far(vertex)) return;
        const double x = course.sign * p.points[2 * vertex + course.coordinate];
        const double error = stored_error(p, vertex);
        low = error < kInfinity ? x - error : -kInfinity;
        high = error < kInfinity ? x + error : kInfinity;
    };
    place(begin, found.begin_low, found.begin_high);
    place(end, found.end_low, found.end_high);
    return found;
}

inline bool are_apart(const Interval& one, const Interval& other) {
    return one.end_high <= other.begin_low || other.end_high <= one.begin_low;
}

inline bool overlap(const Interval& one, const Interval& other) {
    return one.begin_high < other.end_low && other.begin_high < one.end_low;
}

// Whether two cells on both sides of a line pass on the same stream along it, from the line's layer
// to another. Cells that share part of the line have winners that tie on it; this needs no proof.
inline bool agree(const StoredPolygons& p, const WallLines& lines, int group, int layer,
                  std::int64_t one, std::int64_t other, bool are_neighbours) {
    const int l = lines.layer_of[group];
    if (layer <= l) return true;
    for (int g = p.first_groups[l]; g < p.first_groups[layer]; g++) {
        // In the layer of the line, the same forms coincide on both sides.
        if (!p.passes[g] && p.has_means && lines.layer_of[g] > l) return false;
        if (p.winner(one, g) == p.winner(other, g)) continue;
        if (!p.passes[g] || !(are_neighbours || g == group)) return false;
    }
    return true;
}

// Whether two edges of one line, one of the lower and one of the other form, are proven to be the
// same.
inline bool are_same(const StoredPolygons& p, const WallLines& lines, std::int32_t one,
                     std::int32_t other, bool are_neighbours) {
    const int group = lines.group_of[p.codes[one]];
    if (are_neighbours && lines.layer_of[group] >= lines.continuous_from) return true;
    const std::int64_t i = lines.owners[one], j = lines.owners[other];
    int layer = -1;
    for (int end = 0; end < 2; end++) {
        const std::int64_t here = end == 0 ? edge_before(p, lines, one) : edge_after(p, lines, one);
        const std::int64_t there =
            end == 0 ? edge_after(p, lines, other) : edge_before(p, lines, other);
        if (end == 0 ? p.is_far(one) && p.is_far(there) : p.is_far(here) && p.is_far(other))
            continue;
        const std::int32_t code = p.codes[here];
        if (code != p.codes[there]) return false;
        if (code < 0) continue;
        const int g = lines.group_of[code];
        // Along the line, the winners of its own group tie.
        if (g != group && !are_neighbours && p.winner(i, g) != p.winner(j, g)) return false;
        layer = most(layer, lines.layer_of[g]);
    }
    return agree(p, lines, group, layer, i, j, are_neighbours);
}

// Whether names prove that one of two edges of a line, one of the lower and one of the other form,
// ends where the other begins: on both sides of one wall of a layer up to the line's layer.
inline bool are_in_touch(const StoredPolygons& p, const WallLines& lines, std::int32_t one,
                         std::int32_t other) {
    const std::int64_t i = lines.owners[one], j = lines.owners[other];
    for (int end = 0; end < 2; end++) {
        // `one` runs along the line and `other` against it, so they touch at corresponding ends.
        const std::int64_t here = end == 0 ? edge_before(p, lines, one) : edge_after(p, lines, one);
        const std::int64_t there =
            end == 0 ? edge_before(p, lines, other) : edge_after(p, lines, other);
        const std::int32_t code = p.codes[here], beside = p.codes[there];
        if (code < 0 || beside < 0) continue;
        const int g = lines.group_of[code];
        if (lines.layer_of[g] > lines.layer_of[lines.group_of[p.codes[one]]]) continue;
        if (lines.group_of[beside] != g) continue;
        if (own_form(p, lines, i, code) == beside && own_form(p, lines, j, beside) == code)
            return true;
    }
    return false;
}

}  // namespace detail

// Pairs of edges that share part of a wall, and the edges left open.
struct Pairs {
    struct Pair {
        std::int32_t one, other;  // with the edge of the smaller cell first
    };
    Pair* edges;  // (n_edges): a line never has more pairs than edges
    std::int64_t n;
    std::uint8_t* is_open;  // (n_edges)
};

// Find the pairs along one line; `intervals` has capacity for its edges.
inline void match_line(const StoredPolygons& p, const WallLines& lines, std::int32_t line,
                       Interval* intervals, Pairs& pairs) {
    const std::int32_t* members = lines.members + lines.starts[line];
    const std::int32_t n = lines.starts[line + 1] - lines.starts[line];
    const int group = lines.group_of[lines.lines[line].low];
    const detail::Course course = detail::course_of(p, lines, line);
    std::int32_t n_low = 0;
    for (std::int32_t m = 0; m < n; m++) n_low += detail::has_low_form(p, lines, members[m]);
    const bool is_one_sided = n_low == 0 || n_low == n;
    if (is_one_sided && p.form_starts[group + 1] - p.form_starts[group] == 2) return;
    if (is_one_sided || course.sign == 0) {
        for (std::int32_t m = 0; m < n; m++) pairs.is_open[members[m]] = 1;
        return;
    }
    Interval *low = intervals, *high = intervals + n_low;
    for (std::int32_t m = 0; m < n; m++) {
        Interval*& to = detail::has_low_form(p, lines, members[m]) ? low : high;
        *to++ = detail::interval_of(p, lines, course, members[m]);
    }
    low = intervals, high = intervals + n_low;
    const std::int32_t n_high = n - n_low;
    const auto begin = [](const Interval& one) { return one.begin_low; };
    detail::sort_by(low, n_low, begin);
    detail::sort_by(high, n_high, begin);
    const auto add = [&](const Interval& one, const Interval& other) {
        const bool is_in_order = lines.owners[one.edge] < lines.owners[other.edge];
        pairs.edges[pairs.n++] =
            is_in_order ? Pairs::Pair{one.edge, other.edge} : Pairs::Pair{other.edge, one.edge};
    };
    // First find the certain overlaps, then the possible ones: most of these touch edges that are
    // already done.
    for (const bool is_certain : {true, false}) {
        std::int32_t first = 0;
        for (std::int32_t a = 0; a < n_low; a++) {
            Interval& one = low[a];
            if (one.is_done) continue;
            while (first < n_high && high[first].end_high <= one.begin_low) first++;
            for (std::int32_t b = first; b < n_high && high[b].begin_low < one.end_high; b++) {
                Interval& other = high[b];
                if (other.is_done || detail::are_apart(one, other) ||
                    detail::overlap(one, other) != is_certain)
                    continue;
                const bool are_same = detail::are_same(p, lines, one.edge, other.edge, is_certain);
                if (is_certain || are_same) add(one, other);
                if (are_same) {
                    one.is_done = other.is_done = true;
                    break;
                }
                if (is_certain || detail::are_in_touch(p, lines, one.edge, other.edge)) continue;
                pairs.is_open[one.edge] = pairs.is_open[other.edge] = 1;
            }
        }
    }
}

// Sort pairs by their cells. `to` has capacity for them, and `starts` for the cells plus one.
inline void sort_pairs(const Pairs& pairs, const WallLines& lines, std::int64_t n_cells,
                       std::int32_t* starts, Pairs::Pair* to) {
    for (std::int64_t i = 0; i <= n_cells; i++) starts[i] = 0;
    for (std::int64_t k = 0; k < pairs.n; k++) starts[lines.owners[pairs.edges[k].one]]++;
    std::int32_t end = 0;
    for (std::int64_t i = 0; i <= n_cells; i++) starts[i] = end += starts[i];
    for (std::int64_t k = pairs.n - 1; k >= 0; k--)
        to[--starts[lines.owners[pairs.edges[k].one]]] = pairs.edges[k];
    for (std::int64_t i = 0; i < n_cells; i++)
        detail::sort_by(to + starts[i], starts[i + 1] - starts[i],
                        [&](const Pairs::Pair& pair) { return lines.owners[pair.other]; });
}

}  // namespace hardmax
