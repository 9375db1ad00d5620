#include "hardmax/convex_hull.hpp"
#include "hardmax/interface.h"
#include "hardmax/planar_hull.hpp"
#include "hardmax/ranges.hpp"

namespace {

using namespace hardmax;

template <int N>
HullPoints<N> read(const hm_hull_points& given) {
    HullPoints<N> points{};
    points.n = given.n;
    points.limbs[0] = given.limbs;
    points.limbs[1] = given.last_limbs;
    points.columns[0] = given.columns;
    points.columns[1] = given.last;
    points.floats = given.floats;
    if (!given.columns) detail::measure_floats(points);
    return points;
}

template <int N>
struct Dimension {
    static constexpr int n = N;
};

// Make a call with the dimension as a constant.
template <class Call>
auto in_dimension(int32_t dim, Call call) {
    if (dim == 3) return call(Dimension<3>{});
    if (dim == 4) return call(Dimension<4>{});
    return call(Dimension<5>{});
}

template <int N>
ConvexHull<N>& as_hull(void* hull, Dimension<N>) {
    return *static_cast<ConvexHull<N>*>(hull);
}

}  // namespace

extern "C" {

size_t hm_hull_size(const hm_hull_points* points) {
    return in_dimension(
        points->dim, [&](auto d) { return room_for<ConvexHull<d.n>>(read<d.n>(*points), false); });
}

size_t hm_hull_facets_size(int32_t dim, int32_t room) {
    return in_dimension(dim, [&](auto d) {
        ConvexHull<d.n> hull{};
        Arena arena;
        lay_out_facets(hull, arena, room);
        return arena.used;
    });
}

int32_t hm_hull_begin(void* hull, const hm_hull_points* points, int32_t is_upper,
                      const int32_t* start, void* facets, int32_t room) {
    const int n_corners = points->dim + !is_upper;
    if (room <= points->dim || (start && !all_between(start, n_corners, 0, points->n - 1)))
        return HM_OUT_OF_RANGE;
    return in_dimension(points->dim, [&](auto d) -> int32_t {
        auto& h = placed<ConvexHull<d.n>>(hull, read<d.n>(*points), is_upper != 0);
        Arena arena{static_cast<char*>(facets)};
        lay_out_facets(h, arena, room);
        return begin(h, start);
    });
}

void hm_hull_move(void* hull, int32_t dim, void* facets, int32_t room) {
    in_dimension(dim, [&](auto d) {
        auto& h = as_hull(hull, d);
        const auto before = h;
        Arena arena{static_cast<char*>(facets)};
        lay_out_facets(h, arena, room);
        __builtin_memcpy(h.facets, before.facets,
                         sizeof(*h.facets) * static_cast<size_t>(h.n_facets));
        __builtin_memcpy(h.free, before.free, sizeof(*h.free) * static_cast<size_t>(h.n_free));
    });
}

int32_t hm_hull_run(void* hull, int32_t dim, int32_t budget) {
    return in_dimension(dim, [&](auto d) -> int32_t { return run(as_hull(hull, d), budget); });
}

int32_t hm_hull_n_facets(const void* hull, int32_t dim) {
    return in_dimension(dim, [&](auto d) {
        const auto& h = as_hull(const_cast<void*>(hull), d);
        return h.n_facets - h.n_free;
    });
}

int32_t hm_hull_finish(void* hull, int32_t dim, int32_t* corners, int32_t* faces) {
    return in_dimension(dim, [&](auto d) { return finish(as_hull(hull, d), corners, faces); });
}

int32_t hm_hull_vertices(void* memory, const hm_hull_points* points, const int32_t* corners,
                         int32_t n, int32_t exponent, double* vertices) {
    if (!all_between(corners, int64_t{n} * points->dim, 0, points->n - 1)) return HM_OUT_OF_RANGE;
    in_dimension(points->dim, [&](auto d) {
        const auto& h = placed<ConvexHull<d.n>>(memory, read<d.n>(*points), true);
        for (int32_t k = 0; k < n; k++, corners += d.n, vertices += d.n - 1)
            meeting_point(h.points, corners, exponent, vertices);
    });
    return HM_OK;
}

int32_t hm_planar_hull(int32_t n, const double* points, int32_t is_upper, const int32_t* order,
                       int32_t* scratch, int32_t* corners, int32_t* n_corners) {
    if (n < 1 || !all_below(order, n, n)) return HM_OUT_OF_RANGE;
    const PlanarPoints given(points, n);
    *n_corners = is_upper ? upper_hull(given, order, corners)
                          : planar_hull(given, order, scratch, corners);
    return HM_OK;
}

}  // extern "C"
