// Depth-first search for the tuples of winners of several heads that occur on an open cone.
//
// Heads are processed one after another. A node of the search is a tuple of winners for the first
// heads whose open cone is nonempty. Its children are the winners of the next head inside that
// cone. The first child is the winner at the node's own direction. The others are found by walking
// the vertex graph of the head, because the winners inside a convex cone form a connected part of
// it. A vertex on the boundary of that part is refused with a proof: its row lies in the cone of
// `dim` rows of the node (a basis, kept for the descendants, for which it stays valid), or the
// origin lies inside a simplex of `dim + 1` rows. Decisions that rounding errors leave open are
// returned to the caller: as a support to be proved exactly (a claim), or as a whole node
// (deferred, `parked` in the code).
//
// The search stops whenever a buffer may become full, and continues from its stack when called
// again.
#pragma once
#include <cstdint>

#include "hardmax/hulls.hpp"
#include "hardmax/interface.h"

namespace hardmax {

typedef hm_fan Fan;
typedef hm_joint_found JointFound;

inline std::int64_t n_paired(const Fan& fan) {
    return fan.first_row[fan.first_vertex[fan.n_heads]];
}

struct JointSearch {
    static constexpr int kMostBases = 48;

    // The node at one level of the path.
    struct Node {
        std::int64_t n_rows;     // number of rows of `rows`, from the first on, that belong to the
                                 // node
        std::int64_t n_members;  // number of children; -1 before they are known
        std::int64_t next_member;
        std::int64_t* members;  // (widest)
        double* directions;     // (widest, dim): one for each child
        double* direction;      // (dim): the node's own direction
        int n_bases;            // number of bases that it may use
        std::int64_t winner;    // the child that is being searched
    };

    const Fan* fan;
    int dim;
    std::int64_t widest;  // maximum number of vertices of a head
    std::int64_t level;   // level of the current node; below the root's level when the search is
                          // complete
    std::int64_t room_rows;
    Node* nodes;          // (n_heads + 1)
    std::int64_t* rows;   // (room_rows): the rows on the path, by index
    double* units;        // the same rows as unit vectors
    Inverse bases[kMostBases];
    // Data for the expansion of one node:
    std::uint8_t* mark;  // (widest): 0 not seen, 1 child, 2 refused
    double* trial;
    std::int64_t* start;  // the support for the node alone
    int n_start;          // -1 before it is known
    Simplex simplex;
    NearestPoint nearest;
};

inline void lay_out(JointSearch& s, Arena& arena, const Fan& fan, std::int64_t n_base) {
    std::int64_t capacity = n_base + 1, tallest_of_all = 0;
    s.fan = &fan;
    s.dim = static_cast<int>(fan.dim);
    s.widest = 0;
    for (std::int64_t h = 0; h < fan.n_heads; ++h) {
        std::int64_t tallest = 0;
        for (std::int64_t v = fan.first_vertex[h]; v < fan.first_vertex[h + 1]; ++v) {
            const std::int64_t n = fan.first_row[v + 1] - fan.first_row[v];
            if (n > tallest) tallest = n;
        }
        const std::int64_t width = fan.first_vertex[h + 1] - fan.first_vertex[h];
        if (width > s.widest) s.widest = width;
        if (tallest > tallest_of_all) tallest_of_all = tallest;
        capacity += tallest;
    }
    s.room_rows = capacity + tallest_of_all;
    const std::size_t n = static_cast<std::size_t>(s.room_rows);
    const std::size_t d = static_cast<std::size_t>(s.dim), w = static_cast<std::size_t>(s.widest);
    s.nodes = arena.take<JointSearch::Node>(static_cast<std::size_t>(fan.n_heads) + 1);
    for (std::int64_t h = 0; h <= fan.n_heads; ++h) {
        JointSearch::Node node = {};
        node.members = arena.take<std::int64_t>(w);
        node.directions = arena.take<double>(w * d);
        node.direction = arena.take<double>(d);
        if (arena.base) s.nodes[h] = node;
    }
    s.rows = arena.take<std::int64_t>(n);
    s.units = arena.take<double>(n * d);
    for (Inverse& basis : s.bases) basis.entries = arena.take<double>(d * d);
    s.mark = arena.take<std::uint8_t>(w);
    s.trial = arena.take<double>(d);
    s.start = arena.take<std::int64_t>(d + 2);
    lay_out(s.simplex, arena, s.dim);
    lay_out(s.nearest, arena, s.dim);
}

namespace detail {

inline const double* row_of(const JointSearch& s, std::int64_t row) {
    return s.fan->rows + row * s.dim;
}

inline void copy(const double* from, int dim, double* to) {
    for (int t = 0; t < dim; ++t) to[t] = from[t];
}

// The unmarked vertex with the largest computed score in the head at a level, or -1.
inline std::int64_t guess(const JointSearch& s, std::int64_t level, const double* direction) {
    const std::int64_t base = s.fan->first_vertex[level], end = s.fan->first_vertex[level + 1];
    double best = -kInfinity;
    std::int64_t winner = -1;
    for (std::int64_t v = base; v < end; ++v) {
        if (s.mark[v - base] != 0) continue;
        const double score = dot(s.fan->points + v * s.dim, direction, s.dim);
        if (score > best || winner < 0) {
            best = score;
            winner = v;
        }
    }
    return winner;
}

// Prove that a vertex exceeds every neighbour, hence every point of its head.
inline bool wins(const Fan& fan, std::int64_t vertex, const double* direction) {
    const int dim = static_cast<int>(fan.dim);
    for (std::int64_t r = fan.first_row[vertex]; r < fan.first_row[vertex + 1]; ++r)
        if (!is_positive(fan.rows + r * dim, direction, dim)) return false;
    return true;
}

// Prove that a direction lies in the open cone of the first rows on the path.
inline bool holds(const JointSearch& s, std::int64_t n_rows, const double* direction) {
    for (std::int64_t a = 0; a < n_rows; ++a)
        if (!is_positive(row_of(s, s.rows[a]), direction, s.dim)) return false;
    return true;
}

inline void push(JointSearch& s, std::int64_t place, std::int64_t row) {
    s.rows[place] = row;
    copy(s.fan->units + row * s.dim, s.dim, s.units + place * s.dim);
}

inline void accept(JointSearch& s, std::int64_t vertex) {
    JointSearch::Node& node = s.nodes[s.level];
    copy(s.trial, s.dim, node.directions + node.n_members * s.dim);
    node.members[node.n_members++] = vertex;
    s.mark[vertex - s.fan->first_vertex[s.level]] = 1;
}

inline void write_path(const JointSearch& s, std::int64_t* path) {
    for (std::int64_t h = 0; h < s.fan->n_heads; ++h)
        path[h] = h < s.level ? s.nodes[h].winner : -1;
}

// Prove that the origin lies in the hull of the support, or record this as a claim. The rows from
// `n_own` on do not belong to the node itself. If the support contains exactly one such row, the
// other rows are a basis worth keeping.
inline void refuse(JointSearch& s, std::int64_t n_own, JointFound& found) {
    const int dim = s.dim, n_active = s.nearest.n_active;
    const std::int64_t* support = s.nearest.support;
    if (n_active == dim + 1) {
        // The row that is proved to be a combination is a row that does not belong to the node, if
        // there is one.
        int last = n_active - 1, n_new = 0, filled = 0;
        for (int a = 0; a < n_active; ++a) {
            if (support[a] < n_own) continue;
            last = a;
            ++n_new;
        }
        for (int a = 0; a < n_active; ++a)
            if (a != last) s.simplex.columns[filled++] = row_of(s, s.rows[support[a]]);
        // The last slot for a basis is scratch.
        int& n_bases = s.nodes[s.level].n_bases;
        Inverse& basis = s.bases[n_bases];
        if (invert(s.simplex.columns, dim, s.simplex.matrix, basis) &&
            is_inside(row_of(s, s.rows[support[last]]), -1.0, basis, dim)) {
            ++found.n_refused;
            if (n_new == 1 && n_bases < JointSearch::kMostBases - 1) ++n_bases;
            return;
        }
    }
    std::int64_t* claim = found.claims + found.n_claims * (dim + 1);
    for (int a = 0; a <= dim; ++a) claim[a] = a < n_active ? s.rows[support[a]] : -1;
    write_path(s, found.claim_paths + found.n_claims * s.fan->n_heads);
    ++found.n_claims;
}

// Prove from a known basis that a row is positive on the whole node.
inline bool is_implied(const JointSearch& s, std::int64_t row) {
    for (int b = s.nodes[s.level].n_bases - 1; b >= 0; --b)
        if (is_inside(row_of(s, row), 1.0, s.bases[b], s.dim)) return true;
    return false;
}

// The dimension up to which one reversed row is tried before all rows of a vertex.
constexpr int kLowDimension = 4;

// Decide whether a vertex wins inside the node. Returns false if rounding errors prevent a
// decision. `row` is the row by which a known winner exceeds the vertex, or -1. There are at most
// three searches: the node alone as a start, once; then with the reverse of `row`, which in low
// dimensions is often enough to refuse; then with all rows of the vertex.
inline bool test_vertex(JointSearch& s, std::int64_t vertex, std::int64_t row, JointFound& found) {
    const Fan& fan = *s.fan;
    const int dim = s.dim;
    const std::int64_t n_rows = s.nodes[s.level].n_rows;
    const auto look = [&](std::int64_t count, int n_start) {
        for (int t = 0; t < dim; ++t) s.nearest.point[t] = 0.0;
        return find_nearest(s.nearest, {s.units, count, n_start});
    };
    if (s.n_start < 0) {
        if (n_rows > 0) look(n_rows, 0);
        s.n_start = n_rows > 0 ? s.nearest.n_active : 0;
        for (int a = 0; a < s.n_start; ++a) s.start[a] = s.nearest.support[a];
    }
    for (int a = 0; a < s.n_start; ++a) s.nearest.support[a] = s.start[a];
    int n_start = s.n_start;
    std::int64_t reverse = -1, count = n_rows;
    const bool tries_one = row >= 0 && dim <= kLowDimension;
    for (int stage = tries_one ? 0 : 1; stage < 2; ++stage) {
        if (stage == 0) {
            reverse = fan.reverse[row];
            push(s, count++, reverse);
        } else {
            for (std::int64_t r = fan.first_row[vertex]; r < fan.first_row[vertex + 1]; ++r)
                if (r != reverse) push(s, count++, r);
        }
        const Separation answer = look(count, n_start);
        if (answer == kContained) {
            refuse(s, n_rows, found);
            s.mark[vertex - fan.first_vertex[s.level]] = 2;
            return true;
        }
        if (answer != kSeparated) return false;
        n_start = s.nearest.n_active;
        copy(s.nearest.point, dim, s.trial);
        scale_to_largest_one(s.trial, dim);
        // The winner at this direction is a child, whether or not it is the vertex.
        const std::int64_t other = stage == 0 ? guess(s, s.level, s.trial) : vertex;
        if (wins(fan, other, s.trial) && holds(s, n_rows, s.trial)) {
            accept(s, other);
            if (other == vertex) return true;
        }
    }
    return false;
}

// Find all children of the current node. Returns false if rounding errors prevent this.
inline bool expand(JointSearch& s, JointFound& found) {
    const Fan& fan = *s.fan;
    JointSearch::Node& node = s.nodes[s.level];
    const std::int64_t base = fan.first_vertex[s.level], end = fan.first_vertex[s.level + 1];
    for (std::int64_t v = base; v < end; ++v) s.mark[v - base] = 0;
    s.n_start = -1;
    node.n_members = 0;
    copy(node.direction, s.dim, s.trial);
    const std::int64_t first = guess(s, s.level, s.trial);
    if (wins(fan, first, s.trial)) accept(s, first);
    // There is a tie at the node's own direction: try the vertices by decreasing score until one
    // wins.
    while (node.n_members == 0) {
        copy(node.direction, s.dim, s.trial);
        const std::int64_t rival = guess(s, s.level, s.trial);
        if (rival < 0 || !test_vertex(s, rival, -1, found)) return false;
    }
    for (std::int64_t member = 0; member < node.n_members; ++member) {
        const std::int64_t vertex = node.members[member];
        for (std::int64_t r = fan.first_row[vertex]; r < fan.first_row[vertex + 1]; ++r) {
            const std::int64_t rival = fan.rival[r];
            if (s.mark[rival - base] != 0) continue;
            if (is_implied(s, r)) {
                ++found.n_refused;
                s.mark[rival - base] = 2;
            } else if (!test_vertex(s, rival, r, found)) {
                return false;
            }
        }
    }
    return true;
}

}  // namespace detail

// Make a node the root of a search.
inline void load(JointSearch& s, std::int64_t level, std::int64_t n_rows, const std::int64_t* rows,
                 const std::int64_t* winners, const double* direction) {
    JointSearch::Node& node = s.nodes[level];
    for (std::int64_t a = 0; a < n_rows; ++a) detail::push(s, a, rows[a]);
    for (std::int64_t h = 0; h < level; ++h) s.nodes[h].winner = winners[h];
    detail::copy(direction, s.dim, node.direction);
    node.n_rows = n_rows;
    node.n_bases = 0;
    node.n_members = -1;
    s.level = level;
}

// Search below the root at a level until the search is complete (returns true), or a buffer is full
// or the given number of nodes has been expanded. `found` needs capacity for `widest` leaves, twice
// as many claims, and one deferred node.
inline bool run(JointSearch& s, std::int64_t root, std::int64_t steps, JointFound& found) {
    const Fan& fan = *s.fan;
    const std::int64_t n_heads = fan.n_heads;
    while (s.level >= root) {
        JointSearch::Node& node = s.nodes[s.level];
        if (node.n_members < 0) {
            const bool has_room = found.n_leaves + s.widest <= found.room_leaves &&
                                  found.n_claims + 2 * s.widest <= found.room_claims &&
                                  found.n_parked < found.room_parked;
            if (!has_room || steps-- == 0) return false;
            const std::int64_t claims_before = found.n_claims;
            if (!detail::expand(s, found)) {
                // The node is repeated exactly, so its claims are not needed.
                found.n_claims = claims_before;
                detail::write_path(s, found.parked + found.n_parked++ * n_heads);
                --s.level;
                continue;
            }
            node.next_member = 0;
            if (s.level == n_heads - 1) {
                for (std::int64_t m = 0; m < node.n_members; ++m) {
                    std::int64_t* leaf = found.leaves + found.n_leaves * n_heads;
                    detail::write_path(s, leaf);
                    leaf[s.level] = node.members[m];
                    detail::copy(node.directions + m * s.dim, s.dim,
                                 found.directions + found.n_leaves++ * s.dim);
                }
                --s.level;
                continue;
            }
        }
        if (node.next_member == node.n_members) {
            --s.level;
            continue;
        }
        const std::int64_t m = node.next_member++, vertex = node.members[m];
        node.winner = vertex;
        std::int64_t count = node.n_rows;
        if (node.n_members > 1) {
            // Only a wall against another child can bound the part of the node in which this child
            // wins.
            for (std::int64_t r = fan.first_row[vertex]; r < fan.first_row[vertex + 1]; ++r) {
                std::int64_t other = 0;
                while (other < node.n_members && node.members[other] != fan.rival[r]) ++other;
                if (other < node.n_members) detail::push(s, count++, r);
            }
        }
        JointSearch::Node& child = s.nodes[s.level + 1];
        child.n_rows = count;
        child.n_bases = node.n_bases;
        child.n_members = -1;
        detail::copy(node.directions + m * s.dim, s.dim, child.direction);
        ++s.level;
    }
    return true;
}

// Prove, for a single tuple of vertices, that a direction selects it and is positive on the rows that
// follow the rows of the vertices. Entries of the direction are at most one, and exact.
inline bool selects(const Fan& fan, const std::int64_t* leaf, const double* direction) {
    const int dim = static_cast<int>(fan.dim);
    for (std::int64_t h = 0; h < fan.n_heads; ++h)
        if (!detail::wins(fan, leaf[h], direction)) return false;
    for (std::int64_t r = n_paired(fan); r < fan.n_rows; ++r)
        if (!is_positive(fan.rows + r * dim, direction, dim)) return false;
    return true;
}

// The sine of the angle between a direction and the nearest wall of a tuple, rounded. It indicates
// how useful a direction is, and proves nothing. Infinite for a cone without walls.
inline double margin(const Fan& fan, const std::int64_t* leaf, const double* direction) {
    const int dim = static_cast<int>(fan.dim);
    double least_product = kInfinity;
    for (std::int64_t h = 0; h <= fan.n_heads; ++h) {
        const std::int64_t first = h < fan.n_heads ? fan.first_row[leaf[h]] : n_paired(fan);
        const std::int64_t last = h < fan.n_heads ? fan.first_row[leaf[h] + 1] : fan.n_rows;
        for (std::int64_t r = first; r < last; ++r) {
            const double product = detail::dot(fan.units + r * dim, direction, dim);
            if (product < least_product) least_product = product;
        }
    }
    const double square = detail::dot(direction, direction, dim);
    return square > 0.0 ? least_product / __builtin_sqrt(square) : least_product;
}

// --- Facets ---------------------------------------------------------------------------------------

struct FacetSearch {
    std::int64_t* listed;
    double* units;
    Simplex simplex;
    NearestPoint nearest;
};

inline void lay_out(FacetSearch& s, Arena& arena, std::int64_t n_rows, int dim) {
    const std::size_t n = static_cast<std::size_t>(n_rows) + 1, d = static_cast<std::size_t>(dim);
    s.listed = arena.take<std::int64_t>(n);
    s.units = arena.take<double>(n * d);
    lay_out(s.simplex, arena, dim);
    lay_out(s.nearest, arena, dim);
}

// Decide whether a row of a cell is irredundant: whether some direction violates it and satisfies
// all others. Rows on the same line (positive multiples of each other) count as one. Returns kYes,
// kNo or kOpen.
inline Verdict is_facet(FacetSearch& s, const Fan& fan, const std::int64_t* line,
                        const std::int64_t* leaf, std::int64_t wall) {
    const int dim = static_cast<int>(fan.dim);
    std::int64_t count = 0;
    const auto put = [&](std::int64_t row, double sign) {
        double* unit = s.units + count * dim;
        detail::copy(fan.rows + row * dim, dim, unit);
        detail::to_unit(unit, dim, sign);
        s.listed[count++] = row;
    };
    put(wall, -1.0);
    for (std::int64_t h = 0; h <= fan.n_heads; ++h) {
        const std::int64_t first = h < fan.n_heads ? fan.first_row[leaf[h]] : n_paired(fan);
        const std::int64_t last = h < fan.n_heads ? fan.first_row[leaf[h] + 1] : fan.n_rows;
        for (std::int64_t r = first; r < last; ++r)
            if (line[r] != line[wall]) put(r, 1.0);
    }
    double* point = s.nearest.point;
    for (int t = 0; t < dim; ++t) point[t] = 0.0;
    const Separation answer = find_nearest(s.nearest, {s.units, count});
    if (answer == kSeparated) {
        detail::scale_to_largest_one(point, dim);
        for (std::int64_t a = 1; a < count; ++a)
            if (!is_positive(fan.rows + s.listed[a] * dim, point, dim)) return kOpen;
        for (int t = 0; t < dim; ++t) point[t] = -point[t];
        return is_positive(fan.rows + wall * dim, point, dim) ? kYes : kOpen;
    }
    if (answer != kContained || s.nearest.n_active != dim + 1) return kOpen;
    for (int a = 0; a <= dim; ++a) {
        const std::int64_t place = s.nearest.support[a];
        const double* row = fan.rows + s.listed[place] * dim;
        for (int t = 0; t < dim; ++t) s.simplex.rows[a * dim + t] = place == 0 ? -row[t] : row[t];
    }
    return last_is_inside(s.simplex, -1.0, dim) ? kNo : kOpen;
}

}  // namespace hardmax
