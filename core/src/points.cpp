#include "hardmax/points.hpp"

#include <cstring>

#include "hardmax/interface.h"

using namespace hardmax;

namespace {

// Read up to four points; if there are fewer, repeat the last one.
int read_points(Points& points, int64_t at, int64_t n_points, const double* given) {
    const int dim = points.embedding.n_in,
              n = static_cast<int>(n_points - at < kLanes ? n_points - at : kLanes);
    for (int k = 0; k < dim; k++)
        for (int p = 0; p < kLanes; p++)
            points.coordinates[k][p] = given[(at + (p < n ? p : n - 1)) * dim + k];
    return n;
}

// An upper bound on the magnitudes of n coordinates.
double reach_of(const double* numbers, int64_t n) {
    Lanes most = all(0.0);
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) most = bound(most, absolute(load(numbers + i)));
    double reach = bound(bound(most[0], most[1]), bound(most[2], most[3]));
    for (; i < n; i++) reach = bound(reach, magnitude(numbers[i]));
    return reach;
}

template <class Winner>
void name_points(Points& points, int64_t n_points, const double* given, int first_group,
                 Winner* signatures, uint8_t* open) {
    const int n_groups = points.network->n_groups - first_group;
    if (n_points >= kFewPoints)
        begin_points(points, reach_of(given, n_points * points.embedding.n_in));
    for (int64_t at = 0; at < n_points; at += kLanes) {
        const int n = read_points(points, at, n_points, given);
        const LaneBits left_open = find_winners_quickly(points);
        for (int p = 0; p < n; p++) {
            Winner* to = signatures + (at + p) * n_groups;
            for (int g = 0; g < n_groups; g++)
                to[g] = static_cast<Winner>(points.winners[first_group + g][p]);
            open[at + p] = left_open[p] != 0;
        }
    }
}

// Words that may overflow.
typedef uint64_t LaneWords __attribute__((vector_size(32)));

// The sums of the winners, from a group on, each times a word.
LaneWords hashes_of(const Points& points, int first_group, const uint64_t* weights) {
    const Network& network = *points.network;
    LaneWords sum{};
    for (int l = 0; l < network.n_layers; l++) {
        const Layer& layer = network.layers[l];
        for (int g = most(layer.first_group, first_group); g < layer.first_group + layer.n_groups;
             g++) {
            const LaneWords winner = (LaneWords)points.winners[g],
                            weight = LaneWords{} + weights[g - first_group];
            sum += layer.is_relu ? -winner & weight : winner * weight;
        }
    }
    return sum;
}

}  // namespace

extern "C" {

size_t hm_points_size(const void* network, int32_t dim, int32_t is_identity) {
    const int dim_stream = static_cast<const Network*>(network)->dim_stream;
    if (dim < 1 || (is_identity && dim != dim_stream)) return 0;
    Arena arena;
    arena.take<Points>(1);
    take_points(*static_cast<const Network*>(network), {nullptr, nullptr}, dim, is_identity, arena);
    return arena.used;
}

void hm_points_init(void* memory, const void* network, int32_t dim, int32_t is_identity,
                    const double* embedding) {
    Arena arena{static_cast<char*>(memory)};
    Points& points = *arena.take<Points>(1);
    points = take_points(*static_cast<const Network*>(network), {nullptr, embedding}, dim,
                         is_identity, arena);
}

void hm_points_run(void* memory, int64_t n_points, const double* given, int32_t first_group,
                   uint8_t* short_signatures, int32_t* signatures, uint8_t* open) {
    Points& points = *static_cast<Points*>(memory);
    if (short_signatures)
        name_points(points, n_points, given, first_group, short_signatures, open);
    else
        name_points(points, n_points, given, first_group, signatures, open);
}

int64_t hm_points_tally(void* memory, int64_t n_points, double* given, const double* box,
                        int32_t first_group, const uint64_t* weights, int32_t* table,
                        int64_t n_places, uint64_t* distinct, int64_t* counts, int64_t* open,
                        int64_t* n_open) {
    Points& points = *static_cast<Points*>(memory);
    const int dim = points.embedding.n_in;
    const uint64_t mask = static_cast<uint64_t>(n_places) - 1;
    std::memset(table, -1, static_cast<size_t>(n_places) * sizeof *table);
    const double *low = box, *high = box + dim;
    for (int64_t i = 0; box && i < n_points; i++)
        for (int k = 0; k < dim; k++) {
            // The mean of the ends never overflows, but their difference can.
            const double share = given[i * dim + k];
            given[i * dim + k] = (1.0 - share) * low[k] + share * high[k];
        }
    if (n_points >= kFewPoints) begin_points(points, reach_of(given, n_points * dim));
    int64_t n_distinct = 0;
    *n_open = 0;
    for (int64_t at = 0; at < n_points; at += kLanes) {
        const int n = read_points(points, at, n_points, given);
        LaneBits is_inside = ~LaneBits{};
        for (int k = 0; box && k < dim; k++)
            is_inside &= (points.coordinates[k] > all(low[k])) &
                         (points.coordinates[k] < all(high[k]));
        const LaneBits left_open = find_winners_quickly(points);
        const LaneWords hashes = hashes_of(points, first_group, weights);
        for (int p = 0; p < n; p++) {
            if (!is_inside[p]) continue;
            if (left_open[p]) {
                open[(*n_open)++] = at + p;
                continue;
            }
            const uint64_t hash = hashes[p];
            uint64_t place = (hash ^ hash >> 32) * 0x9E3779B97F4A7C15u >> 32 & mask;
            while (table[place] >= 0 && distinct[table[place]] != hash) place = (place + 1) & mask;
            if (table[place] < 0) {
                table[place] = static_cast<int32_t>(n_distinct);
                distinct[n_distinct] = hash, counts[n_distinct] = 0;
                n_distinct++;
            }
            counts[table[place]]++;
        }
    }
    return n_distinct;
}

}  // extern "C"
