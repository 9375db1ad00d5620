// How large a planar cell is: its volume, a point inside, a largest ball; each with a proof.
#pragma once
#include "retracing.hpp"

namespace hardmax {

// What is written down about a volume or a ball errs by no more than this part of it.
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

// The value of a line at a point, and a bound on how far that of the true line is off.
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

// The mean of the vertices, at infinity with M for the formal one.
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

// The area. With vertices v_i off by at most rho_i in each coordinate, twice the area of the polygon
// of the v_i errs by
//
//     sum_i rho_i |v_{i+1} - v_{i-1}|_1 + 2 sum_i rho_i rho_{i+1},
//
// because the area is bilinear: sum_i cross(d_i, v_{i+1} - v_{i-1}) + sum_i cross(d_i, d_{i+1}) for
// moves d_i. It is summed up from triangles at v_0: with the differences, the products and their
// difference each of the n terms |p| + |q| is rounded at most n + 4 times.
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
    // Sums of n bounds lose at most n u of them.
    const double up = kUp + 2.0 * n * kU;
    found.volume_radius = 0.5 * (2.0 * (n + 8) * kU * size + moved) * up + kTiny;
    return found.volume < kInfinity && found.volume_radius <= kMeasured * found.volume;
}

// A point where all lines of the cell are surely positive.
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

// An edge of a polygon that shrinks: all lines move inwards at the speed 1.
struct Side {
    double nx, ny, distance;  // its unit normal, and how far it is from the origin
    int before, after;
    double end;  // when it vanishes
};

inline double cross(const Side& a, const Side& b) { return a.nx * b.ny - a.ny * b.nx; }

// The three numbers with sum_i lambda_i n_i = 0, of three sides in order.
struct Balance {
    double a, b, c;
    double total() const { return a + b + c; }
};

inline Balance balance(const Side& a, const Side& b, const Side& c) {
    return {cross(b, c), cross(c, a), cross(a, b)};
}

// When a side vanishes: the three lines then meet in a point.
inline double end_of(const Side* sides, int i) {
    const Side &b = sides[i], &a = sides[b.before], &c = sides[b.after];
    const Balance l = balance(a, b, c);
    const double total = l.total();
    return total > 0.0 ? (l.a * a.distance + l.b * b.distance + l.c * c.distance) / total
                       : kInfinity;
}

// Whether balls of every size fit into an unbounded cell: it goes on in two directions that are not
// parallel. A cross product of directions, each at most 1 and known up to far_rho, errs by at most
// 2 (rho + rho') (1 + rho) and two roundings.
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
// Let the lines move inwards: edges vanish one by one, until three lines a, b, c meet whose normals
// hold each other in balance, sum_i lambda_i n_i = 0 with lambda >= 0, and the polygon is a point.
// That is how the ball is found; what is returned is proven from the lines. Below, the distances of
// its centre from all lines. Above, for a ball of radius r at w + z in the cell and any lambda >= 0,
//
//     r sum_i lambda_i <= sum_i lambda_i (<n_i, z> + dist_i(w)) <= |sum_i lambda_i n_i| |z| + sum_i lambda_i dist_i(w),
//
// and |z| is at most the distance of w from a vertex. `sides` is scratch for n of them.
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
    // Its centre is where two of the three lines, the ones that cross most, have moved to.
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
    // Norms err by less than 4 u, and by both slopes of the true line.
    double below = kInfinity, reach = 0.0;
    for (int i = 0; i < n; i++) {
        const Line& line = polygon[i].line;
        const Vertex& v = polygon[i].start;
        const double norm = std::sqrt(line.a[0] * line.a[0] + line.a[1] * line.a[1]);
        const detail::Value at = detail::value_at(line, found.centre_x, found.centre_y);
        const double distance = (at.value - at.error) / ((norm + 2.0 * line.slope_radius) * kUp);
        // Not a minimum, which would lose what is not a number.
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
        // A computed normal is off by the slopes' radii, twice for its length, and some roundings.
        off += lambda[k] * (8.0 * line.slope_radius / norm + 2.0 * kKappa);
    }
    above = (above + (magnitude(nx) + magnitude(ny) + off) * reach) / total * kUp;
    found.radius = below * (1.0 - 0x1p-40);
    return found.radius > 0.0 && found.radius < kInfinity &&
           above <= found.radius * (1.0 + kMeasured);
}

// Answer the wanted questions about a polygon; return those left open.
inline int measure(const Edge* polygon, int n, int wanted, detail::Side* sides, Measured& found) {
    if (wanted & kVolume && find_volume(polygon, n, found)) wanted &= ~kVolume;
    double x, y;
    if (!(wanted & (kWitness | kBall)) || !find_witness(polygon, n, x, y)) return wanted;
    if (wanted & kWitness) found.x = x, found.y = y;
    if (wanted & kBall && find_ball(polygon, n, x, y, sides, found)) wanted &= ~kBall;
    return wanted & ~kWitness;
}

// Answer them about the cell that has been entered, with these walls.
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
