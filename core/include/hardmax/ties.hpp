// The edges of stored cells that may lie on other walls in addition to the one that names them.
//
// The winner w of a group exceeds each rival in the interior of the cell. They tie along an edge if
// and only if they tie at both its ends. So if the winner certainly exceeds the rival at one end,
// they do not tie along the edge. If this is not certain with forms in twice the precision, the
// edge is left to the caller. If it is certain at no vertex at all, both forms may be the same
// function, with their mean passed on, and nothing is certain about the cell.
#pragma once
#include "neighbours.hpp"
#include "polygons.hpp"
#include "search.hpp"

namespace hardmax {

using Plane = Search<Polygons>;

// Compose the forms on a cell, from the first layer on in which its winners differ from those on
// the path.
inline void follow(Plane& s, const StoredPolygons& p, std::int64_t cell) {
    const Network& network = *s.path.network;
    int changed = 0;
    if (cell > 0)
        while (changed < p.n_groups && s.path.signature[changed] == p.winner(cell, changed))
            changed++;
    for (int g = changed; g < p.n_groups; g++) s.path.signature[g] = p.winner(cell, g);
    for (int l = 0; l < network.n_layers; l++) {
        const Layer& layer = network.layers[l];
        if (cell > 0 && layer.first_group <= changed) continue;
        if (l > 0) compose_stream(s.path, l - 1);
        compose_scores(s.path, l);
        for (int g = 0; g < layer.n_groups; g++)
            s.path.frames[l].typical[g] =
                static_cast<std::int8_t>(s.path.signature[layer.first_group + g]);
    }
}

namespace detail {

// The last of increasing numbers that is at most x.
inline int last_up_to(const std::int32_t* numbers, int n, std::int32_t x) {
    int low = 0;
    while (n - low > 1) {
        const int middle = (low + n) / 2;
        (numbers[middle] <= x ? low : n) = middle;
    }
    return low;
}

// The layer and the group of a wall.
inline Wall wall_of_code(const StoredPolygons& p, std::int32_t code) {
    if (code < 0) return {-1, 0, 0, 0};
    const int group = last_up_to(p.form_starts, p.n_groups, code);
    const int layer = last_up_to(p.first_groups, p.n_layers, group);
    return {layer, group - p.first_groups[layer], 0, 0};
}

// Mark the edges of a polygon along which a form that is positive inside may vanish, except those
// named by its group. Return whether the form is certainly positive somewhere.
inline bool mark_ties(Plane& s, const Edge* polygon, int n, const Line& g, const Wall& wall,
                      std::uint8_t* may_tie) {
    bool is_positive = false;
    for (int i = 0; i < n; i++) {
        const int sign = sign_at(polygon[i > 0 ? i - 1 : n - 1], polygon[i], g, {}, s.counts);
        s.cells.signs[i] = sign == 1;
        is_positive = is_positive || sign == 1;
    }
    for (int i = 0; i < n; i++) {
        const Wall& own = polygon[i].wall;
        if (own.layer < 0 || (own.layer == wall.layer && own.group == wall.group)) continue;
        if (!s.cells.signs[i] && !s.cells.signs[i + 1 < n ? i + 1 : 0]) may_tie[i] = 1;
    }
    return is_positive;
}

inline bool is_zero(const Line& g) {
    return g.a[0] == 0.0 && g.a[1] == 0.0 && g.c == 0.0 && g.slope_radius == 0.0 &&
           g.offset_radius == 0.0;
}

// Mark the edges of a polygon that may lie on another wall, according to the forms on the path.
// Return whether there were any.
inline bool mark_all_ties(Plane& s, const Edge* polygon, int n, std::uint8_t* may_tie) {
    const Network& network = *s.path.network;
    for (int i = 0; i < n; i++) may_tie[i] = 0;
    bool is_clear = true;
    for (int l = 0; l < network.n_layers; l++) {
        const Layer& layer = network.layers[l];
        Frame<2>& frame = s.path.frames[l];
        const int* winners = winners_of(s.path, l);
        if (layer.is_relu)
            analyse_units(layer, frame, s.path.scale, Polygon{polygon, n}, s.counts);
        else
            analyse_groups(layer, frame, s.path.scale, Polygon{polygon, n}, s.contest, s.counts);
        for (int k = 0; k < frame.n_pending; k++) {
            const int group = frame.pending[k], w = winners[group];
            if (layer.is_relu) {
                const Wall wall{l, group, w, 1 - w};
                const Line g = wall_form(s.path, wall);
                if (!is_zero(g)) mark_ties(s, polygon, n, g, wall, may_tie);
                continue;
            }
            const int first = layer.starts[group];
            for (int m = 0; m < frame.n_candidates[group]; m++) {
                const int rival = frame.candidates[first + m];
                if (rival == first + w) continue;
                const Wall wall{l, group, w, rival - first};
                const Line g = wall_form(s.path, wall);
                is_clear = mark_ties(s, polygon, n, g, wall, may_tie) && is_clear;
            }
        }
    }
    bool is_any = false;
    for (int i = 0; i < n; i++) {
        may_tie[i] = may_tie[i] || !is_clear;
        is_any = is_any || may_tie[i];
    }
    return is_any;
}

}  // namespace detail

// Find the edges of the cell on the path that may lie on several walls. The stack of the search is
// empty, with capacity for the edges of any cell.
inline void find_ties(Plane& s, const StoredPolygons& p, std::int64_t cell, std::uint8_t* may_tie) {
    const std::int64_t start = p.starts[cell];
    const int n = static_cast<int>(p.starts[cell + 1] - start);
    for (int i = 0; i < n; i++) {
        const std::int64_t v = start + i;
        Edge& edge = s.cells.edges[i];
        // Lines are unknown here; the radius marks them as inexact.
        edge.line = {{0.0, 0.0}, 0.0, kInfinity, kInfinity};
        edge.far_offset = 0.0;
        edge.wall = detail::wall_of_code(p, p.codes[v]);
        edge.start = {p.points[2 * v], p.points[2 * v + 1], detail::stored_error(p, v), 0, 0, 0};
        if (!p.is_far(v)) continue;
        edge.start.dx = p.directions[2 * v], edge.start.dy = p.directions[2 * v + 1];
        edge.start.far_rho = 2.0 * kStoredRadius;
    }
    std::uint8_t* marks = may_tie + start;
    if (!detail::mark_all_ties(s, s.cells.edges, n, marks)) return;
    if (improve_path(s.path, s.doubled, s.path.network->n_layers - 1))
        detail::mark_all_ties(s, s.cells.edges, n, marks);
}

}  // namespace hardmax
