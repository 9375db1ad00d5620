// Convex polygons identified by the lines of their edges; signs of forms at their vertices; cuts.
//
// Edge i lies on a line l_i = 0 with l_i >= 0 inside. Vertex i is the intersection of edges i - 1
// and i, in counter-clockwise order. The radius of a vertex is computed from its two lines alone:
// with the true lines l* and a computed point v, the true vertex v* satisfies M* (v - v*) = l*(v),
// hence
//
//     |v - v*|_inf <= rho = ((|b| + r_b) R_a + (|a| + r_a) R_b) / (|det M| - delta),
//
// where delta bounds the error of the determinant and R_a bounds |l_a*(v)| by the residual, its
// rounding error and the radius of the line. The sign of a form at v* is accepted only if its
// computed value exceeds e(v) +
// g|_1 rho plus the rounding error of that value.
//
// A line may lie at infinity: c = c_0 + c_1 M with a formal M -> infinity. Vertices then have the
// form p + M d, and a form is positive there if <a, d> > 0, or if <a, d> = 0 and <a, p> + c > 0.
//
// Signs that the filter leaves open are decided by expansions if the form and both lines are exact:
// the value is det(g, l_{i-1}, l_i) / det M, and det M > 0 at a vertex of a convex polygon.
#pragma once
#include "determinants.hpp"
#include "signs.hpp"

namespace hardmax {

using Line = Form<2>;

// The point (x, y) + M (dx, dy), known up to rho and far_rho. A radius of 0 means that it is exact.
struct Vertex {
    double x, y, rho;
    double dx, dy, far_rho;
    Marks marks = {};
    bool is_far() const { return dx != 0.0 || dy != 0.0; }
    bool is_origin() const { return x == 0.0 && y == 0.0 && rho == 0.0 && !is_far(); }
};

struct Edge {
    Line line;
    double far_offset;  // c_1 above
    Vertex start;
    Wall wall;
    int mark;     // scratch of `walks.hpp`
    bool is_new;  // created by the current split
    bool is_met;  // the start was computed from the current versions of the preceding line and this
                  // one
};

// A polygon in the form that `groups.hpp` requires.
struct Polygon {
    static constexpr int dim = 2;
    const Edge* edges;
    int n;
    bool may_be_far = true;  // whether any vertex may lie at infinity

    const Vertex& at(int i) const { return edges[i].start; }
    double x(int i, int k) const { return k == 0 ? at(i).x : at(i).y; }
    double d(int i, int k) const { return k == 0 ? at(i).dx : at(i).dy; }
    double rho(int i) const { return at(i).rho; }
    double far_rho(int i) const { return at(i).far_rho; }
    bool is_far(int i) const { return may_be_far && at(i).is_far(); }
    bool has_far() const { return may_be_far; }
    // The edge that ends where edge i starts.
    const Edge& before(int i) const { return edges[i > 0 ? i - 1 : n - 1]; }
};

// Forms of a layer that are known to vanish together, or to be parallel (see `rays.hpp`).
struct Pencils {
    // The layer whose forms all vanish where two of its lines cross or, for rank 1, on one of its
    // lines.
    int pencil = -1, pencil_rank = 2;
    // The same for the differences of a group's forms.
    int pencil_group_layer = -1, pencil_group = -1, pencil_group_rank = 2;
    std::int64_t ray_layer = kNoRay;
    int ray_unit_layer = -1, ray_unit = -1;
    bool is_homogeneous = false;

    // Whether all forms of the layer, or all differences of the group, vanish at a vertex.
    bool meets(const Edge& before, const Edge& at) const {
        const auto is_in_group = [&](const Wall& wall) {
            return wall.layer == pencil_group_layer && wall.group == pencil_group;
        };
        if (pencil >= 0 && (before.wall.layer == pencil) + (at.wall.layer == pencil) >= pencil_rank)
            return true;
        return pencil_group >= 0 &&
               is_in_group(before.wall) + is_in_group(at.wall) >= pencil_group_rank;
    }
    bool is_parallel(const Wall& wall) const {
        return wall.layer >= ray_layer ||
               (wall.layer == ray_unit_layer && wall.group == ray_unit && ray_unit_layer >= 0);
    }
    bool all_vanish(const Polygon& polygon, int i) const {
        return (is_homogeneous && polygon.at(i).is_origin()) ||
               meets(polygon.before(i), polygon.edges[i]);
    }
    // Whether an edge at a vertex is parallel to the lines of the layer.
    bool is_parallel(const Edge& before, const Edge& at) const {
        return is_parallel(before.wall) || is_parallel(at.wall);
    }
};

// The sign of a form at a finite vertex, or 0 if rounding errors could have changed it.
inline int filtered_sign(const Line& g, const Vertex& v) {
    const double p1 = g.a[0] * v.x, p2 = g.a[1] * v.y;
    const double value = p1 + p2 + g.c;
    double error = kKappa * (magnitude(p1) + magnitude(p2) + magnitude(g.c)) +
                   g.slope_radius * (magnitude(v.x) + magnitude(v.y)) + g.offset_radius;
    error = (error + (magnitude(g.a[0]) + magnitude(g.a[1]) + 2.0 * g.slope_radius) * v.rho) * kUp +
            kTiny;
    return value > error ? 1 : value < -error ? -1 : 0;
}

inline int exact_sign(const Edge& before, const Edge& at, const Line& g, SignCounts& counts) {
    counts.n_filtered--;
    if (!g.is_exact() || !before.line.is_exact() || !at.line.is_exact()) return kUndecided;
    Triple form{g.a[0], g.a[1], g.c};
    Triple one{before.line.a[0], before.line.a[1], before.line.c};
    Triple other{at.line.a[0], at.line.a[1], at.line.c};
    if (!normalise(form) || !normalise(one) || !normalise(other)) return kUndecided;
    counts.n_expanded++;
    if (before.far_offset != 0.0 || at.far_offset != 0.0) {
        // Lines at infinity have slopes and far offsets 0, 1 or -1, which normalization does not
        // change.
        const int sign = determinant_sign({form.a, form.b, 0.0}, {one.a, one.b, before.far_offset},
                                          {other.a, other.b, at.far_offset});
        if (sign != 0) return sign;
    }
    return determinant_sign(form, one, other);
}

// The sign of a form at the start of an edge, or kUndecided.
inline int sign_at(const Edge& before, const Edge& at, const Line& g, const Pencils& pencils,
                   SignCounts& counts) {
    const Vertex& v = at.start;
    counts.n_filtered++;
    if (v.is_far()) {
        const double value = g.a[0] * v.dx + g.a[1] * v.dy,
                     slopes = magnitude(g.a[0]) + magnitude(g.a[1]);
        const double error =
            (slopes * (kKappa + v.far_rho) + 2.0 * g.slope_radius * (1.0 + v.far_rho)) * kUp +
            kTiny;
        if (value > error) return 1;
        if (value < -error) return -1;
        if (pencils.meets(before, at)) return 0;
        const bool is_constant = slopes == 0.0 && g.slope_radius == 0.0;
        if (!is_constant && !pencils.is_parallel(before, at))
            return exact_sign(before, at, g, counts);
    }
    const int sign = filtered_sign(g, v);
    if (sign != 0) return sign;
    if (g.c == 0.0 && g.offset_radius == 0.0) {
        if (g.a[0] == 0.0 && g.a[1] == 0.0 && g.slope_radius == 0.0) return 0;
        if (v.x == 0.0 && v.y == 0.0 && v.rho == 0.0) return 0;
        if (pencils.is_homogeneous && pencils.is_parallel(before, at)) return 0;
    }
    if (pencils.meets(before, at)) return 0;
    return exact_sign(before, at, g, counts);
}

// Whether two walls of one region lie on the same line: the same two forms are equal there.
inline bool are_on_one_line(const Wall& one, const Wall& other) {
    if (one.layer < 0 || one.layer != other.layer || one.group != other.group) return false;
    return (one.winner == other.winner && one.rival == other.rival) ||
           (one.winner == other.rival && one.rival == other.winner);
}

// The sign of the form of a wall at the start of an edge, or kUndecided. If another search has cut
// the part, the forms of its own edges are evaluated again; they vanish there.
inline int sign_at(const Edge& before, const Edge& at, const Line& g, const Wall& wall,
                   const Pencils& pencils, SignCounts& counts) {
    const int sign = sign_at(before, at, g, pencils, counts);
    if (sign != kUndecided) return sign;
    const bool is_on_it = are_on_one_line(before.wall, wall) || are_on_one_line(at.wall, wall);
    return is_on_it ? 0 : kUndecided;
}

namespace detail {

// Bound the value of the true line at a point.
inline double residual(const Line& line, double c, double offset_radius, double x, double y) {
    const double p1 = line.a[0] * x, p2 = line.a[1] * y;
    const double error = magnitude(p1 + p2 + c) +
                         kKappa * (magnitude(p1) + magnitude(p2) + magnitude(c)) +
                         line.slope_radius * (magnitude(x) + magnitude(y)) + offset_radius;
    return error * kUp + kTiny;
}

}  // namespace detail

// Compute the intersection of two lines. Quotients and products may underflow. Therefore each bound
// includes kTiny, and a radius is 0 only if both lines pass through the origin exactly.
inline Vertex meet(const Edge& one, const Edge& other) {
    const Line &a = one.line, &b = other.line;
    const double det = a.a[0] * b.a[1] - a.a[1] * b.a[0];
    double error = kKappa * (magnitude(a.a[0] * b.a[1]) + magnitude(a.a[1] * b.a[0])) +
                   a.slope_radius * (magnitude(b.a[0]) + magnitude(b.a[1]));
    error += b.slope_radius * (magnitude(a.a[0]) + magnitude(a.a[1])) +
             2.0 * a.slope_radius * b.slope_radius;
    const double least = magnitude(det) - (error * kUp + kTiny);
    const bool is_far = one.far_offset != 0.0 || other.far_offset != 0.0;
    if (!(least > 0.0)) return {0.0, 0.0, kInfinity, is_far ? 1.0 : 0.0, 0.0, kInfinity};
    const double first =
        (larger(magnitude(b.a[0]), magnitude(b.a[1])) + b.slope_radius) / least * kUp + kTiny;
    const double second =
        (larger(magnitude(a.a[0]), magnitude(a.a[1])) + a.slope_radius) / least * kUp + kTiny;
    Vertex v{0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
    const auto solve = [&](double c, double c_radius, double d, double d_radius, double& x,
                           double& y, double& rho) {
        if (c == 0.0 && d == 0.0 && c_radius == 0.0 && d_radius == 0.0) return;
        x = (a.a[1] * d - c * b.a[1]) / det;
        y = (c * b.a[0] - a.a[0] * d) / det;
        rho = (first * detail::residual(a, c, c_radius, x, y) +
               second * detail::residual(b, d, d_radius, x, y)) *
                  kUp +
              kTiny;
    };
    solve(a.c, a.offset_radius, b.c, b.offset_radius, v.x, v.y, v.rho);
    if (is_far) solve(one.far_offset, 0.0, other.far_offset, 0.0, v.dx, v.dy, v.far_rho);
    return v;
}

inline Signs signs_of(const Edge* polygon, int n, const Line& g, const Wall& wall,
                      const Pencils& pencils, std::int8_t* signs, SignCounts& counts) {
    Signs found{0, 0};
    for (int i = 0; i < n; i++) {
        int sign = polygon[i].start.is_far() ? 0 : filtered_sign(g, polygon[i].start);
        if (sign != 0) {
            counts.n_filtered++;
        } else {
            sign = sign_at(polygon[i > 0 ? i - 1 : n - 1], polygon[i], g, wall, pencils, counts);
            if (sign == kUndecided) return {-1, i};
        }
        signs[i] = static_cast<std::int8_t>(sign);
        found.n_positive += sign > 0;
        found.n_negative += sign < 0;
    }
    return found;
}

// Write the part of a polygon where a form has the sign `side`. Return its number of edges.
//
// The signs alone determine the cut, and no coordinates are compared. Both sides keep a vertex on
// the line, which is then redefined by the line. There are vertices strictly on both sides, so
// every edge keeps a positive length. The new edge is the last one. `twin`, if given, is the other
// part, with `n_twin` edges; it has the same new vertices.
inline int cut(const Edge* polygon, int n, const std::int8_t* signs, int side, const Line& g,
               const Wall& wall, Edge* to, const Edge* twin, int n_twin) {
    int first = 0;
    while (!(signs[first] * side > 0 && signs[first > 0 ? first - 1 : n - 1] * side <= 0)) first++;
    const int entry = first > 0 ? first - 1 : n - 1;
    Edge* out = to;
    *out++ = polygon[entry];
    int i = first;
    while (signs[i] * side > 0) {
        *out++ = polygon[i];
        i = i + 1 < n ? i + 1 : 0;
    }
    out->line = side > 0 ? g : opposite(g);
    out->far_offset = 0.0;
    out->wall = wall;
    out->mark = to->mark = 0;
    out->is_new = true;
    // A vertex on the line belongs to both parts and is not computed again, although one of its
    // lines is new.
    out->is_met = signs[i] != 0;
    to->is_met = signs[entry] != 0;
    if (n_twin > 0) {
        out->start = twin->start;
        to->start = twin[n_twin - 1].start;
    } else {
        out->start = signs[i] == 0 ? polygon[i].start : meet(out[-1], *out);
        if (signs[entry] != 0) to->start = meet(*out, *to);
    }
    return static_cast<int>(out - to) + 1;
}

}  // namespace hardmax
