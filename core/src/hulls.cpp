#include "hardmax/hulls.hpp"

#include "hardmax/interface.h"
#include "hardmax/joint.hpp"
#include "hardmax/ranges.hpp"

using namespace hardmax;

namespace {

// Whether each tuple has a vertex of every head.
bool are_tuples(const Fan& fan, const int64_t* leaves, int64_t n) {
    bool is_bad = false;
    for (int64_t i = 0; i < n; ++i)
        for (int64_t h = 0; h < fan.n_heads; ++h) {
            const int64_t vertex = leaves[i * fan.n_heads + h];
            is_bad |= !is_between(vertex, fan.first_vertex[h], fan.first_vertex[h + 1] - 1);
        }
    return !is_bad;
}

}  // namespace

extern "C" {

size_t hm_nearest_size(int32_t dim) { return room_for<NearestPoint>(dim); }

int32_t hm_nearest(void* memory, const double* rows, int64_t n_rows, int32_t dim, int32_t n_start,
                   double quality, int32_t most_rounds, int64_t* support, double* weights,
                   double* point, int32_t* n_active) {
    NearestPoint& search = placed<NearestPoint>(memory, dim);
    search.support = support;
    search.weights = weights;
    search.point = point;
    const Separation answer = find_nearest(search, {rows, n_rows, n_start, quality, most_rounds});
    *n_active = search.n_active;
    return answer;
}

size_t hm_invert_size(int32_t dim) { return room_for<Simplex>(dim); }

int32_t hm_invert(void* memory, const double* rows, int32_t dim, double* inverse,
                  double bounds[2]) {
    Simplex& simplex = placed<Simplex>(memory, dim);
    for (int32_t i = 0; i < dim; ++i) simplex.columns[i] = rows + i * dim;
    simplex.inverse = {inverse, 0.0, 0.0};
    const bool is_regular = invert(simplex.columns, dim, simplex.matrix, simplex.inverse);
    bounds[0] = simplex.inverse.defect;
    bounds[1] = simplex.inverse.roughness;
    return is_regular;
}

size_t hm_candidates_size(int64_t n_points, int64_t n_rays, int32_t dim) {
    return room_for<CandidateSearch>(n_points, n_rays, dim);
}

void hm_candidates_init(void* search, int64_t n_points, int64_t n_rays, int32_t dim,
                        const double* points, const double* rays, const uint8_t* is_known,
                        double quality) {
    CandidateSearch& s = placed<CandidateSearch>(search, n_points, n_rays, dim);
    s.points = points;
    s.rays = rays;
    s.quality = quality;
    s.n_known = 0;
    for (int64_t i = 0; i < n_points; ++i) {
        s.is_known[i] = is_known[i];
        if (is_known[i]) s.known[s.n_known++] = i;
    }
}

int32_t hm_candidates_find(void* search, int64_t n_targets, const int64_t* targets,
                           int64_t* status, int64_t* n_support, int64_t* support,
                           double* directions) {
    CandidateSearch& s = *static_cast<CandidateSearch*>(search);
    if (!all_between(targets, n_targets, 0, s.n_points - 1)) return HM_OUT_OF_RANGE;
    for (int64_t i = 0; i < n_targets; ++i) {
        status[i] = find_candidate(s, targets[i]);
        n_support[i] = s.nearest.n_active;
        for (int a = 0; a < s.nearest.n_active; ++a)
            support[i * (s.dim + 2) + a] = s.owners[s.nearest.support[a]];
        detail::copy(s.nearest.point, s.dim, directions + i * s.dim);
    }
    return HM_OK;
}

size_t hm_hull_vertices_size(int64_t n, int32_t dim) { return room_for<HullVertices>(n, dim); }

void hm_hull_vertices_init(void* search, int64_t n, int32_t dim, const double* points,
                           int8_t* verdict) {
    HullVertices& s = placed<HullVertices>(search, n, dim);
    s.points = points;
    start_vertices(s, verdict);
}

void hm_hull_vertices_decide(void* search, int64_t first, int64_t last, int8_t* verdict,
                             int64_t* supports) {
    HullVertices& s = *static_cast<HullVertices*>(search);
    for (int64_t step = first; step < last; ++step) {
        if (step < s.n) {
            go_outwards(s, step, verdict);
            continue;
        }
        const int64_t k = step - s.n;
        int64_t* support = supports + k * (s.dim + 1);
        for (int a = 0; a <= s.dim; ++a) support[a] = -1;
        if (verdict[k] == kUnseen) decide_vertex(s, k, verdict, support);
    }
}

size_t hm_hull_edges_size(int64_t n, int32_t dim) { return room_for<HullEdges>(n, dim); }

int32_t hm_hull_edges_init(void* search, int64_t n, int32_t dim, const double* rows,
                           int8_t* adjacent, int64_t* claims, int64_t room_claims,
                           int32_t n_samples) {
    HullEdges& s = placed<HullEdges>(search, n, dim);
    s.rows = rows;
    s.adjacent = adjacent;
    s.claims = claims;
    s.room_claims = room_claims;
    for (int64_t k = 0; k < n * n; ++k) adjacent[k] = kUnseen;
    return sampled_edges(s, n_samples);
}

int64_t hm_hull_edges_decide(void* search, int64_t first, int64_t last) {
    HullEdges& s = *static_cast<HullEdges*>(search);
    for (int64_t j = first; j < last; ++j) decide_edges(s, j);
    return s.n_claims;
}

size_t hm_joint_size(const hm_fan* fan, int64_t n_base) {
    return room_for<JointSearch>(*fan, n_base);
}

void hm_joint_init(void* search, const hm_fan* fan, int64_t n_base) {
    placed<JointSearch>(search, *fan, n_base);
}

int32_t hm_joint_load(void* search, int64_t level, int64_t n_rows, const int64_t* rows,
                      const int64_t* winners, const double* direction) {
    JointSearch& s = *static_cast<JointSearch*>(search);
    const Fan& fan = *s.fan;
    if (!is_between(level, 0, fan.n_heads) || !is_between(n_rows, 0, s.room_rows) ||
        !all_between(rows, n_rows, 0, fan.n_rows - 1) ||
        !all_between(winners, level, 0, fan.first_vertex[fan.n_heads] - 1))
        return HM_OUT_OF_RANGE;
    load(s, level, n_rows, rows, winners, direction);
    return HM_OK;
}

int32_t hm_joint_run(void* search, int64_t root, int64_t steps, hm_joint_found* found) {
    return run(*static_cast<JointSearch*>(search), root, steps, *found);
}

int32_t hm_joint_check(const hm_fan* fan, int64_t n, const int64_t* leaves,
                       const double* directions, uint8_t* is_proved, double* margins) {
    if (!are_tuples(*fan, leaves, n)) return HM_OUT_OF_RANGE;
    for (int64_t i = 0; i < n; ++i) {
        const int64_t* leaf = leaves + i * fan->n_heads;
        const double* direction = directions + i * fan->dim;
        is_proved[i] = selects(*fan, leaf, direction);
        if (margins) margins[i] = margin(*fan, leaf, direction);
    }
    return HM_OK;
}

size_t hm_joint_facets_size(const hm_fan* fan) {
    return room_for<FacetSearch>(fan->n_rows, static_cast<int>(fan->dim));
}

int32_t hm_joint_facets(void* memory, const hm_fan* fan, const int64_t* line,
                        const int64_t* leaves, int64_t n, const int64_t* cells,
                        const int64_t* walls, int8_t* verdict) {
    if (!all_between(walls, n, 0, fan->n_rows - 1)) return HM_OUT_OF_RANGE;
    FacetSearch& s = placed<FacetSearch>(memory, fan->n_rows, static_cast<int>(fan->dim));
    for (int64_t q = 0; q < n; ++q) {
        const int64_t* leaf = leaves + cells[q] * fan->n_heads;
        if (!are_tuples(*fan, leaf, 1)) return HM_OUT_OF_RANGE;
        verdict[q] = static_cast<int8_t>(is_facet(s, *fan, line, leaf, walls[q]));
    }
    return HM_OK;
}

int32_t hm_test_is_positive(const double* row, const double* direction, int32_t dim) {
    return is_positive(row, direction, dim);
}

int32_t hm_test_is_inside(const double* row, double sign, const double* inverse,
                          const double* bounds, int32_t dim) {
    return is_inside(row, sign, {const_cast<double*>(inverse), bounds[0], bounds[1]}, dim);
}

}  // extern "C"
