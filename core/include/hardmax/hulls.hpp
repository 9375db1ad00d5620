// Vertices and edges of the convex hull of one point set.
//
// A candidate is compared only with the vertices or edges found so far [Cla94]. The result is
// either that it is not a vertex (not an edge), or a direction that shows a new one. Each call of a
// search processes some candidates; the state of the search is in the caller's memory.
#pragma once
#include <cstdint>

#include "hardmax/nearest.hpp"
#include "hardmax/orientation.hpp"

namespace hardmax {

namespace detail {

// Write the difference of two points, scaled to a largest entry of one.
inline void difference_of(const double* one, const double* other, int dim, double* row) {
    double largest = 0.0;
    for (int t = 0; t < dim; ++t) {
        row[t] = one[t] - other[t];
        largest = larger(largest, magnitude(row[t]));
    }
    for (int t = 0; t < dim; ++t) row[t] /= largest;
}

// Scale a vector to length one and multiply it by `sign`; zero stays zero.
inline void to_unit(double* row, int dim, double sign = 1.0) {
    double square = 0.0;
    for (int t = 0; t < dim; ++t) square += row[t] * row[t];
    if (!(square > 0.0)) return;
    const double scale = sign / __builtin_sqrt(square);
    for (int t = 0; t < dim; ++t) row[t] *= scale;
}

// Write the unit vector from one point to another; zero if they coincide.
inline void unit_between(const double* from, const double* to, int dim, double* row) {
    for (int t = 0; t < dim; ++t) row[t] = to[t] - from[t];
    to_unit(row, dim);
}

inline void scale_to_largest_one(double* row, int dim) {
    double largest = 0.0;
    for (int t = 0; t < dim; ++t) largest = larger(largest, magnitude(row[t]));
    for (int t = 0; largest > 0.0 && t < dim; ++t) row[t] /= largest;
}

// The point with the largest computed score, excluding one; -1 if there is none.
inline std::int64_t leader(const double* points, std::int64_t n, int dim, const double* direction,
                           std::int64_t left_out) {
    double best = -kInfinity;
    std::int64_t found = -1;
    for (std::int64_t j = 0; j < n; ++j) {
        if (j == left_out) continue;
        const double score = dot(points + j * dim, direction, dim);
        if (score > best || found < 0) {
            best = score;
            found = j;
        }
    }
    return found;
}

}  // namespace detail

// --- Candidates for vertices, in floats; callers prove each one
// -----------------------------------

struct CandidateSearch {
    const double* points;  // (n_points, dim), well conditioned and centred about the origin
    const double* rays;    // (n_rays, dim): unit vectors on which directions must be positive
    std::int64_t n_points, n_rays;
    int dim;
    double quality;
    std::int64_t n_known;
    std::int64_t* known;     // points to compare with
    std::uint8_t* is_known;  // the same as a mask
    double* rows;            // (n_points + n_rays, dim)
    std::int64_t* owners;    // the owners of the rows: a point, or n_points + ray
    NearestPoint nearest;
};

inline void lay_out(CandidateSearch& s, Arena& arena, std::int64_t n_points, std::int64_t n_rays,
                    int dim) {
    const std::size_t n = static_cast<std::size_t>(n_points + n_rays);
    s.n_points = n_points;
    s.n_rays = n_rays;
    s.dim = dim;
    s.known = arena.take<std::int64_t>(n);
    s.is_known = arena.take<std::uint8_t>(n);
    s.rows = arena.take<double>(n * static_cast<std::size_t>(dim));
    s.owners = arena.take<std::int64_t>(n);
    lay_out(s.nearest, arena, dim);
}

// Find a direction in which a target appears to win, or points between which it appears to lie:
// `nearest` contains the support, as rows, and the direction. Points found on the way become known.
inline Separation find_candidate(CandidateSearch& s, std::int64_t target) {
    const int dim = s.dim;
    const double* own = s.points + target * dim;
    std::int64_t n_rows = 0;
    const auto put = [&](std::int64_t other) {
        detail::unit_between(s.points + other * dim, own, dim, s.rows + n_rows * dim);
        s.owners[n_rows++] = other;
    };
    for (; n_rows < s.n_rays; ++n_rows) {
        for (int t = 0; t < dim; ++t) s.rows[n_rows * dim + t] = s.rays[n_rows * dim + t];
        s.owners[n_rows] = s.n_points + n_rows;
    }
    for (std::int64_t k = 0; k < s.n_known; ++k)
        if (s.known[k] != target) put(s.known[k]);
    double* direction = s.nearest.point;
    for (int t = 0; t < dim; ++t) direction[t] = own[t];
    s.nearest.n_active = 0;
    for (int round = 0; round < 20 * (dim + 2); ++round) {
        if (n_rows > 0) {
            const Separation answer =
                find_nearest(s.nearest, {s.rows, n_rows, s.nearest.n_active, s.quality});
            if (answer != kSeparated) return answer;
        }
        const std::int64_t best = detail::leader(s.points, s.n_points, dim, direction, target);
        const double score = detail::dot(own, direction, dim);
        if (best < 0 || detail::dot(s.points + best * dim, direction, dim) < score)
            return kSeparated;
        if (s.is_known[best]) return kUndecided;
        s.known[s.n_known++] = best;
        s.is_known[best] = 1;
        put(best);
    }
    return kUndecided;
}

// --- Vertices, proved -----------------------------------------------------------------------------

enum Verdict {
    kUnseen = -2,
    kOpen = -1,  // rounding errors stopped the search
    kNo = 0,
    kYes = 1,
    kClaimed = 2  // no, provided that the origin lies in the hull of the support, which must be
                  // proved exactly
};

// Buffers for inverting one simplex after the other.
struct Simplex {
    double* rows;  // (dim + 1, dim)
    const double** columns;
    double* matrix;
    Inverse inverse;
};

inline void lay_out(Simplex& s, Arena& arena, int dim) {
    const std::size_t n = static_cast<std::size_t>(dim);
    s.rows = arena.take<double>((n + 1) * n);
    s.columns = arena.take<const double*>(n + 1);
    s.matrix = arena.take<double>(n * n);
    s.inverse.entries = arena.take<double>(n * n);
    for (int i = 0; arena.base && i <= dim; ++i) s.columns[i] = s.rows + i * dim;
}

// Prove that the last row of a simplex, times a sign, is a positive combination of the others.
inline bool last_is_inside(Simplex& s, double sign, int dim) {
    return invert(s.columns, dim, s.matrix, s.inverse) &&
           is_inside(s.rows + dim * dim, sign, s.inverse, dim);
}

struct HullVertices {
    const double* points;  // (n, dim), n >= 2, distinct and exact: a difference is rounded once
    std::int64_t n;
    int dim;
    std::int64_t n_rivals;
    std::int64_t* rivals;  // the vertices found so far
    std::int64_t* listed;
    double* units;  // (n, dim): relative to `listed`
    double* centre;
    double* direction;
    int n_tried;            // number of directions from the centre in this batch
    std::int64_t n_before;  // number of vertices found before this batch
    bool goes_outwards;     // whether these directions still find vertices
    Simplex simplex;
    NearestPoint nearest;
};

inline void lay_out(HullVertices& s, Arena& arena, std::int64_t n_points, int dim) {
    const std::size_t n = static_cast<std::size_t>(n_points), d = static_cast<std::size_t>(dim);
    s.n = n_points;
    s.dim = dim;
    s.n_rivals = s.n_before = 0;
    s.n_tried = 0;
    s.goes_outwards = true;
    s.rivals = arena.take<std::int64_t>(n);
    s.listed = arena.take<std::int64_t>(n);
    s.units = arena.take<double>(n * d);
    s.centre = arena.take<double>(d);
    s.direction = arena.take<double>(d);
    lay_out(s.simplex, arena, dim);
    lay_out(s.nearest, arena, dim);
}

namespace detail {

// Prove that a point scores higher than all others in a direction, and if so, record it as a
// vertex.
inline bool note_if_it_leads(HullVertices& s, std::int64_t index, const double* direction,
                             std::int8_t* verdict) {
    if (verdict[index] != kUnseen) return false;
    for (std::int64_t j = 0; j < s.n; ++j) {
        if (j == index) continue;
        difference_of(s.points + index * s.dim, s.points + j * s.dim, s.dim, s.simplex.rows);
        if (!is_positive(s.simplex.rows, direction, s.dim)) return false;
    }
    verdict[index] = kYes;
    s.rivals[s.n_rivals++] = index;
    return true;
}

}  // namespace detail

inline void start_vertices(HullVertices& s, std::int8_t* verdict) {
    for (std::int64_t k = 0; k < s.n; ++k) verdict[k] = kUnseen;
    for (int t = 0; t < s.dim; ++t) {
        s.centre[t] = 0.0;
        for (std::int64_t k = 0; k < s.n; ++k)
            s.centre[t] += s.points[k * s.dim + t] / static_cast<double>(s.n);
    }
}

// Try the direction from the centre through point k, which is cheap, as long as this finds
// vertices.
inline void go_outwards(HullVertices& s, std::int64_t k, std::int8_t* verdict) {
    constexpr int batch = 64;
    if (s.n_tried == batch) {
        s.goes_outwards = s.n_rivals - s.n_before >= batch / 4;
        s.n_tried = 0;
        s.n_before = s.n_rivals;
    }
    if (!s.goes_outwards || verdict[k] != kUnseen) return;
    ++s.n_tried;
    for (int t = 0; t < s.dim; ++t) s.direction[t] = s.points[k * s.dim + t] - s.centre[t];
    detail::scale_to_largest_one(s.direction, s.dim);
    const std::int64_t best = detail::leader(s.points, s.n, s.dim, s.direction, -1);
    detail::note_if_it_leads(s, best, s.direction, verdict);
}

// Decide whether point k is a vertex. If `verdict` becomes kClaimed, `support` (dim + 1), padded
// with -1, contains points j such that the origin appears to lie in the hull of the differences
// from j to k.
inline void decide_vertex(HullVertices& s, std::int64_t k, std::int8_t* verdict,
                          std::int64_t* support) {
    using namespace detail;
    const int dim = s.dim;
    const double* own = s.points + k * dim;
    std::int64_t count = 0;
    const auto put = [&](std::int64_t other) {
        unit_between(s.points + other * dim, own, dim, s.units + count * dim);
        s.listed[count++] = other;
    };
    for (std::int64_t a = 0; a < s.n_rivals; ++a) put(s.rivals[a]);
    if (count == 0) put(k == 0 ? 1 : 0);
    s.nearest.n_active = 0;
    while (verdict[k] == kUnseen) {
        double* direction = s.nearest.point;
        for (int t = 0; t < dim; ++t) direction[t] = 0.0;
        const Separation answer = find_nearest(s.nearest, {s.units, count, s.nearest.n_active});
        const int n_active = s.nearest.n_active;
        if (answer == kContained) {
            if (n_active == dim + 1) {
                for (int a = 0; a <= dim; ++a)
                    difference_of(own, s.points + s.listed[s.nearest.support[a]] * dim, dim,
                                  s.simplex.rows + a * dim);
                if (last_is_inside(s.simplex, -1.0, dim)) {
                    verdict[k] = kNo;
                    return;
                }
            }
            verdict[k] = kClaimed;
            for (int a = 0; a < n_active; ++a) support[a] = s.listed[s.nearest.support[a]];
            return;
        }
        if (answer != kSeparated) {
            verdict[k] = kOpen;
            return;
        }
        scale_to_largest_one(direction, dim);
        if (note_if_it_leads(s, k, direction, verdict)) return;
        const std::int64_t best = leader(s.points, s.n, dim, direction, k);
        for (std::int64_t a = 0; a < count; ++a)
            if (s.listed[a] == best) verdict[k] = kOpen;  // already known, so no progress
        note_if_it_leads(s, best, direction, verdict);
        put(best);
    }
}

// --- Edges ----------------------------------------------------------------------------------------

// The rows of a vertex bound the cone in which it wins, and its neighbours own the facets. A row is
// dropped if the other rows are proved to imply it; otherwise the pair counts as an edge. Hence
// there can be too many edges, but never too few.
struct HullEdges {
    static constexpr int kMostBases = 24;

    const double* rows;  // (n, n, dim): rounded differences of vertices j and k, largest entry one
    std::int64_t n;
    int dim;
    std::int8_t* adjacent;  // (n, n)
    // (room_claims, dim + 3): for each claimed pair j, k and vertices l such that the origin
    // appears to be in the hull of k - j (when l is k) and of the j - l; padded with -1. If the
    // capacity is exceeded, pairs count as edges instead.
    std::int64_t* claims;
    std::int64_t room_claims, n_claims;
    std::int64_t* walls;
    double* units;  // (n + 1, dim)
    double* inside;
    Inverse bases[kMostBases];
    Simplex simplex;
    NearestPoint nearest;
};

inline void lay_out(HullEdges& s, Arena& arena, std::int64_t n_vertices, int dim) {
    const std::size_t n = static_cast<std::size_t>(n_vertices), d = static_cast<std::size_t>(dim);
    s.n = n_vertices;
    s.dim = dim;
    s.n_claims = 0;
    s.walls = arena.take<std::int64_t>(n + 1);
    s.units = arena.take<double>((n + 1) * d);
    s.inside = arena.take<double>(d);
    for (Inverse& basis : s.bases) basis.entries = arena.take<double>(d * d);
    lay_out(s.simplex, arena, dim);
    lay_out(s.nearest, arena, dim);
}

namespace detail {

inline const double* row_between(const HullEdges& s, std::int64_t j, std::int64_t k) {
    return s.rows + (j * s.n + k) * s.dim;
}

// Write row (j, k), or its negative, with unit length.
inline void put_unit(HullEdges& s, std::int64_t place, std::int64_t j, std::int64_t k,
                     double sign) {
    double* unit = s.units + place * s.dim;
    const double* row = row_between(s, j, k);
    for (int t = 0; t < s.dim; ++t) unit[t] = row[t];
    to_unit(unit, s.dim, sign);
}

// Look for a direction in which j wins or, if k is given, in which j loses against k only.
inline Separation look_around(HullEdges& s, std::int64_t j, std::int64_t k, double quality) {
    std::int64_t count = 0;
    for (std::int64_t m = 0; m < s.n; ++m)
        if (m != j) put_unit(s, count++, j, m, m == k ? -1.0 : 1.0);
    for (int t = 0; t < s.dim; ++t) s.nearest.point[t] = 0.0;
    return find_nearest(s.nearest, {s.units, count, 0, quality});
}

}  // namespace detail

// Return the number of sampled pairs that appear to be edges.
inline int sampled_edges(HullEdges& s, int n_samples) {
    int n_edges = 0;
    for (std::int64_t sample = 0; sample < n_samples; ++sample) {
        const std::int64_t j = (sample * 7919) % s.n;
        const std::int64_t k = (j + 1 + (sample * 104729) % (s.n - 1)) % s.n;
        n_edges += detail::look_around(s, j, k, 0.0) != kContained;
    }
    return n_edges;
}

// Decide the pairs of vertex j with later vertices, given all pairs of the earlier vertices.
inline void decide_edges(HullEdges& s, std::int64_t j) {
    using namespace detail;
    const int dim = s.dim;
    const auto settle = [&](std::int64_t k, Verdict verdict) {
        s.adjacent[j * s.n + k] = s.adjacent[k * s.n + j] = static_cast<std::int8_t>(verdict);
    };
    look_around(s, j, -1, 0.5);
    for (int t = 0; t < dim; ++t) s.inside[t] = s.nearest.point[t];
    std::int64_t n_walls = 0;
    for (std::int64_t k = 0; k < j; ++k) {
        if (s.adjacent[j * s.n + k] != kYes) continue;
        put_unit(s, n_walls, j, k, 1.0);
        s.walls[n_walls++] = k;
    }
    int n_bases = 0;
    for (std::int64_t k = j + 1; k < s.n; ++k) {
        for (int b = n_bases - 1; b >= 0 && s.adjacent[j * s.n + k] == kUnseen; --b)
            if (is_inside(row_between(s, j, k), 1.0, s.bases[b], dim)) settle(k, kNo);
        while (s.adjacent[j * s.n + k] == kUnseen) {
            // The wall against k is redundant if k cannot win where the known walls hold.
            s.walls[n_walls] = k;
            put_unit(s, n_walls, j, k, -1.0);
            for (int t = 0; t < dim; ++t) s.nearest.point[t] = 0.0;
            const Separation answer = find_nearest(s.nearest, {s.units, n_walls + 1});
            const int n_active = s.nearest.n_active;
            if (answer == kContained) {
                Verdict verdict = kClaimed;
                if (n_active == dim + 1) {
                    // The walls against known neighbours, of which k is a positive combination.
                    // (Without k they have no simplex.)
                    int filled = 0;
                    for (int a = 0; a <= dim; ++a)
                        if (s.nearest.support[a] != n_walls)
                            s.simplex.columns[filled++] =
                                row_between(s, j, s.walls[s.nearest.support[a]]);
                    Inverse& basis = s.bases[n_bases];
                    if (filled == dim && invert(s.simplex.columns, dim, s.simplex.matrix, basis) &&
                        is_inside(row_between(s, j, k), 1.0, basis, dim)) {
                        verdict = kNo;
                        n_bases = least(n_bases + 1, HullEdges::kMostBases - 1);
                    }
                }
                if (verdict == kClaimed && s.n_claims < s.room_claims) {
                    std::int64_t* claim = s.claims + s.n_claims++ * (dim + 3);
                    claim[0] = j;
                    claim[1] = k;
                    for (int a = 0; a <= dim; ++a)
                        claim[a + 2] = a < n_active ? s.walls[s.nearest.support[a]] : -1;
                } else if (verdict == kClaimed) {
                    verdict = kYes;
                }
                settle(k, verdict);
                break;
            }
            std::int64_t nearest = k;
            if (answer == kSeparated) {
                // Walk from inside the cone of j to this direction: the first wall on the way is a
                // facet. (A wrong guess only keeps an edge that is not there.)
                double reach = kInfinity;
                for (std::int64_t m = 0; m < s.n; ++m) {
                    if (m == j) continue;
                    const double here = dot(row_between(s, j, m), s.inside, dim);
                    const double there = dot(row_between(s, j, m), s.nearest.point, dim);
                    if (there < 0.0 && here < reach * (here - there)) {
                        reach = here / (here - there);
                        nearest = m;
                    }
                }
            }
            if (s.adjacent[j * s.n + nearest] == kYes) nearest = k;
            settle(nearest, kYes);
            s.walls[n_walls] = nearest;
            put_unit(s, n_walls, j, nearest, 1.0);
            ++n_walls;
        }
    }
}

}  // namespace hardmax
