#include "hardmax/facets.hpp"

using namespace hardmax;

extern "C" {

void hm_facets_sort(const hm_facets* facets, void* memory, int64_t n, int64_t* pairs,
                    int64_t* cells, int64_t* groups) {
    sort_pairs(FacetTable{*facets}, *static_cast<Meeting*>(memory), n, pairs, cells, groups);
}

void hm_facets_corners(const hm_facets* facets, int64_t n, const int64_t* chosen, int64_t* starts,
                       int64_t* corners, double* boxes) {
    find_corners(FacetTable{*facets}, {n, chosen, starts, corners, boxes});
}

int64_t hm_facets_compare(const hm_facets* facets, int64_t n, const int64_t* chosen,
                          int64_t* starts, int64_t* corners, double* boxes, int64_t begin,
                          const int64_t* order, const int64_t* ends, int64_t* rows, double* normals,
                          int8_t* inside, int64_t room, int64_t* pairs, int64_t* verdicts,
                          int64_t* n_pairs) {
    return compare_facets(FacetTable{*facets}, {n, chosen, starts, corners, boxes}, begin, order,
                          ends, {rows, normals, inside}, room, pairs, verdicts, *n_pairs);
}

}  // extern "C"
