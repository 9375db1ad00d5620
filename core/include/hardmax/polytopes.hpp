// Polytopes of dimension D on the stack of a search: signs, cuts, winning parts, and storage of
// cells.
//
// A polytope is a list of vertices and a list of facets. A facet is a row of the pool, which
// contains the forms of cuts. Bit i of a vertex's mask states that the vertex lies exactly on facet
// i of the list. The list contains every facet; it may also contain forms that were facets of a
// larger polytope.
//
// A cut is one step of the double description method ([FP96], proposition 7). A new vertex appears
// on every edge between a positive and a negative vertex, and two vertices span an edge if no third
// vertex lies on all facets that they share. This requires only complete masks; in particular, a
// vertex may lie on more than D facets. If one of two vertices lies on exactly D facets, it is
// enough that they share D - 1 facets.
//
// The sign of a form at a vertex is accepted only if the computed value exceeds the sum of the
// form's own radius, the sum of its absolute slopes times the radius of the vertex, and the
// rounding error of the value. Signs that this test leaves open are decided by expansions if the
// form and the facets through the vertex are exact: at an exact point by a dot product, otherwise
// by det(M, c; g) / det M. A zero that follows from zeros of the layer before needs no arithmetic.
//
// At a vertex p + M d at infinity, a form is positive if <a, d> > 0, or if <a, d> = 0 and <a, p> +
// c > 0.
//
// A tie is a group whose winner equals a rival on the whole hyperplane of a facet, not counting the
// cut that made the facet. A group whose winner equals a rival on the whole cell ties on every
// facet.
#pragma once
#include "cells.hpp"
#include "groups.hpp"
#include "polytope.hpp"
#include "sections.hpp"
#include "units.hpp"
#include "varying.hpp"

namespace hardmax {

// A group whose winner equals a rival on a row of the pool or, for row -1, on the whole cell.
struct Tie {
    int row, group, winner;
};

// Whether a vertex with the given direction, if any, is at infinity.
template <int D>
bool is_far(const Point<D>* direction) {
    if (!direction) return false;
    // A direction that could not be computed is zero with an infinite radius.
    bool is_there = direction->rho != 0.0;
    for (double x : direction->x) is_there = is_there || x != 0.0;
    return is_there;
}

// A polytope in the form that `groups.hpp` requires.
template <int D>
struct Polytope {
    static constexpr int dim = D;
    const Point<D>* points;
    const Point<D>* directions;  // null if the domain is bounded
    int n;

    double x(int i, int k) const { return points[i].x[k]; }
    double rho(int i) const { return points[i].rho; }
    bool has_far() const { return directions != nullptr; }
    double d(int i, int k) const { return directions[i].x[k]; }
    double far_rho(int i) const { return directions[i].rho; }
    bool is_far(int i) const { return hardmax::is_far(directions ? directions + i : nullptr); }
};

template <int D>
struct Polytopes {
    static constexpr int dim = D;
    static constexpr bool notes_ties = true, lists_parts = true, walks_groups = false;

    // The place of a polytope on the stack.
    struct Place {
        int start, n;  // its vertices
        int first_facet, n_facets;
        int n_pool, n_ties;  // the lengths of pool and ties that it requires
        bool is_canonical;   // its vertices are the ones that `store_cell` would compute
        Reach reach;
    };
    using Part = Place;

    struct Known : Homogeneous {
        const Path<D>* path;
    };

    // The data of all polytopes, one after the other; the free part above them is scratch.
    Point<D>* points;
    Point<D>* directions;
    Marks* marks;
    Word* masks;  // (room, n_words)
    int* facets;  // rows of the pool
    Facet<D>* pool;
    Tie* ties;
    int room, n_words;
    bool has_far, stores;
    bool lacks_words;  // the stack is full because the masks have too few bits
    // Scratch, indexed first by the vertices of a polytope, then by the facets through a vertex.
    std::int8_t* signs;
    double* values;
    int *above, *below;
    Word *words, *pairs;  // pairs: (8 room)
    int *tight, *counts;  // (64 n_words)
    Point<D>* rest;       // (64 n_words)
    Word* common;         // (n_words)
    bool* zeros;          // (n_groups of the network)
    Minors<D + 1>* minors;
    Sections<D>* sections;  // used if cells are only counted
    Bounds<D> around;       // a box around the current part
    // Bounds on the errors of `values`; vertex_factor is multiplied by the radius of a vertex.
    double value_error, vertex_factor;
    double scale, most_rho;  // vertices with larger radii are computed from their facets

    Polytope<D> at(const Place& place) const {
        return {points + place.start, has_far ? directions + place.start : nullptr, place.n};
    }
    // The first place after a polytope.
    Place after(const Place& place) const {
        Place next = place;
        next.start = place.start + place.n, next.first_facet = place.first_facet + place.n_facets;
        return next;
    }
    Word* mask(int vertex) const { return masks + std::size_t(vertex) * n_words; }

    static Known known(const Path<D>& path, int l, int = -1) {
        return {{path.frames[l].is_homogeneous}, &path};
    }
    static bool walks(int) { return false; }
    static void note_region(Path<D>& path, int l, bool has_far) {
        if (has_far) path.frames[l].n_varying = count_varying(path, l).count;
    }

    // Capacity is checked at the point of use.
    bool has_room(const Place&) const { return true; }
    bool has_room(const Place& whole, const Place& at, int) const {
        return at.start + whole.n <= room && at.first_facet + whole.n_facets + 1 <= room;
    }

    // Record the signs of the units of a window, from one of them on: see `units.hpp`.
    void mark(const Window<D>& window, int from, int v) {
        const bool is_far = has_far && hardmax::is_far(directions + v);
        marks[v] = is_far ? far_marks_at(window, from, directions[v].x, directions[v].rho)
                          : marks_at(window, from, points[v].x, points[v].rho);
    }
    void mark(const Place& place, const Window<D>& window, int from) {
        for (int i = 0; i < place.n; i++) mark(window, from, place.start + i);
    }
    // The marks common to all vertices.
    Marks marks_of(const Place& place) const {
        Marks common = marks[place.start];
        for (int v = place.start + 1; v < place.start + place.n; v++)
            common.positive &= marks[v].positive, common.negative &= marks[v].negative;
        return common;
    }
    const Marks& marks_at_vertex(const Place& place, int i) const { return marks[place.start + i]; }
    Signs signs_of(const Place& place, const Form<D>& g, const Wall& wall, const Known& known,
                   SignCounts& counts);
    int sign_at(const Place& place, int i, const Form<D>& g, const Wall& wall, const Known& known,
                SignCounts& counts);
    bool split(Place& place, Place& lower, const Form<D>& g, const Wall& wall,
               const Window<D>& window, int bit, bool is_pure);
    // The rivals, among a few from number m on, that competitor w certainly exceeds on the current
    // part.
    std::uint64_t exceeded_on(const Part& part, const Forms<D>& forms, const Contest& contest,
                              int w, int m, int count) const {
        if (has_far || count < 2 * kLanes) return 0;
        const Leader leader{contest.form[w], contest.error[w], contest.slopes[w]};
        return exceeded_in(around, part.reach.rho, forms, leader, contest, m, count);
    }
    bool clip(Part& part, const Form<D>& g, const Wall& wall, bool is_pure);
    bool note_ties(Place& place, const Signs& found, int group, const Wall& wall);
    // The number of cells into which a window's forms, selected by bits because they may cut the
    // polytope, divide it; -1 if this number cannot be determined without cutting.
    bool begin_sections(const Place& place, const Window<D>& window, Word open, double scale);
    std::int64_t count_parts(const Place& place, const Window<D>& window, Word open, double scale) {
        return begin_sections(place, window, open, scale) ? count_all(*sections, place.n) : -1;
    }
    // List these cells: see `list_all`.
    int list_parts(const Place& place, const Window<D>& window, Word open, double scale,
                   Word* parts) {
        if (place.n_ties > 0 || !begin_sections(place, window, open, scale)) return -1;
        return list_all(*sections, place.n, parts);
    }

    Part begin(const Place& whole, const Place& at, int) {
        Part part = whole;
        part.start = at.start, part.first_facet = at.first_facet;
        part.n_pool = at.n_pool, part.n_ties = at.n_ties;
        for (int i = 0; i < whole.n; i++) copy_vertex(whole.start + i, part.start + i);
        for (int f = 0; f < whole.n_facets; f++)
            facets[part.first_facet + f] = facets[whole.first_facet + f];
        around = box_around(this->at(part));
        return part;
    }
    Place finish(const Part& part, const Place&) { return part; }
    // Parts stay in place, because the parts that come first are already highest.
    template <class Item>
    void settle(const Place&, const Place&, Item*, int) {}

    void copy_vertex(int from, int to) {
        points[to] = points[from];
        if (has_far) directions[to] = directions[from];
        marks[to] = marks[from];
        if (n_words == 1)
            masks[to] = masks[from];
        else
            for (int w = 0; w < n_words; w++) mask(to)[w] = mask(from)[w];
    }

    // List the pool rows of the bits of a mask, optionally only some of them. Return their number.
    int collect(const Word* word, int first_facet, int* rows, const Word* some = nullptr) const {
        int n = 0;
        for (int w = 0; w < n_words; w++)
            for (Word bits = some ? word[w] & some[w] : word[w]; bits != 0; bits &= bits - 1)
                rows[n++] = facets[first_facet + 64 * w + lowest_bit(bits)];
        return n;
    }
    int count_bits(const Word* word) const {
        int n = bit_count(word[0]);
        if (n_words == 1) return n;
        for (int w = 1; w < n_words; w++) n += bit_count(word[w]);
        return n;
    }

    double error_on(const Place& place, const Form<D>& g);
    bool choose_independent(int n, int wanted, const Facet<D>** chosen);
    int drop_facets(Place& place);
    int sharing_pairs(const Place& place);
    bool is_edge(const Place& place, int u, int w) const;
    int begin_cut(Place& place, const Form<D>& g, const Wall& wall, bool is_pure);
    Point<D> point_on_edge(const Place& place, Word pair, const Word* own);
    int new_vertices(Place& place, int n_pairs, int to);
    void write_side(const Place& from, int side, int n_fresh, int fresh, Place& to);
    int far_sign(int i, int first_facet, const Form<D>& g, SignCounts& counts);
    int closer_sign(int i, int first_facet, const Form<D>& g, double value, SignCounts& counts);
    int quotient_sign(int i, int first_facet, const Form<D>& g, bool at_infinity);
    bool is_common_zero(const Layer& layer, const Wall& wall, int n) const;
    bool vanishes(int i, int first_facet, const Wall& wall, const Known& known, bool ignores_bias);
    bool stays_bounded(int i, int first_facet, const Wall& wall, const Known& known);
};

// --- Signs ---------------------------------------------------------------------------------------

// Bound the errors of the values of a form at the vertices.
template <int D>
double Polytopes<D>::error_on(const Place& place, const Form<D>& g) {
    const double slopes = slopes_of(g), size = place.reach.size;
    value_error =
        kKappa * (slopes * size + magnitude(g.c)) + g.slope_radius * D * size + g.offset_radius;
    vertex_factor = slopes + D * g.slope_radius;
    return (value_error + vertex_factor * place.reach.rho) * kUp + kTiny;
}

// Write the sign of a form at every vertex.
template <int D>
Signs Polytopes<D>::signs_of(const Place& place, const Form<D>& g, const Wall& wall,
                             const Known& known, SignCounts& counts) {
    const double error = error_on(place, g);
    const Point<D>* vertices = points + place.start;
    int n_positive = 0, n_negative = 0;
    // Signs are hard to predict, so this loop does not branch on them.
    for (int i = 0; i < place.n; i++) {
        const double value = value_at(g, vertices[i].x);
        const int is_positive = value > error, is_negative = value < -error;
        signs[i] = static_cast<std::int8_t>(is_positive - is_negative);
        n_positive += is_positive;
        n_negative += is_negative;
    }
    counts.n_filtered += place.n;
    if (!has_far && n_positive + n_negative == place.n) return {n_positive, n_negative};
    n_positive = n_negative = 0;
    const Polytope<D> polytope = at(place);
    for (int i = 0; i < place.n; i++) {
        if (signs[i] == 0 || polytope.is_far(i)) {
            const int sign = sign_at(place, i, g, wall, known, counts);
            if (sign == kUndecided) return {-1, i};
            signs[i] = static_cast<std::int8_t>(sign);
        }
        n_positive += signs[i] > 0;
        n_negative += signs[i] < 0;
    }
    return {n_positive, n_negative};
}

// The sign of a form at one vertex, or kUndecided.
template <int D>
int Polytopes<D>::sign_at(const Place& place, int i, const Form<D>& g, const Wall& wall,
                          const Known& known, SignCounts& counts) {
    const int v = place.start + i, f = place.first_facet;
    const double value = value_at(g, points[v].x);
    int sign = kUndecided;
    if (at(place).is_far(i)) {
        sign = far_sign(v, f, g, counts);
        // A form that stays bounded towards a vertex has the sign of its remaining part.
        if (sign == kUndecided &&
            (stays_bounded(v, f, wall, known) || vanishes(v, f, wall, known, true)))
            sign = closer_sign(v, f, g, value, counts);
    } else {
        sign = closer_sign(v, f, g, value, counts);
    }
    if (sign == kUndecided && vanishes(v, f, wall, known, false)) sign = 0;
    return sign;
}

// The sign of a form at one vertex, from a bound for this vertex or exactly, or kUndecided.
template <int D>
int Polytopes<D>::closer_sign(int i, int first_facet, const Form<D>& g, double value,
                              SignCounts& counts) {
    const Point<D>& v = points[i];
    double slopes = 0.0, reach = 0.0, total = magnitude(g.c);
    for (int k = 0; k < D; k++) {
        slopes += magnitude(g.a[k]);
        reach += magnitude(v.x[k]);
        total += magnitude(g.a[k] * v.x[k]);
    }
    const double error = (kKappa * total + g.slope_radius * reach + g.offset_radius +
                          (slopes + D * g.slope_radius) * v.rho) *
                             kUp +
                         kTiny;
    if (value > error) return 1;
    if (value < -error) return -1;
    if (g.c == 0.0 && g.offset_radius == 0.0 && v.rho == 0.0 && reach == 0.0) return 0;
    if (!g.is_exact()) return kUndecided;
    if (slopes == 0.0) return sign(g.c);
    counts.n_expanded++;
    if (v.rho == 0.0) return affine_sign<D>(g.a, v.x, g.c);
    return quotient_sign(i, first_facet, g, false);
}

// The sign of a form at a vertex at infinity, or kUndecided.
template <int D>
int Polytopes<D>::far_sign(int i, int first_facet, const Form<D>& g, SignCounts& counts) {
    const Point<D>& direction = directions[i];
    const double slopes = slopes_of(g), reach = size_of(direction), rho = direction.rho;
    double value = 0.0;
    for (int k = 0; k < D; k++) value += g.a[k] * direction.x[k];
    const double error =
        (slopes * (kKappa * reach + rho) + D * g.slope_radius * (reach + rho)) * kUp + kTiny;
    if (value > error) return 1;
    if (value < -error) return -1;
    if (g.slope_radius != 0.0) return kUndecided;
    if (slopes == 0.0) {
        if (magnitude(g.c) > g.offset_radius) return sign(g.c);
        return g.offset_radius == 0.0 ? 0 : kUndecided;
    }
    if (g.offset_radius != 0.0) return kUndecided;
    counts.n_expanded++;
    const int far = quotient_sign(i, first_facet, g, true);
    return far != 0 ? far : quotient_sign(i, first_facet, g, false);
}

// The sign of an exact form at a vertex where exact facets meet, or kUndecided. At infinity, the
// far offsets are used.
template <int D>
int Polytopes<D>::quotient_sign(int i, int first_facet, const Form<D>& g, bool at_infinity) {
    int n = collect(mask(i), first_facet, tight);
    const Facet<D>* chosen[D];
    if (n == D) {
        for (int t = 0; t < D; t++) chosen[t] = pool + tight[t];
    } else {
        int kept = 0;
        for (int t = 0; t < n; t++)
            if (pool[tight[t]].form.is_exact()) tight[kept++] = tight[t];
        if (!choose_independent(kept, D, chosen)) return kUndecided;
    }
    double offsets[D + 1];
    for (int j = 0; j < D; j++) offsets[j] = at_infinity ? chosen[j]->far : chosen[j]->form.c;
    offsets[D] = at_infinity ? 0.0 : g.c;
    return hardmax::quotient_sign(chosen, g, offsets, *minors);
}

// Whether all differences of a wall's group, or all scores of its layer, vanish at the intersection
// of the n facets listed in `tight`. Proof: the differences are combinations of a certain number of
// affine functions, the number of variables in which the group's forms differ; scores without
// offsets are combinations of as many functions as the width of the stream. The slopes of the
// facets through a vertex span the whole space. If all but m of these facets belong to the group,
// or to the layer, then D - m of them are independent, and they span the functions if there are at
// most D - m functions.
template <int D>
bool Polytopes<D>::is_common_zero(const Layer& layer, const Wall& wall, int n) const {
    int n_of_others = 0, n_of_other_layers = 0;
    for (int t = 0; t < n; t++) {
        const Wall& here = pool[tight[t]].wall;
        n_of_other_layers += here.layer != wall.layer;
        n_of_others += here.layer != wall.layer || here.group != wall.group;
    }
    return (layer.has_no_offsets && layer.dim_in + n_of_other_layers <= D) ||
           (!layer.is_relu && layer.n_different[wall.group] + n_of_others <= D);
}

// Whether two forms of a group tie at a vertex because the vertex lies on their wall, which happens
// if a part is split by its group again; or whether a ReLU unit is zero at the vertex because all
// its terms are zero there.
//
// A unit is zero if its wall, which other units may share, is tight. It is also zero if it has no
// bias and every earlier unit that it reads is off or zero. This decides the signs in networks
// without biases, where regions with few active units have walls through many vertices. At
// infinity, with biases ignored, the result states whether the unit stays bounded there, as it does
// if regions extend along directions on which no active unit depends.
template <int D>
bool Polytopes<D>::vanishes(int i, int first_facet, const Wall& wall, const Known& known,
                            bool ignores_bias) {
    const Network& network = *known.path->network;
    const int n = collect(mask(i), first_facet, tight);
    if (is_common_zero(network.layers[wall.layer], wall, n)) return true;
    if (!network.layers[wall.layer].is_relu) {
        for (int t = 0; t < n; t++) {
            const Wall& here = pool[tight[t]].wall;
            if (here.layer == wall.layer && here.group == wall.group &&
                least(here.winner, here.rival) == least(wall.winner, wall.rival) &&
                most(here.winner, here.rival) == most(wall.winner, wall.rival))
                return true;
        }
        return false;
    }
    for (int l = 0; l <= wall.layer; l++) {
        const Layer& layer = network.layers[l];
        if (!layer.is_relu) continue;
        bool* own = zeros + layer.first_group;
        for (int u = 0; u < layer.n_groups; u++) own[u] = false;
        for (int t = 0; t < n; t++) {
            const Wall& here = pool[tight[t]].wall;
            if (here.layer == l) own[wall_of(layer, here.group)] = true;
        }
        for (int u = 0; u < layer.n_groups; u++) own[u] = own[wall_of(layer, u)];
        if (l == 0) continue;
        const Layer& before = network.layers[l - 1];
        if (!before.is_relu || !before.is_plain) continue;
        const int* winners = known.path->signature + before.first_group;
        const bool* zeros_before = zeros + before.first_group;
        const Affine& query = layer.query;
        for (int u = 0; u < layer.n_groups; u++) {
            if (query.bias[u] != 0.0 && !ignores_bias) continue;
            bool is_zero = true;
            for (int j = 0; j < before.n_groups && is_zero; j++) {
                const bool reads = query.is_identity
                                       ? j == u
                                       : query.weight[std::size_t(j) * query.stride + u] != 0.0;
                is_zero = !(reads && winners[j] == 1 && !zeros_before[j]);
            }
            own[u] = own[u] || is_zero;
        }
    }
    return zeros[network.layers[wall.layer].first_group + wall.group];
}

// Whether the facets through a vertex at infinity span all slopes that a form can have.
//
// These slopes lie in the span of the forms before some layer. So do the slopes of the facets of
// that layer and of later layers, and of a unit of the layer before it that is on. If exactly D
// facets meet, they are independent, and every form in their span stays bounded towards the vertex.
template <int D>
bool Polytopes<D>::stays_bounded(int i, int first_facet, const Wall& wall, const Known& known) {
    const Path<D>& path = *known.path;
    if (collect(mask(i), first_facet, tight) != D) return false;
    for (int l = 1; l <= wall.layer; l++) {
        const Layer& before = path.network->layers[l - 1];
        int count = 0;
        for (int t = 0; t < D; t++) {
            const Wall& here = pool[tight[t]].wall;
            count += here.layer >= l;
            if (here.layer != l - 1 || !before.is_relu || before.residual) continue;
            // Whether a unit that is on has this wall.
            bool is_passed_on = false;
            for (int u = 0; u < before.n_groups; u++)
                is_passed_on = is_passed_on || (path.signature[before.first_group + u] == 1 &&
                                                wall_of(before, u) == wall_of(before, here.group));
            count += is_passed_on;
        }
        if (count >= path.frames[l].n_varying) return true;
    }
    return false;
}

// Choose facets of `tight` that are far from dependent. Return whether there are enough.
//
// This is elimination with the largest entry as pivot. The choice needs no proof, because the
// results computed from the facets are verified.
template <int D>
bool Polytopes<D>::choose_independent(int n, int wanted, const Facet<D>** chosen) {
    for (int t = 0; t < n; t++) {
        const Facet<D>& facet = pool[tight[t]];
        for (int k = 0; k < D; k++) rest[t].x[k] = facet.form.a[k] / facet.norm;
    }
    for (int step = 0; step < wanted; step++) {
        double best = 0.0;
        int pivot = -1, column = 0;
        for (int t = step; t < n; t++)
            for (int k = 0; k < D; k++)
                if (magnitude(rest[t].x[k]) > best)
                    best = magnitude(rest[t].x[k]), pivot = t, column = k;
        if (pivot < 0 || best < 0x1p-40) return false;
        const int row = tight[pivot];
        tight[pivot] = tight[step], tight[step] = row;
        chosen[step] = pool + row;
        for (int k = 0; k < D; k++) {
            const double entry = rest[pivot].x[k];
            rest[pivot].x[k] = rest[step].x[k], rest[step].x[k] = entry;
        }
        for (int t = step + 1; t < n; t++) {
            const double factor = rest[t].x[column] / rest[step].x[column];
            for (int k = 0; k < D; k++) rest[t].x[k] -= factor * rest[step].x[k];
            rest[t].x[column] = 0.0;
        }
    }
    return true;
}

// --- Cuts ----------------------------------------------------------------------------------------

// Take forms that are no facets any more off the list; return how many stay. A facet has at least D
// vertices, and one of a flat polytope (see `overlays.hpp`) D - 1, on a line one.
template <int D>
int Polytopes<D>::drop_facets(Place& place) {
    for (int f = 0; f < place.n_facets; f++) counts[f] = 0;
    for (int i = place.start; i < place.start + place.n; i++)
        for (int w = 0; w < n_words; w++)
            for (Word bits = mask(i)[w]; bits != 0; bits &= bits - 1)
                counts[64 * w + lowest_bit(bits)]++;
    int kept = 0;
    for (int f = 0; f < place.n_facets; f++) {
        if (counts[f] >= most(D - 1, 1)) {
            facets[place.first_facet + kept] = facets[place.first_facet + f];
            counts[f] = kept++;
        } else {
            counts[f] = -1;
        }
    }
    for (int i = place.start; i < place.start + place.n; i++) {
        for (int w = 0; w < n_words; w++) common[w] = 0;
        for (int w = 0; w < n_words; w++) {
            for (Word bits = mask(i)[w]; bits != 0; bits &= bits - 1) {
                const int to = counts[64 * w + lowest_bit(bits)];
                if (to >= 0) common[to / 64] |= Word{1} << to % 64;
            }
        }
        for (int w = 0; w < n_words; w++) mask(i)[w] = common[w];
    }
    place.n_facets = kept;
    place.is_canonical = false;
    return kept;
}

// List the pairs of a positive and a negative vertex that share enough facets; -1 if the capacity
// is exceeded. This function does not branch on signs or masks, which are hard to predict.
template <int D>
int Polytopes<D>::sharing_pairs(const Place& place) {
    int n_above = 0, n_below = 0;
    for (int i = 0; i < place.n; i++) {
        above[n_above] = below[n_below] = i;
        words[n_below] = mask(place.start + i)[0];
        n_above += signs[i] > 0;
        n_below += signs[i] < 0;
    }
    int n_pairs = 0;
    for (int p = 0; p < n_above; p++) {
        if (n_pairs + n_below > 8 * room) return -1;
        const Word high = static_cast<Word>(above[p]) << 32;
        const Word* own = mask(place.start + above[p]);
        if (n_words == 1) {
            // Local copies: otherwise the compiler must assume that each write may change the next
            // value read.
            const Word first = own[0], *others = words;
            const int* lower = below;
            Word* to = pairs + n_pairs;
            for (int q = 0; q < n_below; q++) {
                *to = high | static_cast<Word>(lower[q]);
                to += bit_count(first & others[q]) >= D - 1;
            }
            n_pairs = static_cast<int>(to - pairs);
            continue;
        }
        for (int q = 0; q < n_below; q++) {
            const Word* other = mask(place.start + below[q]);
            int n_common = bit_count(own[0] & words[q]);
            for (int w = 1; w < n_words; w++) n_common += bit_count(own[w] & other[w]);
            pairs[n_pairs] = high | static_cast<Word>(below[q]);
            n_pairs += n_common >= D - 1;
        }
    }
    return n_pairs;
}

// Whether two vertices that share the facets `common` span an edge.
template <int D>
bool Polytopes<D>::is_edge(const Place& place, int u, int w) const {
    if (count_bits(mask(place.start + u)) == D || count_bits(mask(place.start + w)) == D)
        return true;
    for (int i = 0; i < place.n; i++) {
        if (i == u || i == w) continue;
        bool contains = true;
        for (int k = 0; k < n_words; k++)
            contains = contains && (mask(place.start + i)[k] & common[k]) == common[k];
        if (contains) return false;
    }
    return true;
}

// Add a form to the facets of a polytope that it cuts. Return the number of pairs of vertices that
// may span edges across it, or -1 if the capacity is exceeded.
template <int D>
int Polytopes<D>::begin_cut(Place& place, const Form<D>& g, const Wall& wall, bool is_pure) {
    if (place.n_facets == 64 * n_words && drop_facets(place) == 64 * n_words) {
        lacks_words = true;
        return -1;
    }
    if (place.n_pool == room || place.first_facet + place.n_facets == room) return -1;
    const int n_pairs = sharing_pairs(place);
    if (n_pairs < 0) return -1;
    pool[place.n_pool] = facet_of(g, wall, is_pure);
    error_on(place, g);
    for (int i = 0; i < place.n; i++) values[i] = value_at(g, points[place.start + i].x);
    return n_pairs;
}

// The point where the next form of the pool cuts an edge with the shared facets `own`, computed
// from the ends of the edge; unknown if an end is at infinity.
template <int D>
Point<D> Polytopes<D>::point_on_edge(const Place& place, Word pair, const Word* own) {
    const Facet<D>& cut = pool[place.n_pool];
    const int u = static_cast<int>(pair >> 32), w = static_cast<int>(pair & 0xffffffffu);
    const Polytope<D> whole = at(place);
    const Point<D>&from = whole.points[u], &until = whole.points[w];
    Point<D> near{}, exact{};
    near.rho = kInfinity;
    if (whole.is_far(u) || whole.is_far(w)) return near;
    meet_edge(from, until, values[u], values[w],
              (value_error + vertex_factor * from.rho) * kUp + kTiny,
              (value_error + vertex_factor * until.rho) * kUp + kTiny, near);
    if (stores) return near;
    // The facets meet in a single point, so a point that lies on all of them is this point.
    const bool may_be_origin = is_linear(cut),
               may_be_exact = !may_be_origin && cut.form.is_exact() && snap(near.x, scale, exact) &&
                              lies_on(cut, exact);
    if (!may_be_origin && !may_be_exact) return near;
    const int n = collect(own, place.first_facet, tight);
    bool is_exact = true;
    for (int t = 0; t < n && is_exact; t++) {
        const Facet<D>& facet = pool[tight[t]];
        is_exact = may_be_origin ? is_linear(facet) : lies_on(facet, exact);
    }
    return is_exact ? exact : near;
}

// Write the vertices where the next form of the pool cuts the edges of a polytope, starting at row
// `to`; there must be capacity for all pairs. Return the number of vertices.
template <int D>
int Polytopes<D>::new_vertices(Place& place, int n_pairs, int to) {
    const int bit = place.n_facets;
    int n_fresh = 0;
    for (int pair = 0; pair < n_pairs; pair++) {
        const int u = static_cast<int>(pairs[pair] >> 32),
                  w = static_cast<int>(pairs[pair] & 0xffffffffu);
        const Word *one = mask(place.start + u), *other = mask(place.start + w);
        for (int k = 0; k < n_words; k++) common[k] = one[k] & other[k];
        if (!is_edge(place, u, w)) continue;
        for (int k = 0; k < n_words; k++) mask(to + n_fresh)[k] = common[k];
        pairs[n_fresh++] = pairs[pair];
    }
    // If cells are stored, or if an end is far or not known well, compute the vertex from its
    // facets.
    const Facet<D>* lists[kLanes][D];
    int waiting[kLanes], n_waiting = 0;
    const auto settle = [&](int i, const Point<D>& found, bool is_pure) {
        // Stored vertices are computed from the facets, all in the same way.
        const bool is_kept = stores && found.rho <= most_rho;
        place.is_canonical = place.is_canonical && is_kept && is_pure;
        points[to + i] = found;
        if (is_kept) return;
        const Point<D> near = point_on_edge(place, pairs[i], mask(to + i));
        if (near.rho < found.rho) points[to + i] = near;
    };
    const auto compute = [&] {
        Point<D> found[kLanes], far[kLanes];
        if (n_waiting > 0) meet(lists, n_waiting, scale, found, has_far ? far : nullptr);
        for (int m = 0; m < n_waiting; m++) {
            if (has_far) directions[to + waiting[m]] = far[m];
            // Facets shared with other polytopes may have been replaced while one of those was
            // processed.
            bool is_pure = true;
            for (const Facet<D>* facet : lists[m])
                is_pure = is_pure && (facet->is_pure || facet->wall.layer < 0);
            settle(waiting[m], found[m], is_pure);
        }
        n_waiting = 0;
    };
    for (int i = 0; i < n_fresh; i++) {
        const Word* own = mask(to + i);
        if (has_far) directions[to + i] = {};
        if (!stores) {
            points[to + i] = point_on_edge(place, pairs[i], own);
            if (points[to + i].rho <= most_rho) continue;
        }
        const int n = collect(own, place.first_facet, tight);
        const Facet<D>** chosen = lists[n_waiting];
        chosen[D - 1] = pool + place.n_pool;
        if (n == D - 1) {
            for (int t = 0; t < D - 1; t++) chosen[t] = pool + tight[t];
        } else if (!choose_independent(n, D - 1, chosen)) {
            Point<D> unknown{};
            unknown.rho = kInfinity;
            const Polytope<D> whole = at(place);
            if (whole.is_far(static_cast<int>(pairs[i] >> 32)) ||
                whole.is_far(static_cast<int>(pairs[i] & 0xffffffffu)))
                directions[to + i] = unknown;
            settle(i, unknown, false);
            continue;
        }
        waiting[n_waiting++] = i;
        if (n_waiting == kLanes) compute();
    }
    compute();
    for (int i = 0; i < n_fresh; i++) mask(to + i)[bit / 64] |= Word{1} << bit % 64;
    return n_fresh;
}

// Write the part of a polytope where the form has the sign `side`: the remaining vertices, then the
// new ones. The part may overwrite the polytope.
template <int D>
void Polytopes<D>::write_side(const Place& from, int side, int n_fresh, int fresh, Place& to) {
    const int bit = from.n_facets;
    const Word flag = Word{1} << bit % 64;
    int n = 0, n_zero = 0, *kept = above;
    for (int i = 0; i < from.n; i++) {
        kept[n] = i;
        n += signs[i] * side >= 0;
        n_zero += signs[i] == 0;
    }
    for (int i = 0; i < n; i++) copy_vertex(from.start + kept[i], to.start + i);
    for (int i = 0; i < n && n_zero > 0; i++)
        if (signs[kept[i]] == 0) mask(to.start + i)[bit / 64] |= flag;
    for (int i = 0; i < n_fresh && to.start + n != fresh; i++)
        copy_vertex(fresh + i, to.start + n + i);
    to.n = n + n_fresh;
    if (to.first_facet != from.first_facet)
        for (int f = 0; f < bit; f++) facets[to.first_facet + f] = facets[from.first_facet + f];
    facets[to.first_facet + bit] = from.n_pool;
    to.n_facets = bit + 1;
    to.n_pool = from.n_pool + 1;
    to.n_ties = from.n_ties;
    to.is_canonical = from.is_canonical;
    double rho = from.reach.rho;
    for (int v = to.start + n; v < to.start + to.n; v++) rho = bound(rho, points[v].rho);
    // A part lies in the whole, so its coordinates are no larger, up to the radii of both.
    if (!has_far && rho < kInfinity)
        to.reach = {(from.reach.size + 2.0 * rho) * kUp, rho, 0.0, false};
    else
        to.reach = reach_of(at(to));
}

// Split a polytope by a form of a window with known signs. The polytope becomes the upper part.
template <int D>
bool Polytopes<D>::split(Place& place, Place& lower, const Form<D>& g, const Wall& wall,
                         const Window<D>& window, int bit, bool is_pure) {
    const int n_pairs = begin_cut(place, g, wall, is_pure);
    if (n_pairs < 0) return false;
    int n_upper = 0, n_lower = 0;
    for (int i = 0; i < place.n; i++) {
        n_upper += signs[i] >= 0;
        n_lower += signs[i] <= 0;
    }
    // The lower part is written above, and the upper part in place of the polytope.
    lower.start = place.start + most(place.n, n_upper + n_pairs);
    lower.first_facet = place.first_facet + place.n_facets + 1;
    const int fresh = lower.start + n_lower;
    if (fresh + n_pairs > room || lower.first_facet + place.n_facets + 1 > room) return false;
    const int n_fresh = new_vertices(place, n_pairs, fresh);
    for (int v = fresh; v < fresh + n_fresh; v++) mark(window, bit + 1, v);
    write_side(place, -1, n_fresh, fresh, lower);
    const Place whole = place;
    write_side(whole, 1, n_fresh, fresh, place);
    return true;
}

// Cut a part down to the set where a form with known signs is positive.
template <int D>
bool Polytopes<D>::clip(Part& part, const Form<D>& g, const Wall& wall, bool is_pure) {
    const int n_pairs = begin_cut(part, g, wall, is_pure), fresh = part.start + part.n;
    if (n_pairs < 0 || fresh + n_pairs > room) return false;
    const int n_fresh = new_vertices(part, n_pairs, fresh);
    const Place whole = part;
    write_side(whole, 1, n_fresh, fresh, part);
    around = box_around(at(part));
    return true;
}

// Load a polytope, and the forms of a window that are selected by bits, to be counted or listed by
// sections. Return false if the forms have to be cut.
template <int D>
bool Polytopes<D>::begin_sections(const Place& place, const Window<D>& window, Word open,
                                  double scale) {
    if (n_words > 1 || place.reach.has_far) return false;
    Sections<D>& s = *sections;
    if (!hardmax::begin_sections(s, window, open, place.n, place.reach, scale)) return false;
    for (int i = 0; i < place.n; i++) {
        s.masks[i] = masks[place.start + i];
        s.points[i] = points[place.start + i];
    }
    return true;
}

// Record the facets on which a form vanishes that does not cut a polytope. Return false if the
// capacity is exceeded. A facet made by the same two forms is not a tie. A tie is recorded once,
// even if a part is examined again.
template <int D>
bool Polytopes<D>::note_ties(Place& place, const Signs& found, int group, const Wall& wall) {
    const int n_zero = place.n - found.n_positive - found.n_negative;
    if (n_zero < D) return true;
    if (place.n_ties + place.n_facets + 1 > room) return false;
    const auto note = [&](int row) {
        int t = 0;
        while (t < place.n_ties &&
               !(ties[t].row == row && ties[t].group == group && ties[t].winner == wall.winner))
            t++;
        if (t == place.n_ties) ties[place.n_ties++] = {row, group, wall.winner};
    };
    if (n_zero == place.n) {
        note(-1);
        return true;
    }
    for (int w = 0; w < n_words; w++) common[w] = 0;
    for (int i = 0; i < place.n; i++)
        for (int w = 0; w < n_words; w++)
            if (signs[i] != 0) common[w] |= mask(place.start + i)[w];
    for (int f = 0; f < place.n_facets; f++) {
        const int row = facets[place.first_facet + f];
        const bool has_others = common[f / 64] >> f % 64 & 1;
        const Wall& own = pool[row].wall;
        const bool is_same = own.layer == wall.layer && own.group == wall.group &&
                             (own.winner == wall.winner || own.winner == wall.rival) &&
                             own.winner + own.rival == wall.winner + wall.rival;
        if (own.layer >= 0 && !has_others && !is_same) note(row);
    }
    return true;
}

// Each facet records whether its form was replaced.
template <int D>
void renew_lines(Polytopes<D>&, const typename Polytopes<D>::Place&, const Path<D>&, int) {}

// --- Storage of cells ----------------------------------------------------------------------------

template <int D>
bool has_room(const Polytopes<D>&, const typename Polytopes<D>::Place& place,
              const Network& network, const Cells& cells) {
    return cells.n_cells < cells.room_cells && cells.n_vertices + place.n <= cells.room_vertices &&
           cells.n_facets + place.n_facets <= cells.room_facets &&
           cells.n_ties + place.n_ties + place.n_facets + network.n_groups <= cells.room_ties;
}

namespace detail {

// Compute the vertices of a polytope from its facets. Return false if one is too uncertain.
// Vertices between sides of the domain are known, and possibly all vertices on D forms of the list.
// Other forms of the list that pass through a vertex are ignored, because they depend on the order
// of the earlier cuts.
template <int D>
bool set_vertices(Polytopes<D>& s, const typename Polytopes<D>::Place& place, double scale,
                  const Word* is_facet, bool are_simple_known) {
    const Facet<D>* lists[kLanes][D];
    int waiting[kLanes], n_waiting = 0;
    bool is_precise = true;
    const auto compute = [&] {
        Point<D> found[kLanes], far[kLanes];
        if (n_waiting > 0) meet(lists, n_waiting, scale, found, s.has_far ? far : nullptr);
        for (int m = 0; m < n_waiting; m++) {
            s.points[waiting[m]] = found[m];
            const double size = larger(scale, size_of(found[m]));
            is_precise = is_precise && found[m].rho <= kStoredRadius * size;
            if (!s.has_far) continue;
            s.directions[waiting[m]] = far[m];
            is_precise = is_precise && far[m].rho <= kStoredRadius;
        }
        n_waiting = 0;
    };
    for (int i = place.start; i < place.start + place.n; i++) {
        if (are_simple_known && s.count_bits(s.mask(i)) == D) continue;
        const int n = s.collect(s.mask(i), place.first_facet, s.tight, is_facet);
        bool is_given = true;
        for (int t = 0; t < n; t++) is_given = is_given && s.pool[s.tight[t]].wall.layer < 0;
        if (is_given) continue;
        const Facet<D>** chosen = lists[n_waiting];
        if (n == D)
            for (int t = 0; t < D; t++) chosen[t] = s.pool + s.tight[t];
        else if (!s.choose_independent(n, D, chosen))
            return false;
        waiting[n_waiting++] = i;
        if (n_waiting == kLanes) compute();
    }
    compute();
    return is_precise;
}

// The forms in a polytope's list that are facets, as bits.
//
// A form is a facet if and only if some vertex lies on it and no other form of the list vanishes at
// all its vertices. Proof: facets are the maximal proper faces, every proper face lies in one, and
// no two forms of a list have the same hyperplane, because a form is listed only if it cuts. At a
// vertex with exactly D forms, nothing needs to be checked: all of them are facets.
template <int D>
void find_facets(const Polytopes<D>& s, const typename Polytopes<D>::Place& place, Word* found) {
    const int n_words = s.n_words;
    Word* shared = found + n_words;
    for (int w = 0; w < n_words; w++) {
        Word touched = 0, simple = 0;
        for (int i = place.start; i < place.start + place.n; i++) {
            touched |= s.mask(i)[w];
            if (s.count_bits(s.mask(i)) == D) simple |= s.mask(i)[w];
        }
        found[w] = simple;
        for (Word open = touched & ~simple; open != 0; open &= open - 1) {
            const Word flag = open & (~open + 1);
            for (int k = 0; k < n_words; k++) shared[k] = ~Word{0};
            for (int i = place.start; i < place.start + place.n; i++)
                for (int k = 0; k < n_words; k++)
                    if (s.mask(i)[w] & flag) shared[k] &= s.mask(i)[k];
            shared[w] &= ~flag;
            bool is_largest = true;
            for (int k = 0; k < n_words; k++) is_largest = is_largest && shared[k] == 0;
            if (is_largest) found[w] |= flag;
        }
    }
}

// Sort vertices by the facets they lie on. Otherwise, for groups with many forms, the order would
// depend on cuts that left no trace.
template <int D>
void sort_vertices(Polytopes<D>& s, const typename Polytopes<D>::Place& place,
                   const Word* is_facet) {
    int* order = s.above;
    const auto comes_before = [&](int one, int other) {
        for (int w = s.n_words - 1; w >= 0; w--) {
            const Word p = s.mask(place.start + one)[w] & is_facet[w],
                       q = s.mask(place.start + other)[w] & is_facet[w];
            if (p != q) return p < q;
        }
        return false;
    };
    for (int i = 0; i < place.n; i++) {
        int k = i;
        for (; k > 0 && comes_before(i, order[k - 1]); k--) order[k] = order[k - 1];
        order[k] = i;
    }
}

}  // namespace detail

// Store a cell. Return false if a vertex is too uncertain. With `is_precise`, the vertices are
// those on the stack, as set by the caller.
template <int D>
bool store_cell(Polytopes<D>& s, const typename Polytopes<D>::Place& place, Path<D>& path,
                Path<D>& pure, DoubledPath<D>& doubled, bool is_precise, Cells& cells) {
    const Network& network = *path.network;
    if (!cells.points) {
        // Only the winners are requested, and a group that ties on the whole cell has two.
        for (int t = 0; t < place.n_ties; t++)
            if (s.ties[t].row < 0) return false;
        detail::store_signature(path, cells);
        return true;
    }
    const int last = network.n_layers - 1, *rows = s.facets + place.first_facet;
    Path<D>& fresh = detail::fresh_path(path, pure);
    detail::find_facets(s, place, s.common);
    if (!is_precise) {
        bool is_known = place.is_canonical && place.reach.rho <= kStoredRadius * path.scale &&
                        place.reach.far_rho <= kStoredRadius;
        for (int f = 0; f < place.n_facets; f++) {
            Facet<D>& facet = s.pool[rows[f]];
            if (facet.is_pure || facet.wall.layer < 0) continue;
            is_known = false;
            facet = facet_of(wall_form(fresh, facet.wall), facet.wall, true);
        }
        if (!detail::set_vertices(s, place, path.scale, s.common, is_known)) {
            if (last < 0) return false;
            compose_doubled(path, doubled, last);
            for (int f = 0; f < place.n_facets; f++) {
                Facet<D>& facet = s.pool[rows[f]];
                if (facet.wall.layer >= 0)
                    facet = facet_of(detail::nearest_form(path, doubled, facet.wall), facet.wall,
                                     false);
            }
            if (!detail::set_vertices(s, place, path.scale, s.common, false)) return false;
        }
    }
    const std::int64_t cell = detail::store_map(fresh, cells);
    if (network.largest_group > 0) {
        detail::sort_vertices(s, place, s.common);
    } else {
        for (int i = 0; i < place.n; i++) s.above[i] = i;
    }
    double rho = 0.0, far_rho = 0.0;
    for (int i = 0; i < place.n; i++) {
        const int from = place.start + s.above[i];
        const std::int64_t v = cells.n_vertices++;
        rho = bound(rho, s.points[from].rho);
        for (int k = 0; k < D; k++) cells.points[v * D + k] = s.points[from].x[k];
        if (!cells.directions) continue;
        far_rho = bound(far_rho, s.directions[from].rho);
        for (int k = 0; k < D; k++) cells.directions[v * D + k] = s.directions[from].x[k];
        // A direction that rounds to zero no longer shows that the vertex is at infinity.
        if (s.directions[from].rho != 0.0 && size_of(s.directions[from]) == 0.0)
            far_rho = kInfinity;
    }
    cells.blurs[2 * cell] = rho, cells.blurs[2 * cell + 1] = far_rho;
    const std::int64_t first = cells.n_facets;
    for (int w = 0; w < s.n_words; w++) {
        for (Word bits = s.common[w]; bits != 0; bits &= bits - 1) {
            const int row = rows[64 * w + lowest_bit(bits)];
            const Wall& wall = s.pool[row].wall;
            if (wall.layer < 0) continue;
            const int group = network.layers[wall.layer].first_group + wall.group;
            s.tight[cells.n_facets - first] = row;
            cells.walls[2 * cells.n_facets] = group;
            // The form that does not win here; the row may belong to the other side.
            cells.walls[2 * cells.n_facets++ + 1] =
                wall.winner + wall.rival - path.signature[group];
        }
    }
    // Sort the ties and remove duplicates, independently of the order in which they were found.
    const std::int64_t first_tie = cells.n_ties;
    const auto add_tie = [&](std::int64_t facet, int group) {
        std::int64_t at = cells.n_ties;
        const auto follows = [&](std::int64_t t) {
            const std::int32_t* tie = cells.ties + 2 * t;
            return tie[0] > facet || (tie[0] == facet && tie[1] > group);
        };
        while (at > first_tie && follows(at - 1)) at--;
        const std::int32_t* before = cells.ties + 2 * (at - 1);
        if (at > first_tie && before[0] == facet && before[1] == group) return;
        for (std::int64_t t = 2 * cells.n_ties++ + 1; t > 2 * at + 1; t--)
            cells.ties[t] = cells.ties[t - 2];
        cells.ties[2 * at] = static_cast<std::int32_t>(facet);
        cells.ties[2 * at + 1] = group;
    };
    for (int t = 0; t < place.n_ties; t++) {
        const Tie& tie = s.ties[t];
        if (path.signature[tie.group] != tie.winner) continue;
        std::int64_t facet = tie.row < 0 ? -1 : 0;
        while (facet >= 0 && facet < cells.n_facets - first && s.tight[facet] != tie.row) facet++;
        if (facet < cells.n_facets - first) add_tie(facet, tie.group);
    }
    // Forms that coincide in exact arithmetic no longer compete, and produce no zero signs: they
    // tie with the winner on the whole cell, or with the rival that named a facet on that facet.
    for (int l = 0; l < network.n_layers; l++) {
        if (!path.frames[l].is_merged) continue;
        const Layer& layer = network.layers[l];
        const auto has_coinciding = [&](int group, int form) {
            return path.frames[l].merged.has_coinciding[layer.starts[group] + form];
        };
        for (int g = 0; g < layer.n_groups; g++)
            if (has_coinciding(g, path.signature[layer.first_group + g]))
                add_tie(-1, layer.first_group + g);
        for (std::int64_t f = first; f < cells.n_facets; f++) {
            const int g = cells.walls[2 * f] - layer.first_group;
            if (g >= 0 && g < layer.n_groups && has_coinciding(g, cells.walls[2 * f + 1]))
                add_tie(f - first, layer.first_group + g);
        }
    }
    cells.ends[cell] = cells.n_vertices;
    cells.facet_ends[cell] = cells.n_facets;
    cells.tie_ends[cell] = cells.n_ties;
    return true;
}

// Recompute the facets and vertices of a polytope. Return whether anything became more precise. The
// facets are shared with other polytopes on the stack, for which the new facets are equally valid.
template <int D>
bool improve_cell(Polytopes<D>& s, typename Polytopes<D>::Place& place, const Path<D>& path) {
    bool is_clearer = false;
    for (int f = place.first_facet; f < place.first_facet + place.n_facets; f++) {
        Facet<D>& facet = s.pool[s.facets[f]];
        if (facet.wall.layer < 0) continue;
        const Facet<D> better = facet_of(wall_form(path, facet.wall), facet.wall, false);
        const Form<D>&form = better.form, &old = facet.form;
        if (!(form.slope_radius <= old.slope_radius && form.offset_radius <= old.offset_radius))
            continue;
        if (!(2.0 * form.slope_radius < old.slope_radius ||
              2.0 * form.offset_radius < old.offset_radius))
            continue;
        is_clearer = true;
        facet = better;
    }
    for (int i = place.start; i < place.start + place.n; i++) {
        const int n = s.collect(s.mask(i), place.first_facet, s.tight);
        const Facet<D>* chosen[D];
        if (!s.choose_independent(n, D, chosen)) continue;
        Point<D> v{}, direction{};
        meet(&chosen, 1, path.scale, &v, s.has_far ? &direction : nullptr);
        Point<D>& old = s.points[i];
        bool is_better = v.rho <= old.rho, is_much_better = 2.0 * v.rho < old.rho;
        if (s.has_far) {
            // If many facets meet in a vertex at infinity, the chosen facets may not show that it
            // is at infinity.
            const bool is_far = s.at(place).is_far(i - place.start);
            is_better = is_better && is_far == (direction.rho != 0.0) &&
                        direction.rho <= s.directions[i].rho;
            is_much_better = is_much_better || 2.0 * direction.rho < s.directions[i].rho;
        }
        if (!is_better || !is_much_better) continue;
        is_clearer = true;
        old = v;
        if (s.has_far) s.directions[i] = direction;
    }
    place.is_canonical = false;
    place.reach = reach_of(s.at(place));
    return is_clearer;
}

}  // namespace hardmax
