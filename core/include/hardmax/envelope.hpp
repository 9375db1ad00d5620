// The largest of many affine forms over the plane: who wins where, and who is next to whom.
//
// The forms as points (a, c) have an upper hull. Its corners are the forms that win on an open set,
// its edges the walls between two of them, its faces the points where three or more are equal. The
// hull is kept as triangles around it, seen from above, closed by triangles with a corner at
// infinity, below; points are inserted one by one, in any order: the triangles that a point is
// strictly above are replaced by those that join it to the border of the gap ([CS89]).
//
// A point in the plane of a triangle is not above it. So no perturbation is needed:
// * Where triangle T is to be replaced and its neighbour U across ab is not, the point is not over
//   the line ab: there T and U have the same height. And it is not beyond that line, for there the
//   plane of T is above that of U. So the new triangle is not flat, and turns left.
// * A triangle (a, b, infinity) is to be replaced if the point is strictly outside ab, or over the
//   line ab and above the triangle T on the other side. So what was said holds for T and
//   (a, b, infinity), and for (a, b, infinity) with the next one: a point over the line ab, above
//   it, that lies on the far side of b is outside the next side, or above its line, which is lower.
//
// Faces of more than three corners stay cut into triangles until the end: then edges between
// triangles in one plane are called flat and left out, and so are the corners with fewer than
// three edges that are not flat. What is left does not depend on the order of insertion.
#pragma once
#include <initializer_list>

#include "lifted.hpp"

namespace hardmax {

struct HullTriangle {
    int32_t corner[3];     // turning left; kFar stands for infinity
    int32_t neighbour[3];  // across the edge opposite to that corner
};

constexpr int32_t kFar = -1;

struct Envelope {
    LiftedForms forms;
    HullTriangle* triangles;
    int32_t* mark;    // for each triangle: +i to be replaced by insertion i, -i not, else unknown
    int32_t* first;   // for each form the first one that is the same
    int32_t* around;  // for each form, and infinity: a triangle with that corner
    int32_t* stack;
    int32_t* border;  // (triangle outside, its side): edges of the gap
    int32_t* free;
    uint8_t* flat;     // for each triangle: bit i if the edge opposite to corner i is flat
    uint8_t* n_edges;  // for each form: edges that are not flat, up to 3
    int32_t* face;     // for each triangle: its face
    int32_t n_triangles, n_free, n_inserted;
    int32_t hint;
    uint32_t random;
};

inline Envelope take_envelope(LiftedForms forms, Arena& arena) {
    Envelope e{};
    take_lifted(forms, arena);
    e.forms = forms;
    // V corners and infinity have 2 V - 2 triangles.
    const size_t n = static_cast<size_t>(forms.n), m = 2 * n + 8;
    e.triangles = arena.take<HullTriangle>(m);
    e.mark = arena.take<int32_t>(m);
    e.first = arena.take<int32_t>(n);
    e.around = arena.take<int32_t>(n + 1);
    e.stack = arena.take<int32_t>(m);
    e.border = arena.take<int32_t>(2 * m);
    e.free = arena.take<int32_t>(m);
    e.flat = arena.take<uint8_t>(m);
    e.n_edges = arena.take<uint8_t>(n + 1);
    e.face = arena.take<int32_t>(m);
    return e;
}

namespace detail {

inline int next(int i) { return i == 2 ? 0 : i + 1; }
inline int before(int i) { return i == 0 ? 2 : i - 1; }

inline int side_of(const HullTriangle& t, int32_t neighbour) {
    return t.neighbour[0] == neighbour ? 0 : t.neighbour[1] == neighbour ? 1 : 2;
}

inline int corner_of(const HullTriangle& t, int32_t corner) {
    return t.corner[0] == corner ? 0 : t.corner[1] == corner ? 1 : 2;
}

inline int far_corner(const HullTriangle& t) {
    for (int i = 0; i < 3; i++)
        if (t.corner[i] == kFar) return i;
    return -1;
}

inline int32_t new_triangle(Envelope& e, int32_t a, int32_t b, int32_t c) {
    const int32_t t = e.n_free > 0 ? e.free[--e.n_free] : e.n_triangles++;
    e.triangles[t] = {{a, b, c}, {-1, -1, -1}};
    e.mark[t] = 0;
    return t;
}

inline bool is_above(const Envelope& e, int32_t t, int32_t p) {
    const HullTriangle& triangle = e.triangles[t];
    const int far = far_corner(triangle);
    const int32_t* corner = triangle.corner;
    if (far < 0) return above(e.forms, corner[0], corner[1], corner[2], p) > 0;
    const int side = turn(e.forms, corner[next(far)], corner[before(far)], p);
    if (side != 0) return side > 0;
    return is_above(e, triangle.neighbour[far], p);
}

// The triangle over or under which the point lies, or one at infinity with the point outside.
inline int32_t locate(Envelope& e, int32_t p) {
    int32_t t = e.hint;
    while (true) {
        const HullTriangle& triangle = e.triangles[t];
        if (far_corner(triangle) >= 0) return t;
        // Sides in random order: among triangles in one plane a fixed order could go round in circles.
        e.random ^= e.random << 13;
        e.random ^= e.random >> 17;
        e.random ^= e.random << 5;
        int i = static_cast<int>(e.random % 3);
        int32_t onwards = -1;
        for (int k = 0; k < 3 && onwards < 0; k++, i = next(i))
            if (turn(e.forms, triangle.corner[next(i)], triangle.corner[before(i)], p) < 0)
                onwards = triangle.neighbour[i];
        if (onwards < 0) return t;
        t = onwards;
    }
}

inline void insert(Envelope& e, int32_t p) {
    const int32_t stamp = ++e.n_inserted;
    const int32_t start = locate(e, p);
    if (!is_above(e, start, p)) {
        e.hint = start;
        for (int32_t corner : e.triangles[start].corner)
            if (are_same(e.forms, corner, p) && p < e.first[corner]) e.first[corner] = p;
        return;
    }
    // All triangles the point is above: they are connected, and the border of the gap is one circle.
    int32_t depth = 0, n_border = 0;
    e.mark[start] = stamp;
    e.stack[depth++] = start;
    while (depth > 0) {
        const int32_t t = e.stack[--depth];
        e.free[e.n_free++] = t;
        for (int32_t other : e.triangles[t].neighbour) {
            if (e.mark[other] == stamp) continue;
            if (e.mark[other] != -stamp) {
                e.mark[other] = is_above(e, other, p) ? stamp : -stamp;
                if (e.mark[other] == stamp) {
                    e.stack[depth++] = other;
                    continue;
                }
            }
            e.border[2 * n_border] = other;
            e.border[2 * n_border + 1] = side_of(e.triangles[other], t);
            n_border++;
        }
    }
    for (int32_t k = 0; k < n_border; k++) {
        const int32_t other = e.border[2 * k];
        const int side = e.border[2 * k + 1];
        const int32_t a = e.triangles[other].corner[before(side)];
        const int32_t b = e.triangles[other].corner[next(side)];
        const int32_t t = new_triangle(e, p, a, b);
        e.triangles[t].neighbour[0] = other;
        e.triangles[other].neighbour[side] = t;
        e.around[a == kFar ? e.forms.n : a] = t;
        e.border[2 * k] = t;
    }
    for (int32_t k = 0; k < n_border; k++) {
        const int32_t t = e.border[2 * k];
        const int32_t b = e.triangles[t].corner[2];
        const int32_t after = e.around[b == kFar ? e.forms.n : b];
        e.triangles[t].neighbour[1] = after;
        e.triangles[after].neighbour[2] = t;
        if (far_corner(e.triangles[t]) < 0) e.hint = t;
    }
}

inline int32_t& around(Envelope& e, int32_t corner) {
    return e.around[corner == kFar ? e.forms.n : corner];
}

inline bool is_flat(const Envelope& e, int32_t t, int side) { return e.flat[t] >> side & 1; }

// Whether two triangles with a common edge, the one opposite to corner i of t, lie in one plane.
inline bool edge_is_flat(const Envelope& e, int32_t t, int i) {
    const HullTriangle& one = e.triangles[t];
    const HullTriangle& other = e.triangles[one.neighbour[i]];
    const int far = far_corner(one), other_far = far_corner(other);
    const int32_t opposite = other.corner[side_of(other, t)];
    if (far < 0 && other_far < 0)
        return above(e.forms, one.corner[0], one.corner[1], one.corner[2], opposite) == 0;
    if (far < 0 || other_far < 0) return false;
    return turn(e.forms, one.corner[next(far)], one.corner[before(far)], opposite) == 0;
}

inline void find_flat_edges(Envelope& e) {
    constexpr int32_t kDead = -2;
    for (int32_t k = 0; k < e.n_free; k++) e.triangles[e.free[k]].corner[0] = kDead;
    for (int32_t v = 0; v <= e.forms.n; v++) e.n_edges[v] = 0, e.around[v] = -1;
    for (int32_t t = 0; t < e.n_triangles; t++) e.flat[t] = 0, e.face[t] = -1;
    for (int32_t t = 0; t < e.n_triangles; t++) {
        const HullTriangle& triangle = e.triangles[t];
        if (triangle.corner[0] == kDead) continue;
        for (int i = 0; i < 3; i++) {
            around(e, triangle.corner[i]) = t;
            const int32_t other = triangle.neighbour[i];
            if (other < t) continue;
            if (edge_is_flat(e, t, i)) {
                e.flat[t] = static_cast<uint8_t>(e.flat[t] | 1 << i);
                e.flat[other] =
                    static_cast<uint8_t>(e.flat[other] | 1 << side_of(e.triangles[other], t));
                continue;
            }
            for (int32_t corner : {triangle.corner[next(i)], triangle.corner[before(i)]}) {
                uint8_t& count = e.n_edges[corner == kFar ? e.forms.n : corner];
                if (count < 3) count++;
            }
        }
    }
}

// The corner at the other end of the edge from corner i of triangle t to the next one, which may
// go on straight through points that are no corners of the hull.
inline int32_t end_of_edge(const Envelope& e, int32_t t, int i) {
    int32_t b = e.triangles[t].corner[next(i)];
    while (e.n_edges[b] < 3) {
        // Around b, from the edge it was reached by to its other one.
        const auto turn_left = [&] {
            t = e.triangles[t].neighbour[next(corner_of(e.triangles[t], b))];
            return corner_of(e.triangles[t], b);
        };
        int k = turn_left();
        do k = turn_left();
        while (is_flat(e, t, before(k)));
        b = e.triangles[t].corner[next(k)];
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
            const int32_t other = e.triangles[t].neighbour[i];
            if (!is_flat(e, t, i) || e.face[other] == number) continue;
            e.face[other] = number;
            e.stack[depth++] = other;
        }
    }
}

}  // namespace detail

// Begin with three forms whose slopes are not on a line, the first ones of `order`, and move them to
// the front; False if there are none.
inline bool begin(Envelope& e, int32_t* order) {
    const int32_t n = e.forms.n;
    for (int32_t v = 0; v < n; v++) e.first[v] = v;
    e.n_triangles = e.n_free = 0;
    e.n_inserted = 0;
    e.random = 1;
    const auto move_to = [&](int32_t place, int32_t k) {
        const int32_t v = order[k];
        for (; k > place; k--) order[k] = order[k - 1];
        order[place] = v;
    };
    int32_t k = 1;
    while (k < n && are_equal(detail::slope_of(e.forms, order[0], 0),
                              detail::slope_of(e.forms, order[k], 0), 2 * e.forms.slope_limbs))
        k++;
    if (k >= n) return false;
    move_to(1, k);
    k = 2;
    while (k < n && turn(e.forms, order[0], order[1], order[k]) == 0) k++;
    if (k >= n) return false;
    move_to(2, k);
    const bool left = turn(e.forms, order[0], order[1], order[2]) > 0;
    const int32_t a = order[0], b = order[left ? 1 : 2], c = order[left ? 2 : 1];
    const int32_t t = detail::new_triangle(e, a, b, c);
    const int32_t opposite[3] = {detail::new_triangle(e, c, b, kFar),
                                 detail::new_triangle(e, a, c, kFar),
                                 detail::new_triangle(e, b, a, kFar)};
    for (int i = 0; i < 3; i++) {
        e.triangles[t].neighbour[i] = opposite[i];
        HullTriangle& far = e.triangles[opposite[i]];
        far.neighbour[2] = t;
        // (c, b, far): across (b, far) lies the triangle of a b, across (far, c) that of a c.
        far.neighbour[0] = opposite[detail::before(i)];
        far.neighbour[1] = opposite[detail::next(i)];
    }
    e.hint = t;
    return true;
}

// Insert some of the forms in `order`, after `begin`.
inline void insert(Envelope& e, const int32_t* order, int32_t n) {
    for (int32_t k = 0; k < n; k++) detail::insert(e, order[k]);
}

// What is known of the diagram, for the caller to hold: the winners, ascending; the neighbours of each
// one, counter-clockwise, and after each the vertex where its wall ends, -1 at infinity; for each
// vertex three of the forms that are equal there. A bounded cell begins with its least neighbour, an
// unbounded one after its gap; vertices are numbered as they first occur.
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
    const int32_t n = e.forms.n;
    // Winners under the names of the first forms that are the same.
    for (int32_t v = 0; v < n; v++) e.stack[v] = -1;
    for (int32_t v = 0; v < n; v++)
        if (e.n_edges[v] >= 3) e.stack[e.first[v]] = v;
    int32_t n_sites = 0;
    for (int32_t name = 0; name < n; name++) {
        if (e.stack[name] < 0) continue;
        e.border[n_sites] = e.stack[name];
        cells.sites[n_sites++] = name;
    }
    cells.n_sites = n_sites;
    cells.n_vertices = 0;
    int32_t used = 0;
    int32_t* const found = e.mark;  // triangles around one winner
    for (int32_t s = 0; s < n_sites; s++) {
        cells.starts[s] = used;
        const int32_t v = e.border[s], begin = e.around[v];
        int32_t* const names = cells.neighbours + used;
        int32_t length = 0, least = 0, gap = -1;
        int32_t t = begin;
        do {
            const HullTriangle& triangle = e.triangles[t];
            const int i = corner_of(triangle, v);
            if (triangle.corner[next(i)] != kFar && !is_flat(e, t, before(i))) {
                found[length] = t;
                names[length] = e.first[end_of_edge(e, t, i)];
                if (names[length] < names[least]) least = length;
                if (far_corner(triangle) >= 0) gap = length;
                length++;
            }
            t = triangle.neighbour[next(i)];
        } while (t != begin);
        // Begin where it should.
        const int32_t origin = gap >= 0 ? (gap + 1) % length : least;
        int32_t* const turned = e.border + n_sites;
        for (int32_t k = 0; k < length; k++) turned[k] = names[(origin + k) % length];
        for (int32_t k = 0; k < length; k++) {
            names[k] = turned[k];
            t = found[(origin + k) % length];
            const bool is_far = far_corner(e.triangles[t]) >= 0;
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
