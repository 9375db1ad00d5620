// The largest of many affine forms over the plane: the winner at each point, and the pairs of
// adjacent winners.
//
// The forms, as points (a, c), have an upper hull. Its corners are the forms that win on an open
// set, its edges are the walls between two of them, and its faces are the points where three or
// more forms are equal. Faces with more than three corners are divided into triangles. Edges
// between triangles in one plane are flat and are omitted, and so are corners with fewer than three
// edges that are not flat. The result does not depend on the order of insertion.
#pragma once
#include <initializer_list>

#include "convex_hull.hpp"

namespace hardmax {

// An upper hull of points in space, and memory for reading its cells.
struct Envelope {
    const ConvexHull<3>* hull;
    int32_t* around;  // for each form, and for infinity: a triangle with that corner
    int32_t* found;   // triangles around one winner
    int32_t* stack;
    int32_t* border;
    uint8_t* flat;     // for each triangle: bit i is set if the edge opposite to corner i is flat
    uint8_t* n_edges;  // for each form: number of edges that are not flat, up to 3
    int32_t* face;     // for each triangle: its face
};

inline void lay_out(Envelope& e, Arena& arena, const ConvexHull<3>& hull) {
    const size_t n = static_cast<size_t>(hull.points.n), m = static_cast<size_t>(hull.n_facets);
    e.hull = &hull;
    e.around = arena.take<int32_t>(n + 1);
    e.found = arena.take<int32_t>(m);
    e.stack = arena.take<int32_t>(n + m);
    e.border = arena.take<int32_t>(n + m);
    e.flat = arena.take<uint8_t>(m);
    e.n_edges = arena.take<uint8_t>(n + 1);
    e.face = arena.take<int32_t>(m);
}

namespace detail {

inline int next(int i) { return i == 2 ? 0 : i + 1; }
inline int before(int i) { return i == 0 ? 2 : i - 1; }

inline const HullFacet<3>& triangle_of(const Envelope& e, int32_t t) { return e.hull->facets[t]; }

inline int32_t& around(Envelope& e, int32_t corner) {
    return e.around[corner == kAtInfinity ? e.hull->points.n : corner];
}

inline bool is_flat(const Envelope& e, int32_t t, int side) { return e.flat[t] >> side & 1; }

inline void find_flat_edges(Envelope& e) {
    const int32_t n_triangles = e.hull->n_facets;
    for (int32_t v = 0; v <= e.hull->points.n; v++) e.n_edges[v] = 0, e.around[v] = -1;
    for (int32_t t = 0; t < n_triangles; t++) e.flat[t] = 0, e.face[t] = -1;
    for (int32_t t = 0; t < n_triangles; t++) {
        const HullFacet<3>& triangle = triangle_of(e, t);
        if (triangle.mark == kFreeFacet) continue;
        for (int i = 0; i < 3; i++) {
            around(e, triangle.corner[i]) = t;
            const int32_t other = triangle.neighbour[i];
            if (other < t) continue;
            if (is_flat(*e.hull, t, i)) {
                e.flat[t] = static_cast<uint8_t>(e.flat[t] | 1 << i);
                e.flat[other] = static_cast<uint8_t>(e.flat[other] |
                                                     1 << side_towards(triangle_of(e, other), t));
                continue;
            }
            for (int32_t corner : {triangle.corner[next(i)], triangle.corner[before(i)]}) {
                uint8_t& count = e.n_edges[corner == kAtInfinity ? e.hull->points.n : corner];
                if (count < 3) count++;
            }
        }
    }
}

// The corner at the other end of the edge from corner i of triangle t to the next one. The edge may
// continue straight through points that are not corners of the hull.
inline int32_t end_of_edge(const Envelope& e, int32_t t, int i) {
    int32_t b = triangle_of(e, t).corner[next(i)];
    while (e.n_edges[b] < 3) {
        // Turn around b, from the edge by which it was reached to its other edge.
        const auto turn_left = [&] {
            t = triangle_of(e, t).neighbour[next(corner_of(triangle_of(e, t), b))];
            return corner_of(triangle_of(e, t), b);
        };
        int k = turn_left();
        do k = turn_left();
        while (is_flat(e, t, before(k)));
        b = triangle_of(e, t).corner[next(k)];
    }
    return b;
}

inline void number_face(Envelope& e, int32_t start, int32_t number) {
    int32_t depth = 0;
    e.face[start] = number;
    e.stack[depth++] = start;
    while (depth > 0) {
        const int32_t t = e.stack[--depth];
        for (int i = 0; i < 3; i++) {
            const int32_t other = triangle_of(e, t).neighbour[i];
            if (!is_flat(e, t, i) || e.face[other] == number) continue;
            e.face[other] = number;
            e.stack[depth++] = other;
        }
    }
}

}  // namespace detail

// The diagram, in arrays of the caller: the winners, ascending; the neighbours of each winner,
// counter-clockwise, and after each neighbour the vertex where its wall ends, -1 at infinity; for
// each vertex, three of the forms that are equal there. A bounded cell begins with its smallest
// neighbour, an unbounded cell after its gap. Vertices are numbered by first occurrence.
struct EnvelopeCells {
    int32_t* sites;       // (n)
    int32_t* starts;      // (n + 1)
    int32_t* neighbours;  // (6 n)
    int32_t* corners;     // (6 n)
    int32_t* triples;     // (2 n, 3)
    int32_t n_sites, n_vertices;
};

inline void finish(Envelope& e, EnvelopeCells& cells) {
    using namespace detail;
    find_flat_edges(e);
    const int32_t n = e.hull->points.n;
    const int32_t* const first = e.hull->first;
    // Winners are named by the first form that is equal to them.
    for (int32_t v = 0; v < n; v++) e.stack[v] = -1;
    for (int32_t v = 0; v < n; v++)
        if (e.n_edges[v] >= 3) e.stack[first[v]] = v;
    int32_t n_sites = 0;
    for (int32_t name = 0; name < n; name++) {
        if (e.stack[name] < 0) continue;
        e.border[n_sites] = e.stack[name];
        cells.sites[n_sites++] = name;
    }
    cells.n_sites = n_sites;
    cells.n_vertices = 0;
    int32_t used = 0;
    int32_t* const found = e.found;
    for (int32_t s = 0; s < n_sites; s++) {
        cells.starts[s] = used;
        const int32_t v = e.border[s], begin = e.around[v];
        int32_t* const names = cells.neighbours + used;
        int32_t length = 0, least = 0, gap = -1;
        int32_t t = begin;
        do {
            const HullFacet<3>& triangle = triangle_of(e, t);
            const int i = corner_of(triangle, v);
            if (triangle.corner[next(i)] != kAtInfinity && !is_flat(e, t, before(i))) {
                found[length] = t;
                names[length] = first[end_of_edge(e, t, i)];
                if (names[length] < names[least]) least = length;
                if (far_corner(triangle) >= 0) gap = length;
                length++;
            }
            t = triangle.neighbour[next(i)];
        } while (t != begin);
        // Rotate to the required beginning.
        const int32_t origin = gap >= 0 ? (gap + 1) % length : least;
        int32_t* const turned = e.border + n_sites;
        for (int32_t k = 0; k < length; k++) turned[k] = names[(origin + k) % length];
        for (int32_t k = 0; k < length; k++) {
            names[k] = turned[k];
            t = found[(origin + k) % length];
            const bool is_far = far_corner(triangle_of(e, t)) >= 0;
            if (!is_far && e.face[t] < 0) {
                int32_t* triple = cells.triples + 3 * cells.n_vertices;
                triple[0] = cells.sites[s];
                triple[1] = names[k];
                triple[2] = turned[(k + 1) % length];
                number_face(e, t, cells.n_vertices++);
            }
            cells.corners[used + k] = is_far ? -1 : e.face[t];
        }
        used += length;
    }
    cells.starts[n_sites] = used;
}

}  // namespace hardmax
