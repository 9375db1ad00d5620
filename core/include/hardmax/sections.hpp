// The number of cells into which forms cut a polytope, without constructing the cells.
//
// Forms are added one by one. A form splits as many of the existing cells as there are pieces into
// which the earlier forms cut its section, the part of the polytope where the form vanishes
// ([Zas75], deletion and restriction):
//
//     cells(P; g_1 .. g_m) = 1 + sum over i of cells(P with g_i = 0; g_1 .. g_(i-1)),
//
// provided that no two of the sections are the same. Sections are polytopes of lower dimension with
// few vertices, and a section that is a point has one cell.
//
// This is done only if the filter proves that the forms are in general position: every form that
// cuts the polytope has a sign, beyond its error, at every vertex of the polytope and of every
// section. Then no section passes through a vertex, the vertices of a section are its intersections
// with edges, each on the facets through its edge, and no two sections are the same. If a sign is
// undecided, nothing is counted, and the polytope is cut instead.
//
// If the cells are listed, each cell is a word: its signs of the forms added so far, and the signs
// of later forms at some vertex of its closure. Hence a newly added form already has the right sign
// on all cells that it does not split. If it splits a cell, the word of the cell names the part
// with that vertex. The other part takes the signs at the vertices of the section, which are in the
// closure of both.
#pragma once
#include "polytope.hpp"
#include "units.hpp"

namespace hardmax {

using Word = std::uint64_t;

inline int bit_count(Word word) { return __builtin_popcountll(word); }
inline int lowest_bit(Word word) { return __builtin_ctzll(word); }

// A polytope, its sections, their sections and so on, stored one above the other.
template <int D>
struct Sections {
    static constexpr int kRoom = 1024, kValues = 8192, kEdges = 4096;
    int n_forms, stride;
    double coefficient[D + 1][kWindow];
    // The error of a value at a vertex of radius rho is at most error + slopes rho.
    double error[kWindow], slopes[kWindow];
    double most_rho;
    Point<D> points[kRoom];
    Word masks[kRoom];                // the facets through each vertex
    Word signs[kRoom];                // the forms that are positive at each vertex
    double values[kValues];           // (n_vertices, stride)
    std::uint32_t edges[kEdges + 1];  // two vertices of 16 bits each
};

// The maximum number of forms whose cells are counted in this way: fewer than 2^14 cells in all
// cases, which keeps the time short.
template <int D>
constexpr int most_counted() {
    for (int m = 0;; m++) {
        std::int64_t cells = 0, chosen = 1;
        for (int k = 0; k <= D && k <= m + 1; k++) {
            cells += chosen;
            chosen = chosen * (m + 1 - k) / (k + 1);
        }
        if (cells > 1 << 14 || m == kWindow) return m;
    }
}

// Load the forms of a window that are selected by bits, for a polytope of n vertices. Return false
// if there are too many.
template <int D>
bool begin_sections(Sections<D>& s, const Window<D>& window, Word open, int n, const Reach& reach,
                    double scale) {
    s.n_forms = bit_count(open), s.stride = padded(s.n_forms), s.most_rho = 0x1p-22 * scale;
    if (s.n_forms > most_counted<D>() || n > Sections<D>::kRoom ||
        n * s.stride > Sections<D>::kValues)
        return false;
    // A vertex of a section differs by at most its radius from a point of the polytope, which is
    // the hull of points that differ by at most their radii from the points bounded by `reach`.
    const double size = reach.size + reach.rho + s.most_rho;
    for (int i = 0; i < s.stride; i++) {
        const int from = open != 0 ? lowest_bit(open) : 0;
        double slopes = 0.0;
        for (int k = 0; k <= D; k++) {
            s.coefficient[k][i] = window.coefficient[k][from];
            if (k < D) slopes += magnitude(s.coefficient[k][i]);
        }
        const double radius = D * window.slope_radius[from];
        s.error[i] = (kKappa * (slopes * size + magnitude(s.coefficient[D][i])) + radius * size +
                      window.offset_radius[from]) *
                         kUp +
                     kTiny;
        s.slopes[i] = (slopes + radius) * kUp;
        open &= open - 1;
    }
    return true;
}

// Evaluate the first forms at a vertex. Return whether all selected forms have a sign.
template <int D>
bool evaluate(Sections<D>& s, int v, Word named) {
    const Point<D>& point = s.points[v];
    double* values = s.values + v * s.stride;
    LaneMask positive, negative;
    for (int i = 0; named >> i != 0; i += kLanes) {
        Lanes value = load(s.coefficient[0] + i) * all(point.x[0]);
        for (int k = 1; k < D; k++) value += load(s.coefficient[k] + i) * all(point.x[k]);
        value += load(s.coefficient[D] + i);
        const Lanes error = load(s.error + i) + load(s.slopes + i) * all(point.rho);
        store(values + i, value);
        positive.add(value > error, i);
        negative.add(value < -error, i);
        if (i + kLanes >= kWindow) break;
    }
    s.signs[v] = positive.bits();
    return (named & ~(positive.bits() | negative.bits())) == 0;
}

// Write the section of a polytope by a form above the polytope. Return the number of its vertices,
// or -1 if a vertex is not known well or lacks a sign of a selected form, or if the capacity is
// exceeded.
template <int D>
int write_section(Sections<D>& s, int end, const std::uint32_t* edges, int n_edges, int form,
                  Word named) {
    int v = end;
    for (int e = 0; e < n_edges; e++) {
        int u = static_cast<int>(edges[e] >> 16), w = static_cast<int>(edges[e] & 0xffff);
        if (((s.signs[u] ^ s.signs[w]) >> form & 1) == 0) continue;
        if (v == Sections<D>::kRoom || (v + 1) * s.stride > Sections<D>::kValues) return -1;
        if (s.signs[w] >> form & 1) {
            const int other = u;
            u = w, w = other;
        }
        const Point<D>&from = s.points[u], &until = s.points[w];
        meet_edge(from, until, s.values[u * s.stride + form], s.values[w * s.stride + form],
                  s.error[form] + s.slopes[form] * from.rho,
                  s.error[form] + s.slopes[form] * until.rho, s.points[v]);
        s.masks[v] = s.masks[u] & s.masks[w];
        if (!(s.points[v].rho <= s.most_rho && evaluate(s, v, named))) return -1;
        v++;
    }
    return v - end;
}

// Append the edges of a polytope of dimension k. Return the new number of edges, or -1 if the
// capacity is exceeded. Two vertices span an edge if they share at least k - 1 facets, and either
// one of them lies on only k facets, or no third vertex lies on all facets that they share.
template <int D>
int write_edges(Sections<D>& s, int start, int n, int k, int n_edges) {
    for (int u = start; u < start + n; u++) {
        if (n_edges + n > Sections<D>::kEdges) return -1;
        const Word own = s.masks[u];
        const int first = n_edges;
        for (int w = start; w < u; w++) {
            s.edges[n_edges] = static_cast<std::uint32_t>(u << 16 | w);
            n_edges += bit_count(own & s.masks[w]) >= k - 1;
        }
        if (bit_count(own) <= k) continue;
        int kept = first;
        for (int e = first; e < n_edges; e++) {
            const int w = static_cast<int>(s.edges[e] & 0xffff);
            const Word common = own & s.masks[w];
            bool is_edge = true;
            for (int v = start; bit_count(s.masks[w]) > k && v < start + n; v++)
                is_edge = is_edge && (v == u || v == w || (common & ~s.masks[v]) != 0);
            s.edges[kept] = s.edges[e];
            kept += is_edge;
        }
        n_edges = kept;
    }
    return n_edges;
}

// The forms, out of those given, that have both signs at vertices.
template <int D>
Word with_both_signs(const Sections<D>& s, int start, int n, Word forms) {
    Word every = ~Word{0}, some = 0;
    for (int v = start; v < start + n; v++) every &= s.signs[v], some |= s.signs[v];
    return forms & some & ~every;
}

// The number of cells into which the open forms, which have both signs on a polytope of dimension
// k, cut it; -1 if the number cannot be determined.
template <int D>
std::int64_t count_parts(Sections<D>& s, int start, int n, int k, Word open, int n_edges) {
    Word later = open & (open - 1);
    if (later == 0) return 1 + bit_count(open);
    const std::uint32_t* edges = s.edges + n_edges;
    n_edges = write_edges(s, start, n, k, n_edges);
    if (n_edges < 0) return -1;
    const int n_own = static_cast<int>(s.edges + n_edges - edges);
    std::int64_t total = 2;
    for (; later != 0; later &= later - 1) {
        const int form = lowest_bit(later);
        const Word before = open & low_bits(form);
        const int n_section = write_section(s, start + n, edges, n_own, form, before);
        if (n_section < 0) return -1;
        const Word cutting = with_both_signs(s, start + n, n_section, before);
        const std::int64_t parts = count_parts(s, start + n, n_section, k - 1, cutting, n_edges);
        if (parts < 0) return -1;
        total += parts;
    }
    return total;
}

// Evaluate all forms at the first n vertices. Return whether all of them have signs.
template <int D>
bool evaluate_all(Sections<D>& s, int n) {
    for (int v = 0; v < n; v++)
        if (!evaluate(s, v, low_bits(s.n_forms))) return false;
    return true;
}

// The number of cells into which all forms cut the polytope of the first n vertices; -1 if the
// number cannot be determined.
template <int D>
std::int64_t count_all(Sections<D>& s, int n) {
    if (!evaluate_all(s, n)) return -1;
    return count_parts(s, 0, n, D, with_both_signs(s, 0, n, low_bits(s.n_forms)), 0);
}

// The maximum number of forms whose cells are listed, and the maximum number of these cells: each
// cell is looked up among the earlier ones.
constexpr int kMostListed = 8, kMostParts = 1 << kMostListed;

// List the cells into which the open forms cut a polytope of dimension k on which none of the
// selected forms vanishes. Return their number, or -1 if it cannot be determined.
template <int D>
int list_parts(Sections<D>& s, int start, int n, int k, Word open, Word named, int n_edges,
               Word* parts) {
    parts[0] = s.signs[start];
    if (open == 0) return 1;
    // The first form needs no section, because some vertex lies on its other side.
    const Word first = open & (~open + 1);
    int v = start + 1;
    while (((s.signs[v] ^ parts[0]) & first) == 0) v++;
    parts[1] = s.signs[v];
    Word later = open & ~first;
    if (later == 0) return 2;
    const std::uint32_t* edges = s.edges + n_edges;
    n_edges = write_edges(s, start, n, k, n_edges);
    if (n_edges < 0) return -1;
    const int n_own = static_cast<int>(s.edges + n_edges - edges);
    int n_parts = 2;
    for (; later != 0; later &= later - 1) {
        const int form = lowest_bit(later);
        const Word flag = Word{1} << form, before = open & low_bits(form), others = named & ~flag;
        const int n_section = write_section(s, start + n, edges, n_own, form, others);
        if (n_section < 0) return -1;
        Word* fresh = parts + n_parts;
        const int n_fresh =
            list_parts(s, start + n, n_section, k - 1,
                       with_both_signs(s, start + n, n_section, before), others, n_edges, fresh);
        if (n_fresh < 0) return -1;
        for (int i = 0; i < n_fresh; i++) {
            int split = 0;
            while (split < n_parts && ((parts[split] ^ fresh[i]) & before) != 0) split++;
            if (split == n_parts) return -1;
            fresh[i] = (fresh[i] & ~flag) | (~parts[split] & flag);
        }
        n_parts += n_fresh;
    }
    return n_parts;
}

// List the cells into which all forms cut the polytope of the first n vertices, each as the set of
// forms that are positive there. Return their number, or -1 if it cannot be determined. There is
// capacity for kMostParts cells.
template <int D>
int list_all(Sections<D>& s, int n, Word* parts) {
    if (!evaluate_all(s, n)) return -1;
    const Word named = low_bits(s.n_forms);
    return list_parts(s, 0, n, D, with_both_signs(s, 0, n, named), named, 0, parts);
}

}  // namespace hardmax
