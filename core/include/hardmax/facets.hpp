// Facets of cells: matched across the splits that made them, and compared if they are not equal.
//
// A split divides one cell by a group. It is identified by the winners of all earlier groups. Cells
// with the same earlier winners are consecutive, and the first of them represents the split. Two
// cells on the two sides of a split share the forms of the layers up to it. Suppose that only ReLU
// units tie on the hyperplane of a facet. Then the stream after each layer is the same affine
// function there from both sides, and so are all forms. Hence the facets on that hyperplane are
// equal if the winners of their cells agree up to the ties, and otherwise have no common inner
// point. Facets are then matched by equal keys: the split, the two forms that meet, and the winners
// of the groups that do not tie. Keys are hashed, and keys with equal hashes are compared in full.
// If no other group ties, the match is the facet of the cell that differs in one winner.
//
// The other facets of a split are loose. If a layer that others follow has jumps, its loose facets
// are listed wall by wall, and those that are alone on their side are settled (`settle_walls`); see
// `overlays.hpp` for the others. Facets that this leaves open, and facets on which wider groups
// tie, are compared in pairs. Two facets in one hyperplane, of cells P and Q, overlap if the other
// rows of P and Q and the rows of the domain are all positive at some point of the hyperplane. Such
// a point is found by relaxation and verified with bounds on all errors. The facets do not overlap
// if a row of one cell is negative at all vertices of the other facet, or if some direction
// separates their vertices ([Gilbert66]). All other pairs are left open.
//
// Here a form is a row of slopes (a), the offset c, a radius r of each slope and a radius s of the
// offset. At a point x with an error of at most beta in each coordinate, the true value differs
// from the computed one by at most r (|x|_1 + d beta) + s + |a|_1 beta plus the rounding error of
// the computed value.
#pragma once
#include <cstring>

#include "arena.hpp"
#include "interface.h"
#include "lanes.hpp"
#include "rounding.hpp"

namespace hardmax {

// Kinds of layers: only units; continuous at its walls, or last; with jumps.
enum LayerKind : int { kUnits, kContinuous, kJumps };
enum Verdict : int { kOpen = -1, kApart = 0, kOverlap = 1 };
constexpr int kMostDimensions = 8;

// Cells with their facets and vertices.
struct FacetTable : hm_facets {
    std::int64_t n_cells, n_facets;
    const std::uint8_t* short_signatures;  // (n_cells, n_groups); or the array below
    const std::int32_t* signatures;
    const std::int64_t* starts;        // (n_cells + 1): the start of each cell's facets
    const std::int32_t* walls;         // (n_facets, 2): the group, and the form beyond the facet
    const std::int64_t* tie_starts;    // (n_cells + 1)
    const std::int32_t* ties;          // (n_ties, 2): a facet of the cell or -1, and a group
    const double* points;              // (n_points, dim)
    const double* directions;          // the same shape; null if the domain is bounded
    const std::int64_t* point_starts;  // (n_cells + 1)
    const double* blurs;               // (n_cells, 2): bounds on the radii of points and directions

    // The starts precede the ends: see `Cells`.
    explicit FacetTable(const hm_facets& given)
        : hm_facets(given),
          n_cells(cells->n_cells),
          n_facets(cells->n_facets),
          short_signatures(cells->short_signatures),
          signatures(cells->signatures),
          starts(cells->facet_ends - 1),
          walls(cells->walls),
          tie_starts(cells->tie_ends - 1),
          ties(cells->ties),
          points(cells->points),
          directions(cells->directions),
          point_starts(cells->ends - 1),
          blurs(cells->blurs) {}

    int winner(std::int64_t cell, int group) const {
        const std::int64_t at = cell * n_groups + group;
        return short_signatures ? short_signatures[at] : signatures[at];
    }
    int group(std::int64_t facet) const { return walls[2 * facet]; }
    int rival(std::int64_t facet) const { return walls[2 * facet + 1]; }
    int layer(int group) const { return static_cast<int>(group_layers[group]); }
    int n_layers() const { return n_groups > 0 ? layer(n_groups - 1) + 1 : 0; }
    int n_ties(std::int64_t cell) const {
        return static_cast<int>(tie_starts[cell + 1] - tie_starts[cell]);
    }
    int place(std::int64_t facet) const { return static_cast<int>(facet - starts[owners[facet]]); }
    // Whether a group ties on a facet.
    bool ties_on(std::int64_t facet, int group) const {
        const std::int64_t cell = owners[facet];
        for (std::int64_t t = tie_starts[cell]; t < tie_starts[cell + 1]; t++)
            if (ties[2 * t + 1] == group && (ties[2 * t] < 0 || ties[2 * t] == place(facet)))
                return true;
        return false;
    }
    // Whether a group other than a unit ties on a facet, in the facet's own layer or a later one.
    bool has_wide_tie(std::int64_t facet) const {
        const std::int64_t cell = owners[facet];
        for (std::int64_t t = tie_starts[cell]; t < tie_starts[cell + 1]; t++) {
            const int l = layer(ties[2 * t + 1]);
            if (kinds[l] != kUnits && l >= layer(group(facet)) &&
                (ties[2 * t] < 0 || ties[2 * t] == place(facet)))
                return true;
        }
        return false;
    }
    // Whether all cells of the domain are present and each facet has the same name from both sides.
    bool names_all() const { return covers && !is_chosen && tie_starts[n_cells] == 0; }
    // Whether the network may pass on a mean over forms that coincide on the whole cell; means are
    // not composed here.
    bool passes_mean(std::int64_t cell) const {
        for (std::int64_t k = tie_starts[cell]; k < tie_starts[cell + 1]; k++)
            if (ties[2 * k] < 0 && kinds[layer(ties[2 * k + 1])] != kUnits) return true;
        return false;
    }
    bool is_far(std::int64_t point) const {
        bool is_there = false;
        for (int k = 0; directions && k < dim; k++)
            is_there = is_there || directions[point * dim + k] != 0.0;
        return is_there;
    }
};

// --- Matching ------------------------------------------------------------------------------------

namespace detail {

// Call a function with the winners of all cells.
template <class F>
auto with_signatures(const FacetTable& t, F call) {
    return t.short_signatures ? call(t.short_signatures) : call(t.signatures);
}

// Load eight bytes of winners.
template <class Winner>
std::uint64_t eight_bytes(const Winner* winners) {
    std::uint64_t bytes;
    std::memcpy(&bytes, winners, sizeof bytes);
    return bytes;
}

// The first of n winners that differ in two rows, or n. The position is hard to predict, so all
// winners are compared without branching.
template <class Winner>
int first_difference(const Winner* one, const Winner* other, int n) {
    constexpr int n_at_once = 8 / sizeof(Winner);
    int first = n, g = n;
    for (; g % n_at_once != 0; g--) first = one[g - 1] != other[g - 1] ? g - 1 : first;
    for (g -= n_at_once; g >= 0; g -= n_at_once)
        first = eight_bytes(one + g) != eight_bytes(other + g) ? g : first;
    while (first < n && one[first] == other[first]) first++;
    return first;
}

// The number of groups, out of n, in which two rows of winners differ.
template <class Winner>
int count_differing(const Winner* one, const Winner* other, int n) {
    int count = 0, g = 0;
    if constexpr (sizeof(Winner) == 1)
        for (; g + 8 <= n; g += 8) {
            constexpr std::uint64_t low = 0x7f7f7f7f7f7f7f7fu;
            const std::uint64_t bits = eight_bytes(one + g) ^ eight_bytes(other + g);
            // The highest bit of each byte that is not zero.
            count += __builtin_popcountll((((bits & low) + low) | bits) & ~low);
        }
    for (; g < n; g++) count += one[g] != other[g];
    return count;
}

// The units that are on, out of at most 64, with the first unit in the highest bit, so that the
// words are in the order of the winners.
template <class Winner>
std::uint64_t word_of(const Winner* winners, int n) {
    std::uint64_t word = 0;
    int g = 0;
    if constexpr (sizeof(Winner) == 1 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
        for (; g + 8 <= n; g += 8) {
            // The term 2^(63 - 9 i) moves byte i to bit 63 - i. All other products are lower or are
            // lost, and no two coincide.
            word |= eight_bytes(winners + g) * 0x8040201008040201u >> 56 << (56 - g);
        }
    for (; g < n; g++) word |= static_cast<std::uint64_t>(winners[g]) << (63 - g);
    return word;
}

// Whether the cells of two facets of one split, on which the same two forms meet, have equal
// winners up to these forms and the groups that tie on both facets.
template <class Winner>
bool agree(const FacetTable& t, const Winner* signatures, std::int64_t one, std::int64_t other) {
    const std::int64_t first = t.owners[one], second = t.owners[other];
    const Winner *own = signatures + first * t.n_groups, *theirs = signatures + second * t.n_groups;
    const int group = t.group(one);
    if (t.n_ties(first) + t.n_ties(second) == 0)
        return count_differing(own, theirs, t.n_groups) == 1;
    for (int g = 0; g < t.n_groups; g++) {
        const bool ties = t.ties_on(one, g);
        if (ties != t.ties_on(other, g) || (g != group && !ties && own[g] != theirs[g]))
            return false;
    }
    return true;
}

}  // namespace detail

// The positions of a wall's loose facets, on which the same two forms of a split meet: from `begin`
// on the side with fewer facets, from `middle` on the other side, each in the order of their cells.
struct WallSides {
    std::int64_t begin, middle;
};

// A facet: its vertices, the rows of its cell that may separate it from facets beyond its wall (see
// `outlines.hpp`), and bounds on them. It has no vertices if they are not known with certainty.
struct Outline {
    const double* points;  // (n, dim)
    const double* rows;    // n_blocks
    int n, n_blocks;
    double size, rho;
    double low[kMostDimensions], high[kMostDimensions];
};
// The maximum number of facets on the larger side of a wall that are compared, and the capacity for
// the outlines of a wall.
constexpr std::int64_t kMostCompared = 512, kRoomForOutlines = 1 << 16;

// State kept between the calls.
struct Meeting : hm_meeting {
    // A search of the network, started when forms are needed: its memory and its initial data.
    void* search;
    std::size_t search_bytes;
    const void* network;
    hm_search_start start;
    // (n_facets) twice, and (n_facets + n_borders, dim + 3): the arrays of `FacetTable`.
    std::int64_t *owners, *splits;
    double* forms;
    std::int32_t* table;   // scratch: facets or cells by their hashes
    std::uint64_t* keys;   // (n_facets or n_cells): scratch, then the walls of loose facets
    std::int64_t* since;   // (n_groups + 1): scratch of `match_facets`, as is `sums`
    std::uint64_t* sums;   // (n_groups + 1)
    std::int64_t* counts;  // (n_facets, 2): scratch
    std::int64_t* order;   // (n_facets): `loose` of the interface
    std::int8_t* left;     // (n_facets): `is_open` of the interface
    WallSides* sides;      // (n_facets + 1)
    std::int64_t n_walls;
    std::int64_t* searched;       // (n_facets): positions in `order` of the facets whose far side
                                  // is searched
    std::int64_t* cell_counts;    // (n_cells + 1): scratch of `match_facets` and `sort_pairs`
    std::int64_t* larger_counts;  // (n_cells): scratch of `sort_pairs`
    std::int8_t* is_wanted;       // (n_cells): scratch of `compose_facets`
    // Scratch of `overlay`.
    std::int32_t* found;     // winners of kMostFound cells, as bytes if bytes suffice
    std::uint64_t* masks;    // (n_points)
    std::uint64_t* words;    // (n_facets)
    std::int64_t* versions;  // (n_layers)
    std::int32_t* winners;   // (n_groups)
    std::int64_t* ranges;    // (n_layers, 2)
    Outline* outlines;       // (2 kMostCompared): the outlines of a wall
    double* outline_room;    // (kRoomForOutlines)
    double* boxes;           // (kMostCompared, 2 dim)
};
constexpr int kMostFound = 256;

namespace detail {

inline std::int64_t table_size_for(std::int64_t n) {
    std::int64_t size = 2;
    while (size < 2 * n) size *= 2;
    return size;
}

// Numbers by their hashes; -1 marks an empty slot.
struct Table {
    std::int32_t* places;
    std::uint64_t mask;  // of the slots
};
inline Table empty_table(std::int32_t* places, std::int64_t n) {
    const std::int64_t size = table_size_for(n);
    std::memset(places, -1, static_cast<std::size_t>(size) * sizeof *places);
    return {places, static_cast<std::uint64_t>(size) - 1};
}

}  // namespace detail

inline void lay_out(Meeting& m, Arena& arena, const FacetTable& t) {
    const std::size_t n = t.n_facets, n_groups = t.n_groups;
    const std::size_t n_layers = t.n_layers();
    // Sized for all facets, or for all cells and the cells of one region.
    const std::int64_t of_facets = detail::table_size_for(t.n_facets),
                       of_cells = 2 * detail::table_size_for(2 * t.n_cells),
                       table_size = of_facets > of_cells ? of_facets : of_cells;
    m.pairs = arena.take<std::int64_t>(2 * n);
    m.cells = arena.take<std::int64_t>(2 * n);
    m.groups = arena.take<std::int64_t>(n);
    m.room = t.n_facets;
    m.owners = arena.take<std::int64_t>(n);
    m.splits = arena.take<std::int64_t>(n);
    m.forms = arena.take<double>((n + t.n_borders) * (t.dim + 3));
    m.table = arena.take<std::int32_t>(table_size);
    m.keys = arena.take<std::uint64_t>(t.n_facets > t.n_cells ? t.n_facets : t.n_cells);
    m.since = arena.take<std::int64_t>(n_groups + 1);
    m.sums = arena.take<std::uint64_t>(n_groups + 1);
    m.counts = arena.take<std::int64_t>(2 * n);
    m.loose = m.order = arena.take<std::int64_t>(n);
    m.is_open = m.left = arena.take<std::int8_t>(n);
    m.sides = arena.take<WallSides>(n + 1);
    m.searched = arena.take<std::int64_t>(n);
    m.cell_counts = arena.take<std::int64_t>(t.n_cells + 1);
    m.larger_counts = arena.take<std::int64_t>(t.n_cells);
    m.is_wanted = arena.take<std::int8_t>(t.n_cells);
    m.found = arena.take<std::int32_t>(kMostFound * n_groups);
    m.masks = arena.take<std::uint64_t>(t.point_starts[t.n_cells]);
    m.words = arena.take<std::uint64_t>(n);
    m.versions = arena.take<std::int64_t>(n_layers);
    m.winners = arena.take<std::int32_t>(n_groups);
    m.ranges = arena.take<std::int64_t>(2 * n_layers);
    m.outlines = arena.take<Outline>(2 * kMostCompared);
    m.outline_room = arena.take<double>(kRoomForOutlines);
    m.boxes = arena.take<double>(2 * t.dim * kMostCompared);
}

namespace detail {

// A hash of a split and the two forms that meet on a facet, in either order.
inline std::uint64_t hash_of_wall(std::int64_t split, int winner, int rival) {
    const std::uint64_t one = static_cast<std::uint64_t>(winner),
                        other = static_cast<std::uint64_t>(rival);
    return static_cast<std::uint64_t>(split) * 0x9E3779B97F4A7C15u + one * other + one + other;
}
inline std::uint64_t mixed(std::uint64_t key) {
    key = (key ^ key >> 32) * 0x9E3779B97F4A7C15u;
    return key ^ key >> 32;
}

}  // namespace detail

namespace detail {

// Insert a new number into a table by its hash.
inline void put(const Table& table, std::uint64_t hash, std::int64_t number) {
    std::uint64_t at = hash & table.mask;
    while (table.places[at] >= 0) at = (at + 1) & table.mask;
    table.places[at] = static_cast<std::int32_t>(number);
}

// The facet of a cell on which a group has the given rival, or -1.
inline std::int64_t facet_with(const FacetTable& t, std::int64_t cell, int group, int rival) {
    const std::int64_t first = t.starts[cell], end = t.starts[cell + 1];
    const std::int32_t wall[2] = {group, rival};
    const std::uint64_t wanted = eight_bytes(wall);
    std::int64_t f = first;
    if (first + 8 <= t.n_facets) {
        // Most cells have fewer facets, in a number that is hard to predict.
        LaneMask is_wanted;
        for (int k = 0; k < 8; k += kLanes) {
            LaneBits walls;
            std::memcpy(&walls, t.walls + 2 * (first + k), sizeof walls);
            is_wanted.add(walls == LaneBits{} + static_cast<std::int64_t>(wanted), k);
        }
        const std::uint64_t found = is_wanted.bits();
        if (found != 0 && first + __builtin_ctzll(found) < end)
            return first + __builtin_ctzll(found);
        f = first + 8;
    }
    for (; f < end; f++)
        if (t.group(f) == group && t.rival(f) == rival) return f;
    return -1;
}

inline int first_of_last_layer(const FacetTable& t) {
    int group = t.n_groups;
    while (group > 0 && t.layer(group - 1) == t.n_layers() - 1) group--;
    return group;
}

// The facet of an earlier cell that has the same winners as another cell except for the two that
// meet on a facet, or -1; no groups tie. `key` is the key of the cell; it is exact if no other cell
// of the table can have the same key.
template <class Winner>
std::int64_t facet_beyond(const FacetTable& t, const Winner* signatures, const Table& table,
                          const std::uint64_t* keys, std::uint64_t hash, std::uint64_t key,
                          bool is_exact, std::int64_t facet) {
    const Winner* winners = signatures + t.owners[facet] * t.n_groups;
    const int group = t.group(facet);
    for (std::uint64_t at = hash & table.mask; table.places[at] >= 0; at = (at + 1) & table.mask) {
        const std::int64_t other = table.places[at];
        if (keys[other] != key) continue;
        const Winner* theirs = signatures + other * t.n_groups;
        if (is_exact || (theirs[group] == t.rival(facet) &&
                         count_differing(winners, theirs, t.n_groups) == 1))
            return facet_with(t, other, group, winners[group]);
    }
    return -1;
}

// Match facets if no groups tie. The match of a facet is then a facet of the cell with the other
// winner, which is looked up from the later of the two cells.
//
// Splits by the last layer belong to one region of the earlier layers, whose cells are consecutive.
// They are looked up by the winners of that layer, combined to one number, in a small table that is
// cleared for each region. Units that fit into a word are its bits, so that no two cells of a
// region have the same key. Splits by earlier layers, if some of these are continuous at their
// walls, are looked up among all cells.
template <class Winner>
std::int64_t match_by_cells(const FacetTable& t, const Winner* signatures, Meeting& m,
                            std::int64_t* pairs) {
    const int n_groups = t.n_groups, last_layer = t.n_layers() - 1;
    const int last = first_of_last_layer(t);
    const bool has_words = n_groups > last && t.kinds[last_layer] == kUnits && n_groups - last <= 64;
    const auto weight = [&](int g) {
        return has_words && g >= last ? std::uint64_t{1} << (63 - (g - last)) : t.weights[g];
    };
    bool looks_everywhere = false;
    for (int l = 0; l < last_layer; l++)
        looks_everywhere = looks_everywhere || t.kinds[l] != kJumps;
    const Table every = empty_table(m.table, looks_everywhere ? 2 * t.n_cells : 0);
    // The winners of the last layer, and the first earlier group whose winner differs from the
    // previous cell.
    std::uint64_t* keys = m.keys;
    std::int64_t* changes = m.cell_counts;
    changes[t.n_cells] = 0;
    for (std::int64_t cell = 0; cell < t.n_cells; cell++) {
        const Winner* winners = signatures + cell * n_groups;
        keys[cell] = has_words ? word_of(winners + last, n_groups - last) : 0;
        for (int g = last; !has_words && g < n_groups; g++)
            keys[cell] += t.weights[g] * static_cast<std::uint64_t>(winners[g]);
        changes[cell] = cell > 0 ? first_difference(winners, winners - n_groups, last) : 0;
    }
    std::memset(m.left, 1, static_cast<std::size_t>(t.n_facets));
    std::int64_t n_pairs = 0;
    for (std::int64_t first = 0, end; first < t.n_cells; first = end) {
        end = first + 1;
        while (changes[end] >= last && end < t.n_cells) end++;
        for (auto g = changes[first]; g < last; g++)
            m.sums[g + 1] =
                m.sums[g] + t.weights[g] * static_cast<std::uint64_t>(signatures[first * n_groups + g]);
        const std::uint64_t before = m.sums[last];
        const Table within = empty_table(m.table + every.mask + 1, 2 * (end - first));
        std::int64_t *later = m.searched, n_later = 0;
        for (std::int64_t cell = first; cell < end; cell++) {
            const Winner* winners = signatures + cell * n_groups;
            put(within, mixed(keys[cell]), cell);
            if (looks_everywhere) put(every, mixed(before + mixed(keys[cell])), cell);
            for (std::int64_t f = t.starts[cell]; f < t.starts[cell + 1]; f++) {
                const int group = t.group(f);
                t.owners[f] = cell;
                later[n_later] = f;
                n_later += (t.kinds[t.layer(group)] != kJumps) & (winners[group] > t.rival(f));
            }
        }
        for (std::int64_t i = 0; i < n_later; i++) {
            const std::int64_t f = later[i], cell = t.owners[f];
            const int group = t.group(f);
            const int less = signatures[cell * n_groups + group] - t.rival(f);
            const std::uint64_t own = keys[cell],
                                step = weight(group) * static_cast<std::uint64_t>(less);
            const std::int64_t other =
                group < last ? facet_beyond(t, signatures, every, keys,
                                            mixed(before - step + mixed(own)), own, false, f)
                             : facet_beyond(t, signatures, within, keys, mixed(own - step),
                                            own - step, has_words, f);
            if (other < 0) continue;
            pairs[2 * n_pairs] = other, pairs[2 * n_pairs + 1] = f;
            n_pairs++;
            m.left[f] = m.left[other] = false;
        }
    }
    return n_pairs;
}

// Number the splits of loose facets after `match_by_cells`.
template <class Winner>
void number_splits(const FacetTable& t, const Winner* signatures, Meeting& m) {
    const int n_groups = t.n_groups, last = first_of_last_layer(t);
    // A facet of the last layer is loose only if cells are missing.
    bool looks_within = false;
    for (std::int64_t i = 0; i < m.n_loose; i++)
        looks_within = looks_within || t.group(m.searched[i]) >= last;
    const int end = looks_within ? n_groups : last;
    for (std::int64_t i = 0, cell = 0; i < m.n_loose; i++) {
        const std::int64_t f = m.searched[i];
        for (; cell <= t.owners[f]; cell++) {
            const Winner* winners = signatures + cell * n_groups;
            std::int64_t g = m.cell_counts[cell];
            if (cell > 0 && g == last && last < end)
                g = first_difference(winners, winners - n_groups, n_groups);
            for (; g < end; g++) m.since[g + 1] = cell;
        }
        t.splits[f] = m.since[t.group(f)] * n_groups + t.group(f);
    }
}

// Match facets by their own keys if groups tie.
template <class Winner>
std::int64_t match_by_keys(const FacetTable& t, const Winner* signatures, Meeting& m,
                           std::int64_t* pairs) {
    const int n_groups = t.n_groups;
    const Table table = empty_table(m.table, t.n_facets);
    std::int8_t* is_loose = m.left;
    std::int64_t n_pairs = 0;
    for (std::int64_t cell = 0; cell < t.n_cells; cell++) {
        const Winner* winners = signatures + cell * n_groups;
        const int change =
            cell > 0 ? first_difference(winners, winners - n_groups, n_groups) : 0;
        for (int g = change; g < n_groups; g++) {
            m.since[g + 1] = cell;
            m.sums[g + 1] = m.sums[g] + t.weights[g] * static_cast<std::uint64_t>(winners[g]);
        }
        for (std::int64_t f = t.starts[cell]; f < t.starts[cell + 1]; f++) {
            const int group = t.group(f), rival = t.rival(f), winner = winners[group];
            t.owners[f] = cell;
            t.splits[f] = m.since[group] * n_groups + group;
            is_loose[f] = true;
            bool is_named = t.kinds[t.layer(group)] != kJumps;
            std::uint64_t key =
                m.sums[n_groups] - t.weights[group] * static_cast<std::uint64_t>(winner);
            if (t.n_ties(cell) > 0) {
                for (int g = 0; g < n_groups; g++)
                    if (g != group && t.ties_on(f, g))
                        key -= t.weights[g] * static_cast<std::uint64_t>(winners[g]);
                is_named = is_named && !t.has_wide_tie(f);
            }
            if (!is_named) continue;
            m.keys[f] = key = mixed(key + hash_of_wall(t.splits[f], winner, rival));
            std::uint64_t at = key & table.mask;
            for (; table.places[at] >= 0; at = (at + 1) & table.mask) {
                const std::int64_t other = table.places[at];
                if (m.keys[other] != key || t.splits[other] != t.splits[f] ||
                    t.rival(other) != winner ||
                    signatures[t.owners[other] * n_groups + group] != rival ||
                    !agree(t, signatures, other, f))
                    continue;
                pairs[2 * n_pairs] = other, pairs[2 * n_pairs + 1] = f;
                n_pairs++;
                is_loose[f] = is_loose[other] = false;
                break;
            }
            if (is_loose[f]) table.places[at] = static_cast<std::int32_t>(f);
        }
    }
    return n_pairs;
}

}  // namespace detail

// Write the pairs of facets that can be matched, with the earlier facet first. List the remaining
// facets of chosen cells in `searched`, with their splits. Return the number of pairs. The
// remaining facets are loose: they cannot be matched by key, or they have no partner, because two
// forms that tie on a facet may be one form on its other side, where no tie is visible.
inline std::int64_t match_facets(const FacetTable& t, Meeting& m, std::int64_t* pairs) {
    for (int g = 0; g <= t.n_groups; g++) m.since[g] = 0, m.sums[g] = 0;
    return detail::with_signatures(t, [&](const auto* signatures) {
        const bool has_ties = t.tie_starts[t.n_cells] > 0;
        const std::int64_t n_pairs = has_ties ? detail::match_by_keys(t, signatures, m, pairs)
                                              : detail::match_by_cells(t, signatures, m, pairs);
        std::int64_t n_loose = 0;
        for (std::int64_t f = 0; f < t.n_facets; f++) {
            m.searched[n_loose] = f;
            n_loose += m.left[f] && (!t.is_chosen || t.is_chosen[t.owners[f]]);
        }
        m.n_loose = n_loose;
        if (!has_ties) detail::number_splits(t, signatures, m);
        return n_pairs;
    });
}

// Sort pairs of facets by their smaller cell, then by the larger. Write the pairs of cells and the
// group of the first facet. The facet of the smaller cell comes first.
inline void sort_pairs(const FacetTable& t, Meeting& m, std::int64_t n, std::int64_t* pairs,
                       std::int64_t* cells, std::int64_t* groups) {
    // For each cell, the number of pairs in which it is the smaller or the larger one; then the
    // starts of these pairs.
    std::int64_t* counts[] = {m.cell_counts, m.larger_counts};
    for (std::int64_t cell = 0; cell < t.n_cells; cell++) counts[0][cell] = counts[1][cell] = 0;
    for (std::int64_t i = 0; i < n; i++) {
        const std::int64_t one = pairs[2 * i], other = pairs[2 * i + 1],
                           first = t.owners[one], second = t.owners[other];
        const bool is_swapped = first > second;
        pairs[2 * i] = is_swapped ? other : one, pairs[2 * i + 1] = is_swapped ? one : other;
        counts[0][is_swapped ? second : first]++, counts[1][is_swapped ? first : second]++;
    }
    std::int64_t begin[] = {0, 0};
    for (std::int64_t cell = 0; cell < t.n_cells; cell++)
        for (int side = 0; side < 2; side++) {
            const std::int64_t count = counts[side][cell];
            counts[side][cell] = begin[side], begin[side] += count;
        }
    // Sort by the larger cell from `pairs` to `cells`, then by the smaller cell back; both sorts
    // are stable.
    std::int64_t *from = pairs, *to = cells;
    for (int side = 1; side >= 0; side--) {
        for (std::int64_t i = 0; i < n; i++) {
            const std::int64_t at = counts[side][t.owners[from[2 * i + side]]]++;
            to[2 * at] = from[2 * i], to[2 * at + 1] = from[2 * i + 1];
        }
        from = cells, to = pairs;
    }
    for (std::int64_t i = 0; i < 2 * n; i++) cells[i] = t.owners[pairs[i]];
    for (std::int64_t i = 0; i < n; i++) groups[i] = t.group(pairs[2 * i]);
}

// List the loose facets grouped by wall, with the side that has fewer facets first.
inline void list_walls(const FacetTable& t, Meeting& m) {
    const auto winner_of = [&](std::int64_t f) { return t.winner(t.owners[f], t.group(f)); };
    // `keys` contains the numbers of their walls.
    m.n_walls = 0;
    const auto [places, mask] = detail::empty_table(m.table, m.n_loose);
    for (std::int64_t i = 0; i < m.n_loose; i++) {
        const std::int64_t f = m.searched[i], split = t.splits[f];
        const int winner = winner_of(f), rival = t.rival(f);
        std::uint64_t at = detail::mixed(detail::hash_of_wall(split, winner, rival)) & mask;
        const auto is_same = [&](std::int64_t other) {
            const int theirs = winner_of(other);
            return t.splits[other] == split &&
                   least(theirs, t.rival(other)) == least(winner, rival) &&
                   most(theirs, t.rival(other)) == most(winner, rival);
        };
        while (places[at] >= 0 && !is_same(m.searched[places[at]])) at = (at + 1) & mask;
        if (places[at] < 0) {
            places[at] = static_cast<std::int32_t>(i);
            m.counts[2 * m.n_walls] = m.counts[2 * m.n_walls + 1] = 0;
            m.keys[i] = static_cast<std::uint64_t>(m.n_walls++);
        } else {
            m.keys[i] = m.keys[places[at]];
        }
        m.counts[2 * m.keys[i] + (winner > rival)]++;
    }
    // The start of each side.
    std::int64_t end = 0;
    for (std::int64_t w = 0; w < m.n_walls; w++) {
        std::int64_t* count = m.counts + 2 * w;
        const std::int64_t near = count[1] < count[0], n_near = count[near],
                           n_far = count[1 - near];
        m.sides[w] = {end, end + n_near};
        count[near] = end, count[1 - near] = end + n_near;
        end += n_near + n_far;
    }
    m.sides[m.n_walls] = {end, end};
    for (std::int64_t i = 0; i < m.n_loose; i++) {
        const std::int64_t f = m.searched[i];
        m.order[m.counts[2 * m.keys[i] + (winner_of(f) > t.rival(f))]++] = f;
    }
}

namespace detail {

// The positions from `low` to `high` of the facets whose cells have the given winners in some
// groups; the winners of earlier groups are the same for all facets in range.
struct Range {
    std::int64_t low, high;
};
template <class Winner, class Given>
Range narrowed(const FacetTable& t, const Winner* signatures, const std::int64_t* order,
               Range range, const Given* winners, int first, int end) {
    // Whether the winners at a position come before the given winners or, with `is_after`, do not
    // come after them.
    const auto comes_before = [&](std::int64_t at, bool is_after) {
        const Winner* own = signatures + t.owners[order[at]] * t.n_groups;
        int g = first;
        while (g < end && own[g] == winners[g]) g++;
        return g < end ? static_cast<int>(own[g]) < static_cast<int>(winners[g]) : is_after;
    };
    const auto place_of = [&](std::int64_t low, std::int64_t high, bool is_after) {
        while (low < high) {
            const std::int64_t middle = low + (high - low) / 2;
            if (comes_before(middle, is_after))
                low = middle + 1;
            else
                high = middle;
        }
        return low;
    };
    const std::int64_t low = place_of(range.low, range.high, false);
    return {low, place_of(low, range.high, true)};
}

}  // namespace detail

// Append the pairs of loose facets that follow from counting, and list the facets whose far side
// must be searched. Return the new number of pairs. The other facets are left open.
//
// Let two forms meet on a hyperplane H in a layer with jumps. Beside H, the regions A and B of this
// layer have the same winners except for these two forms. A meets H where the two forms exceed the
// other forms of their group and the other groups have these winners, and B meets H in the same
// set. The facets on H of all cells of A form this set, and so do the facets of all cells of B. They are
// exactly the facets of the wall if no group ties on any facet, because then all cells beside H
// name it in the same way. Hence a facet that is alone on its side meets all facets of the other
// side.
inline std::int64_t settle_walls(const FacetTable& t, Meeting& m, std::int64_t n_pairs,
                                 std::int64_t* pairs) {
    const bool covers = t.names_all();
    m.n_searched = 0;
    for (std::int64_t i = 0; i < m.n_loose; i++) m.left[i] = true;
    for (std::int64_t w = 0; w < m.n_walls; w++) {
        const WallSides& side = m.sides[w];
        const std::int64_t end = m.sides[w + 1].begin;
        const int group = t.group(m.order[side.begin]), l = t.layer(group);
        if (t.kinds[l] != kJumps) continue;
        int last = group + 1;
        while (last < t.n_groups && t.layer(last) == l) last++;
        detail::with_signatures(t, [&](const auto* signatures) {
            // Facets whose cells have the same winners of the layer, except for the wall's group.
            detail::Range near{side.begin, side.begin};
            for (; near.low < side.middle; near.low = near.high) {
                const std::int64_t facet = m.order[near.low];
                const auto* winners = signatures + t.owners[facet] * t.n_groups;
                near = detail::narrowed(t, signatures, m.order, {near.low, side.middle}, winners,
                                        group + 1, last);
                const detail::Range far = detail::narrowed(
                    t, signatures, m.order, {side.middle, end}, winners, group + 1, last);
                const bool is_settled =
                    covers && (near.high - near.low == 1 || far.high - far.low == 1);
                for (std::int64_t i = near.low; i < near.high; i++) {
                    if (!is_settled) {
                        m.searched[m.n_searched++] = i;
                        continue;
                    }
                    m.left[i] = false;
                    for (std::int64_t k = far.low; k < far.high; k++) {
                        pairs[2 * n_pairs] = m.order[i], pairs[2 * n_pairs + 1] = m.order[k];
                        n_pairs++;
                    }
                }
            }
        });
    }
    return n_pairs;
}

// An open facet on one side may meet any facet beyond its wall: mark these facets, and count the
// open ones.
inline void count_open(Meeting& m) {
    m.n_open = 0;
    for (std::int64_t w = 0; w < m.n_walls; w++) {
        bool is_open = false;
        for (std::int64_t i = m.sides[w].begin; i < m.sides[w + 1].begin; i++) {
            if (i < m.sides[w].middle)
                is_open = is_open || m.left[i];
            else
                m.left[i] = is_open;
            m.n_open += m.left[i];
        }
    }
}

// --- Comparing -----------------------------------------------------------------------------------

namespace detail {

// The sign of a form at a point with an error of at most `blur`, or 0 if it is undecided. For a
// direction, the offset is ignored.
inline int sign_at(const FacetTable& t, std::int64_t row, const double* x, double blur,
                   bool is_direction = false) {
    const double* form = t.forms + row * (t.dim + 3);
    double value = is_direction ? 0.0 : form[t.dim], size = magnitude(value), slopes = 0.0,
           reach = 0.0;
    for (int k = 0; k < t.dim; k++) {
        const double term = form[k] * x[k];
        value += term;
        size += magnitude(term);
        slopes += magnitude(form[k]);
        reach += magnitude(x[k]);
    }
    double error = 2.0 * kKappa * size + form[t.dim + 1] * (reach + t.dim * blur) + slopes * blur;
    if (!is_direction) error += form[t.dim + 2];
    error = error * kUp + kTiny;
    return value > error ? 1 : value < -error ? -1 : 0;
}

inline int sign_at_vertex(const FacetTable& t, std::int64_t row, std::int64_t vertex,
                          std::int64_t cell) {
    if (t.is_far(vertex))
        return sign_at(t, row, t.directions + vertex * t.dim, t.blurs[2 * cell + 1], true);
    return sign_at(t, row, t.points + vertex * t.dim, t.blurs[2 * cell]);
}

}  // namespace detail

// Facets to be compared: the vertices of each facet, possibly with additional ones, and bounds on
// their coordinates, which are infinite if a vertex may be at infinity.
struct Corners {
    std::int64_t n;
    const std::int64_t* chosen;  // (n): facets
    std::int64_t* starts;        // (n + 1)
    std::int64_t* corners;       // vertices
    double* boxes;               // (n, 2, dim)

    double low(std::int64_t m, int k, int dim) const { return boxes[2 * m * dim + k]; }
    double high(std::int64_t m, int k, int dim) const { return boxes[(2 * m + 1) * dim + k]; }
};

inline void find_corners(const FacetTable& t, const Corners& c) {
    std::int64_t n_corners = 0;
    c.starts[0] = 0;
    for (std::int64_t m = 0; m < c.n; m++) {
        const std::int64_t facet = c.chosen[m], cell = t.owners[facet];
        const double blur = t.blurs[2 * cell];
        double *low = c.boxes + 2 * m * t.dim, *high = low + t.dim;
        for (int k = 0; k < t.dim; k++) low[k] = kInfinity, high[k] = -kInfinity;
        bool reaches_far = !(blur < kInfinity && t.blurs[2 * cell + 1] < kInfinity);
        for (std::int64_t i = t.point_starts[cell]; i < t.point_starts[cell + 1]; i++) {
            if (detail::sign_at_vertex(t, facet, i, cell) != 0) continue;
            c.corners[n_corners++] = i;
            if (t.is_far(i)) {
                reaches_far = true;
                continue;
            }
            for (int k = 0; k < t.dim; k++) {
                const double x = t.points[i * t.dim + k];
                const double widened = (blur + 2.0 * kKappa * magnitude(x)) * kUp + kTiny;
                low[k] = x - widened < low[k] ? x - widened : low[k];
                high[k] = larger(high[k], x + widened);
            }
        }
        c.starts[m + 1] = n_corners;
        for (int k = 0; reaches_far && k < t.dim; k++) low[k] = -kInfinity, high[k] = kInfinity;
    }
}

// Scratch for comparing two facets: the rows of two cells and of the domain, and the vertices of
// one cell.
struct Comparison {
    std::int64_t* rows;   // (n_rows)
    double* normals;      // (n_rows, dim + 1)
    std::int8_t* inside;  // (maximum number of vertices of a cell)
};

namespace detail {

// Move a place approximately into a hyperplane. Return false if this failed.
inline bool move_in(const FacetTable& t, std::int64_t plane, double* place) {
    const double* form = t.forms + plane * (t.dim + 3);
    double value = form[t.dim], square = 0.0;
    for (int k = 0; k < t.dim; k++) {
        value += form[k] * place[k];
        square += form[k] * form[k];
    }
    if (!(0.0 < square && square < kInfinity)) return false;
    for (int k = 0; k < t.dim; k++) place[k] -= value / square * form[k];
    return true;
}

// Whether rows are certainly positive at a point of a hyperplane near a place. The point differs
// from the place in the coordinate with the largest slope.
inline bool is_common(const FacetTable& t, std::int64_t plane, const std::int64_t* rows, int n_rows,
                      const double* place) {
    const double* form = t.forms + plane * (t.dim + 3);
    double value = form[t.dim], size = magnitude(value), reach = 0.0, slope = 0.0;
    for (int k = 0; k < t.dim; k++) {
        const double term = form[k] * place[k];
        value += term;
        size += magnitude(term);
        reach += magnitude(place[k]);
        slope = larger(slope, magnitude(form[k]));
    }
    const double error =
        (2.0 * kKappa * size + form[t.dim + 1] * reach + form[t.dim + 2]) * kUp + kTiny;
    const double least = slope - form[t.dim + 1];
    if (!(least > 0.0)) return false;
    const double blur = (magnitude(value) + error) / least * kUp + kTiny;
    if (!(blur < kInfinity)) return false;
    for (int r = 0; r < n_rows; r++)
        if (sign_at(t, rows[r], place, blur) <= 0) return false;
    return true;
}

// Move a place within a hyperplane to a point where rows are positive by some margin. Each step
// crosses the row with the lowest value relative to its slope within the hyperplane. The result
// needs no proof, because it is verified.
inline bool relax(const FacetTable& t, std::int64_t plane, const Comparison& scratch, int n_rows,
                  const Corners& c, std::int64_t m, std::int64_t n, double* place) {
    constexpr int most_steps = 64;
    constexpr double shrink = 0.85;
    const int dim = t.dim, stride = dim + 1;
    const double* flat = t.forms + plane * (dim + 3);
    const auto form = [&](int r) { return t.forms + scratch.rows[r] * (dim + 3); };
    double square = 0.0, kept[kMostDimensions];
    for (int k = 0; k < dim; k++) square += flat[k] * flat[k];
    for (int r = 0; r < n_rows; r++) {
        double* normal = scratch.normals + r * stride;
        double along = 0.0, length = 0.0;
        for (int k = 0; k < dim; k++) along += form(r)[k] * flat[k];
        for (int k = 0; k < dim; k++) {
            normal[k] = form(r)[k] - along / square * flat[k];
            length += normal[k] * normal[k];
        }
        normal[dim] = length = __builtin_sqrt(length);
        for (int k = 0; length > 0.0 && k < dim; k++) normal[k] /= length;
    }
    double target = 0.0;
    for (int k = 0; k < dim; k++) {
        const double low = larger(c.low(m, k, dim), c.low(n, k, dim));
        const double one = c.high(m, k, dim), other = c.high(n, k, dim);
        target = larger(target, 0.25 * ((one < other ? one : other) - low));
    }
    if (!(target < kInfinity)) {
        target = 1.0;
        for (int k = 0; k < dim; k++) target = larger(target, magnitude(place[k]));
    }
    double best = -kInfinity;
    for (int step = 0; step < most_steps; step++) {
        double lowest = kInfinity;
        int at = -1;
        for (int r = 0; r < n_rows; r++) {
            const double length = scratch.normals[r * stride + dim];
            if (!(length > 0.0)) continue;
            double value = form(r)[dim];
            for (int k = 0; k < dim; k++) value += form(r)[k] * place[k];
            if (value < lowest * length) lowest = value / length, at = r;
        }
        if (at < 0) return false;
        if (lowest > best) {
            best = lowest;
            for (int k = 0; k < dim; k++) kept[k] = place[k];
        }
        if (lowest >= target) break;
        for (int k = 0; k < dim; k++)
            place[k] += (target - lowest) * scratch.normals[at * stride + k];
        target *= shrink;
    }
    if (!(best > 0.0)) return false;
    for (int k = 0; k < dim; k++) place[k] = kept[k];
    return move_in(t, plane, place);
}

// Look for a direction in which all vertices of one facet precede all vertices of the other. This
// is Gilbert's iteration for the shortest difference of points; the result is verified.
inline bool are_parted(const FacetTable& t, const Corners& c, std::int64_t m, std::int64_t n,
                       double blur) {
    constexpr int most_turns = 24;
    const int dim = t.dim;
    const auto point = [&](std::int64_t i) { return t.points + i * dim; };
    double way[kMostDimensions];
    for (int k = 0; k < dim; k++)
        way[k] = point(c.corners[c.starts[m]])[k] - point(c.corners[c.starts[n]])[k];
    for (int turn = 0; turn < most_turns; turn++) {
        double low = kInfinity, high = -kInfinity, size = 0.0, reach = 0.0;
        std::int64_t lowest = 0, highest = 0;
        const auto along = [&](std::int64_t i) {
            double value = 0.0;
            for (int k = 0; k < dim; k++) {
                value += way[k] * point(i)[k];
                size = larger(size, magnitude(point(i)[k]));
            }
            return value;
        };
        for (std::int64_t i = c.starts[m]; i < c.starts[m + 1]; i++) {
            const double value = along(c.corners[i]);
            if (value < low) low = value, lowest = c.corners[i];
        }
        for (std::int64_t i = c.starts[n]; i < c.starts[n + 1]; i++) {
            const double value = along(c.corners[i]);
            if (value > high) high = value, highest = c.corners[i];
        }
        for (int k = 0; k < dim; k++) reach += magnitude(way[k]);
        const double error = (reach * (blur + 8.0 * kKappa * size) +
                              2.0 * kKappa * (magnitude(low) + magnitude(high))) *
                             kUp;
        // kTiny also covers rounded products that vanish.
        if (low - high > error) return low - high > kTiny;
        double square = 0.0, back = 0.0, step[kMostDimensions];
        for (int k = 0; k < dim; k++) {
            step[k] = point(lowest)[k] - point(highest)[k] - way[k];
            square += step[k] * step[k];
            back -= step[k] * way[k];
        }
        if (!(back > 0.0 && square > 0.0)) return false;
        const double share = back < square ? back / square : 1.0;
        for (int k = 0; k < dim; k++) way[k] += share * step[k];
    }
    return false;
}

// Compare two facets in one hyperplane, at positions m and n of the chosen facets.
inline int compare(const FacetTable& t, const Corners& c, std::int64_t m, std::int64_t n,
                   const Comparison& scratch) {
    const std::int64_t plane = c.chosen[m];
    double common[kMostDimensions] = {}, middle[kMostDimensions] = {};
    int n_rows = 0, n_common = 0, n_corners = 0;
    for (int side = 0; side < 2; side++) {
        const std::int64_t own = c.chosen[side == 0 ? m : n], theirs = side == 0 ? n : m;
        const std::int64_t cell = t.owners[own], beyond = t.owners[c.chosen[theirs]];
        const std::int64_t* corners = c.corners + c.starts[theirs];
        const int count = static_cast<int>(c.starts[theirs + 1] - c.starts[theirs]);
        const bool is_known =
            t.blurs[2 * beyond] < kInfinity && t.blurs[2 * beyond + 1] < kInfinity;
        for (int i = 0; i < count; i++) scratch.inside[i] = 1;
        for (std::int64_t row = t.starts[cell]; row < t.starts[cell + 1]; row++) {
            if (row == own) continue;
            scratch.rows[n_rows++] = row;
            int n_beyond = 0;
            for (int i = 0; i < count; i++) {
                if (sign_at_vertex(t, row, corners[i], beyond) >= 0) continue;
                scratch.inside[i] = 0;
                n_beyond++;
            }
            if (is_known && n_beyond == count) return kApart;
        }
        for (int i = 0; i < count; i++) {
            if (t.is_far(corners[i])) continue;
            n_corners++;
            n_common += scratch.inside[i];
            for (int k = 0; k < t.dim; k++) {
                const double x = t.points[corners[i] * t.dim + k];
                middle[k] += x;
                if (scratch.inside[i]) common[k] += x;
            }
        }
    }
    if (n_corners == 0) return kOpen;
    for (int b = 0; b < t.n_borders; b++) scratch.rows[n_rows++] = t.n_facets + b;
    double place[kMostDimensions];
    for (int k = 0; k < t.dim; k++)
        place[k] = n_common > 0 ? common[k] / n_common : middle[k] / n_corners;
    if (!move_in(t, plane, place)) return kOpen;
    if (is_common(t, plane, scratch.rows, n_rows, place)) return kOverlap;
    const bool is_bounded = c.high(m, 0, t.dim) < kInfinity && c.high(n, 0, t.dim) < kInfinity;
    const double blur = t.blurs[2 * t.owners[plane]] + t.blurs[2 * t.owners[c.chosen[n]]];
    if (is_bounded && are_parted(t, c, m, n, blur)) return kApart;
    if (relax(t, plane, scratch, n_rows, c, m, n, place) &&
        is_common(t, plane, scratch.rows, n_rows, place))
        return kOverlap;
    return kOpen;
}

// Whether two facets of one split may lie on its two sides.
//
// The earlier layers have the same winners, so this layer has the same forms on both sides. If
// another group of this layer has two different winners and no ties, it has a wall between the
// facets.
inline bool may_touch(const FacetTable& t, std::int64_t one, std::int64_t other) {
    const std::int64_t first = t.owners[one], second = t.owners[other];
    const int group = t.group(one);
    if (t.winner(first, group) == t.winner(second, group)) return false;
    if (t.n_ties(first) + t.n_ties(second) > 0) return true;
    for (int g = 0; g < t.n_groups; g++)
        if (g != group && t.layer(g) == t.layer(group) && t.winner(first, g) != t.winner(second, g))
            return false;
    return true;
}

}  // namespace detail

// Write the pairs of facets that overlap or may overlap, with the smaller facet first: kOverlap or
// kOpen.
//
// `order` lists positions of chosen facets by split, then by the lowest first coordinate; `ends`
// contains the end of each entry's split. Begins at `begin`, returns the position at which to
// continue, and counts the pairs, at most `room`.
inline std::int64_t compare_facets(const FacetTable& t, const Corners& c, std::int64_t begin,
                                   const std::int64_t* order, const std::int64_t* ends,
                                   const Comparison& scratch, std::int64_t room,
                                   std::int64_t* pairs, std::int64_t* verdicts,
                                   std::int64_t& n_pairs) {
    n_pairs = 0;
    for (std::int64_t position = begin; position < c.n; position++) {
        if (n_pairs + ends[position] - position > room) return position;
        const std::int64_t m = order[position], one = c.chosen[m];
        for (std::int64_t later = position + 1; later < ends[position]; later++) {
            const std::int64_t n = order[later], other = c.chosen[n];
            if (c.low(n, 0, t.dim) > c.high(m, 0, t.dim)) break;
            if (!detail::may_touch(t, one, other)) continue;
            bool are_apart = false;
            for (int k = 0; k < t.dim; k++)
                are_apart = are_apart || c.low(m, k, t.dim) > c.high(n, k, t.dim) ||
                            c.low(n, k, t.dim) > c.high(m, k, t.dim);
            if (are_apart) continue;
            const int group = t.group(one);
            int verdict = kOpen;
            // Whether the same two forms meet.
            if (t.winner(t.owners[one], group) == t.rival(other) &&
                t.winner(t.owners[other], group) == t.rival(one))
                verdict = detail::compare(t, c, m, n, scratch);
            // Forms that do not tie on one facet do not meet on the other.
            else if (!t.ties_on(one, group) && !t.ties_on(other, group))
                continue;
            if (verdict == kApart) continue;
            pairs[2 * n_pairs] = one < other ? one : other;
            pairs[2 * n_pairs + 1] = one < other ? other : one;
            verdicts[n_pairs++] = verdict;
        }
    }
    return c.n;
}

}  // namespace hardmax
