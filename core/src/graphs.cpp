#include "hardmax/graphs.hpp"

using namespace hardmax;

extern "C" {

void hm_graph_compose(const hm_graph_cell* cell, int32_t dim, int64_t begin, int64_t end) {
    if (dim == 1)
        compose_graph<1>(*cell, begin, end);
    else
        compose_graph<2>(*cell, begin, end);
}

int64_t hm_graph_flip(const hm_graph_cell* cell, int32_t dim, int64_t node, int64_t n_groups,
                      const int32_t* groups, int32_t winner, int32_t* woken) {
    return dim == 1 ? flip_groups<1>(*cell, node, n_groups, groups, winner, woken)
                    : flip_groups<2>(*cell, node, n_groups, groups, winner, woken);
}

int64_t hm_graph_gaps(const hm_graph_cell* cell, int32_t dim, const uint8_t* is_looked_at,
                      double* gaps, double* radii, int32_t* names) {
    return dim == 1 ? graph_gaps<1>(*cell, is_looked_at, gaps, radii, names)
                    : graph_gaps<2>(*cell, is_looked_at, gaps, radii, names);
}

int64_t hm_graph_next(const hm_graph_cell* cell, const uint8_t* is_looked_at, double end,
                      double* gaps, double* radii, int32_t* names, double* at) {
    return next_on_line(*cell, is_looked_at, end, gaps, radii, names, at);
}

}  // extern "C"
