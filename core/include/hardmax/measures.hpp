// Measures of planar cells: area, a point inside, and a largest ball, each with a proof.
#pragma once
#include "retracing.hpp"

namespace hardmax {

// Bound on the relative error of stored volumes and balls.
constexpr double kMeasured = 0x1p-20;

enum Measure { kVolume = 1, kWitness = 2, kBall = 4 };

struct Measured {
    double volume, volume_radius;
    double x, y;                        // a point inside
    double centre_x, centre_y, radius;  // a ball inside
};

namespace detail {

inline bool is_unbounded(const Edge* polygon, int n) {
    for (int i = 0; i < n; i++)
        if (polygon[i].far_offset != 0.0) return true;
    return false;
}

// The value of a line at a point, and a bound on its difference from the value of the true line.
struct Value {
    double value, error;
};

inline Value value_at(const Line& line, double x, double y) {
    const double p1 = line.a[0] * x, p2 = line.a[1] * y;
    const double error = kKappa * (magnitude(p1) + magnitude(p2) + magnitude(line.c)) +
                         line.slope_radius * (magnitude(x) + magnitude(y)) + line.offset_radius;
    return {p1 + p2 + line.c, error * kUp + kTiny};
}

inline bool is_inside(const Edge* polygon, int n, double x, double y) {
    for (int i = 0; i < n; i++) {
        if (polygon[i].far_offset != 0.0) continue;
        const Value at = value_at(polygon[i].line, x, y);
        if (!(at.value > at.error)) return false;
    }
    return true;
}

// The mean of the vertices; for vertices at infinity, the given M replaces the formal one.
inline void middle(const Edge* polygon, int n, double M, double& x, double& y) {
    const Vertex& first = polygon[0].start;
    double sx = 0.0, sy = 0.0;
    for (int i = 0; i < n; i++) {
        const Vertex& v = polygon[i].start;
        sx += (v.x - first.x) + M * v.dx, sy += (v.y - first.y) + M * v.dy;
    }
    x = first.x + sx / n, y = first.y + sy / n;
}

}  // namespace detail

// The area. If the error of vertex v_i is at most rho_i in each coordinate, the error of twice the
// area of the polygon of the v_i is at most
//
//     sum_i rho_i |v_{i+1} - v_{i-1}|_1 + 2 sum_i rho_i rho_{i+1},
//
// because the area is bilinear: for moves d_i, it changes by sum_i cross(d_i, v_{i+1} - v_{i-1}) +
// sum_i cross(d_i, d_{i+1}). The area is summed from triangles at v_0. Including the differences,
// the products and their difference, each of the n terms |p| + |q| is rounded at most n + 4 times.
inline bool find_volume(const Edge* polygon, int n, Measured& found) {
    if (detail::is_unbounded(polygon, n)) {
        found.volume = kInfinity, found.volume_radius = 0.0;
        return true;
    }
    const Vertex& origin = polygon[0].start;
    double doubled = 0.0, size = 0.0, moved = 0.0;
    for (int i = 0; i < n; i++) {
        const Vertex &before = polygon[i > 0 ? i - 1 : n - 1].start, &at = polygon[i].start,
                     &after = polygon[i + 1 < n ? i + 1 : 0].start;
        const double p = (at.x - origin.x) * (after.y - origin.y),
                     q = (at.y - origin.y) * (after.x - origin.x);
        doubled += p - q;
        size += magnitude(p) + magnitude(q);
        moved += at.rho *
                 (magnitude(after.x - before.x) + magnitude(after.y - before.y) + 2.0 * after.rho);
    }
    found.volume = 0.5 * doubled;
    // Rounding reduces sums of n bounds by at most n u relative.
    const double up = kUp + 2.0 * n * kU;
    found.volume_radius = 0.5 * (2.0 * (n + 8) * kU * size + moved) * up + kTiny;
    return found.volume < kInfinity && found.volume_radius <= kMeasured * found.volume;
}

// A point at which all lines of the cell are certainly positive.
inline bool find_witness(const Edge* polygon, int n, double& x, double& y) {
    if (!detail::is_unbounded(polygon, n)) {
        detail::middle(polygon, n, 0.0, x, y);
        return detail::is_inside(polygon, n, x, y);
    }
    double size = 0.0;
    for (int i = 0; i < n; i++)
        size = larger(size, larger(magnitude(polygon[i].start.x), magnitude(polygon[i].start.y)));
    size = size == 0.0 ? 1.0 : 2.0 * size;
    for (int exponent : {0, 6, 12, 24, 48}) {
        detail::middle(polygon, n, size * power_of_two(exponent), x, y);
        if (detail::is_inside(polygon, n, x, y)) return true;
    }
    return false;
}

namespace detail {

// An edge of a shrinking polygon: all lines move inwards at speed 1.
struct Side {
    double nx, ny, distance;  // unit normal, and distance from the origin
    int before, after;
    double end;  // time at which it vanishes
};

inline double cross(const Side& a, const Side& b) { return a.nx * b.ny - a.ny * b.nx; }

// The three numbers with sum_i lambda_i n_i = 0 for three sides in order.
struct Balance {
    double a, b, c;
    double total() const { return a + b + c; }
};

inline Balance balance(const Side& a, const Side& b, const Side& c) {
    return {cross(b, c), cross(c, a), cross(a, b)};
}

// The time at which a side vanishes: three lines then meet in a point.
inline double end_of(const Side* sides, int i) {
    const Side &b = sides[i], &a = sides[b.before], &c = sides[b.after];
    const Balance l = balance(a, b, c);
    const double total = l.total();
    return total > 0.0 ? (l.a * a.distance + l.b * b.distance + l.c * c.distance) / total
                       : kInfinity;
}

// Whether balls of every size fit into an unbounded cell: it is unbounded in two directions that
// are not parallel. The error of a cross product of directions, each at most 1 and known up to
// far_rho, is at most 2 (rho + rho') (1 + rho) plus two roundings.
inline bool is_wide(const Edge* polygon, int n) {
    for (int i = 0; i < n; i++) {
        const Vertex& v = polygon[i].start;
        for (int j = 0; j < i && v.is_far(); j++) {
            const Vertex& w = polygon[j].start;
            const double area = v.dx * w.dy - v.dy * w.dx;
            if (w.is_far() && magnitude(area) > 4.0 * (v.far_rho + w.far_rho) + kKappa)
                return v.far_rho < 0.5 && w.far_rho < 0.5;
        }
    }
    return false;
}

}  // namespace detail

// A largest ball, given a point w = (x, y) inside.
//
// Move the lines inwards. Edges vanish one by one until the polygon is a point, where three lines
// a, b, c meet whose normals balance: sum_i lambda_i n_i = 0 with lambda >= 0. The ball is found in
// this way, but the returned bounds are proven from the lines. The lower bound is the minimum
// distance of the centre from the lines. For the upper bound, let a ball of radius r at w + z lie
// in the cell. Then for any lambda >= 0,
//
//     r sum_i lambda_i <= sum_i lambda_i (<n_i, z> + dist_i(w)) <= |sum_i lambda_i n_i| |z| + sum_i lambda_i dist_i(w),
//
// and |z| is at most the distance of w from a vertex. `sides` is scratch for n sides.
inline bool find_ball(const Edge* polygon, int n, double x, double y, detail::Side* sides,
                      Measured& found) {
    if (detail::is_unbounded(polygon, n)) {
        found.centre_x = x, found.centre_y = y, found.radius = kInfinity;
        return detail::is_wide(polygon, n);
    }
    for (int i = 0; i < n; i++) {
        const Line& line = polygon[i].line;
        const double norm = std::sqrt(line.a[0] * line.a[0] + line.a[1] * line.a[1]);
        sides[i] = {
            line.a[0] / norm,      line.a[1] / norm,      detail::value_at(line, x, y).value / norm,
            i > 0 ? i - 1 : n - 1, i + 1 < n ? i + 1 : 0, 0.0};
    }
    for (int i = 0; i < n; i++) sides[i].end = detail::end_of(sides, i);
    int last = 0;
    for (int n_left = n, start = 0; n_left >= 3; n_left--) {
        last = start;
        for (int k = 0, i = start; k < n_left; k++, i = sides[i].after)
            if (sides[i].end < sides[last].end) last = i;
        const detail::Side& gone = sides[last];
        if (n_left == 3 || detail::cross(sides[gone.after], sides[gone.before]) >= 0.0) break;
        start = gone.after;
        sides[gone.before].after = gone.after, sides[gone.after].before = gone.before;
        for (int i : {gone.before, gone.after}) sides[i].end = detail::end_of(sides, i);
    }
    // The centre is the intersection of two of the three moved lines, those that cross at the
    // largest angle.
    const int three[] = {sides[last].before, last, sides[last].after};
    detail::Balance weights = detail::balance(sides[three[0]], sides[three[1]], sides[three[2]]);
    const double lambda[] = {larger(weights.a, 0.0), larger(weights.b, 0.0),
                             larger(weights.c, 0.0)};
    const int apart = weights.a >= weights.b && weights.a >= weights.c ? 0
                      : weights.b >= weights.c                         ? 1
                                                                       : 2;
    const detail::Side &one = sides[three[(apart + 1) % 3]], &other = sides[three[(apart + 2) % 3]];
    const double det = detail::cross(one, other), radius = sides[last].end;
    const double c = radius - one.distance, d = radius - other.distance;
    found.centre_x = x + (c * other.ny - d * one.ny) / det;
    found.centre_y = y + (d * one.nx - c * other.nx) / det;
    // The errors of norms are below 4 u plus the radii of both slopes of the true line.
    double below = kInfinity, reach = 0.0;
    for (int i = 0; i < n; i++) {
        const Line& line = polygon[i].line;
        const Vertex& v = polygon[i].start;
        const double norm = std::sqrt(line.a[0] * line.a[0] + line.a[1] * line.a[1]);
        const detail::Value at = detail::value_at(line, found.centre_x, found.centre_y);
        const double distance = (at.value - at.error) / ((norm + 2.0 * line.slope_radius) * kUp);
        // This is not a minimum, which would lose NaN.
        if (!(distance >= below)) below = distance;
        reach = bound(reach, (magnitude(v.x - x) + magnitude(v.y - y) + 2.0 * v.rho) * kUp);
    }
    double total = 0.0, above = 0.0, nx = 0.0, ny = 0.0, off = 0.0;
    for (int k = 0; k < 3; k++) {
        const Line& line = polygon[three[k]].line;
        const double norm = std::sqrt(line.a[0] * line.a[0] + line.a[1] * line.a[1]);
        const double least = norm - 2.0 * line.slope_radius * kUp;
        if (!(least > 0.5 * norm)) return false;
        const detail::Value at = detail::value_at(line, x, y);
        total += lambda[k];
        above += lambda[k] * ((at.value + at.error) / least * kUp);
        nx += lambda[k] * sides[three[k]].nx, ny += lambda[k] * sides[three[k]].ny;
        // The error of a computed normal is at most the radii of the slopes, twice because of its
        // length, plus a few roundings.
        off += lambda[k] * (8.0 * line.slope_radius / norm + 2.0 * kKappa);
    }
    above = (above + (magnitude(nx) + magnitude(ny) + off) * reach) / total * kUp;
    found.radius = below * (1.0 - 0x1p-40);
    return found.radius > 0.0 && found.radius < kInfinity &&
           above <= found.radius * (1.0 + kMeasured);
}

// Compute the requested quantities for a polygon. Return those left open.
inline int measure(const Edge* polygon, int n, int wanted, detail::Side* sides, Measured& found) {
    if (wanted & kVolume && find_volume(polygon, n, found)) wanted &= ~kVolume;
    double x, y;
    if (!(wanted & (kWitness | kBall)) || !find_witness(polygon, n, x, y)) return wanted;
    if (wanted & kWitness) found.x = x, found.y = y;
    if (wanted & kBall && find_ball(polygon, n, x, y, sides, found)) wanted &= ~kBall;
    return wanted & ~kWitness;
}

// Compute them for the cell that has been entered, with the given walls.
inline int measure(Retracing& at, const std::int32_t* codes, int n, int wanted, detail::Side* sides,
                   Measured& found) {
    if (n < 3 || !is_certain(at)) return wanted;
    read_walls(at, codes, n);
    place_edges(at, n, false);
    wanted = measure(at.polygon, n, wanted, sides, found);
    if (wanted == 0 || at.path.network->n_layers == 0) return wanted;
    place_edges(at, n, true);
    return measure(at.polygon, n, wanted, sides, found);
}

}  // namespace hardmax
