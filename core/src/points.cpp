#include "hardmax/points.hpp"

#include "hardmax/interface.h"

using namespace hardmax;

namespace {

template <class Winner>
void name_points(Points& points, int64_t n_points, const double* given, int first_group,
                 Winner* signatures, uint8_t* open) {
    const int dim = points.embedding.n_in, n_groups = points.network->n_groups - first_group;
    for (int64_t at = 0; at < n_points; at += kLanes) {
        const int n = static_cast<int>(n_points - at < kLanes ? n_points - at : kLanes);
        for (int k = 0; k < dim; k++) {
            // Where there are fewer points, the last one is taken again.
            for (int p = 0; p < kLanes; p++)
                points.coordinates[k][p] = given[(at + (p < n ? p : n - 1)) * dim + k];
        }
        const LaneBits left_open = find_winners(points);
        for (int p = 0; p < n; p++) {
            Winner* to = signatures + (at + p) * n_groups;
            for (int g = 0; g < n_groups; g++)
                to[g] = static_cast<Winner>(points.winners[first_group + g][p]);
            open[at + p] = left_open[p] != 0;
        }
    }
}

}  // namespace

extern "C" {

size_t hm_points_size(const void* network, int32_t dim, int32_t is_identity) {
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

}  // extern "C"
