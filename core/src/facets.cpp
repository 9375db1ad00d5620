#include "hardmax/facets.hpp"

using namespace hardmax;

extern "C" {

int64_t hm_facets_match(const hm_facets* facets, const uint64_t* weights, uint64_t* keys,
                        int32_t* table, int64_t table_size, int64_t* since, int8_t* is_loose,
                        int64_t* pairs) {
    return match_facets(FacetTable{*facets}, weights, keys, table, table_size, since, is_loose,
                        pairs);
}

void hm_facets_sort(const hm_facets* facets, int64_t n, int64_t* pairs, int64_t* counts,
                    int64_t* cells) {
    sort_pairs(FacetTable{*facets}, n, pairs, counts, cells);
}

int64_t hm_facets_sides(const hm_facets* facets, int64_t n, const int64_t* chosen, int32_t* table,
                        int64_t table_size, int64_t* walls, int64_t* counts, int64_t* near) {
    return choose_sides(FacetTable{*facets}, n, chosen, table, table_size, walls, counts, near);
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
