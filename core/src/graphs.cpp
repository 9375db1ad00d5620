#include "hardmax/graph_search.hpp"

using namespace hardmax;

extern "C" {

void hm_graph_compose(const hm_graph_cell* cell, int32_t dim, int64_t begin, int64_t end) {
    if (dim == 1)
        compose_graph<1>(*cell, begin, end);
    else
        compose_graph<2>(*cell, begin, end);
}

void hm_graph_differentiate(const hm_graph_cell* cell, int64_t n_columns, double* derivatives,
                            uint8_t* is_moved) {
    differentiate_graph(*cell, n_columns, derivatives, is_moved);
}

size_t hm_graph_side_size(int32_t dim) { return dim == 1 ? sizeof(Side<1>) : sizeof(Side<2>); }

void hm_graph_search_begin(hm_graph_search* search, int32_t dim, int64_t n_sides,
                           const double* lines, const double* radii) {
    if (dim == 1)
        begin_graph_search<1>(*search, n_sides, lines, radii);
    else
        begin_graph_search<2>(*search, n_sides, lines, radii);
}

int32_t hm_graph_search_run(hm_graph_search* search, int32_t dim, int64_t n_pieces) {
    return dim == 1 ? run_graph_search<1>(*search, n_pieces)
                    : run_graph_search<2>(*search, n_pieces);
}

}  // extern "C"
