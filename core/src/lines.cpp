#include "hardmax/lines.hpp"

#include "hardmax/doubled.hpp"
#include "hardmax/interface.h"
#include "hardmax/line_integers.hpp"
#include "hardmax/line_maps.hpp"
#include "hardmax/ranges.hpp"

using namespace hardmax;

extern "C" {

// Whether the sizes of consecutive maps match, and products of sizes are small.
static bool are_maps(const hm_normed_map* maps, int64_t n) {
    constexpr int64_t most = (int64_t{1} << 31) - 1;
    for (int64_t l = 0; l < n; ++l) {
        if (!is_between(maps[l].n_in, 0, most) || !is_between(maps[l].n_out, 0, most)) return false;
        if (l > 0 && maps[l].n_in != maps[l - 1].n_out) return false;
    }
    return true;
}

size_t hm_line_pack(hm_normed_map* maps, int64_t n, int64_t n_layers, void* memory) {
    if (!are_maps(maps, n)) return 0;
    return pack_maps(maps, n, n_layers, memory);
}

void hm_line_enter(const hm_normed_map* map, const double* const ends[2], const double weights[2],
                   double* rows, double* scales) {
    enter_line(*map, ends, weights, rows, reinterpret_cast<LineScale*>(scales));
}

static LineSearch search_in(void* memory, size_t memory_size, const hm_normed_map* maps,
                            int64_t n_layers) {
    const size_t half = memory_size / 2 & ~size_t{63};
    char* start = static_cast<char*>(memory);
    return {maps, n_layers, 0, 0, {}, nullptr, {start, start + half}, half, 0};
}

static void write_run(const LineSearch& search, const FoundCells& found, hm_line_run* run) {
    run->index = search.index;
    run->n = search.rows.n;
    run->values = search.rows.values;
    run->scales = &search.rows.scales->e;
    run->blurs = &search.rows.blurs->left;
    run->places = search.rows.places->at;
    run->names = &search.rows.names->layer;
    run->is_open = search.is_open;
    run->n_signs = search.n_signs;
    run->where = found.where;
    run->radii = found.radii;
    run->groups = found.groups;
    run->winners = found.winners;
}

int32_t hm_line_advance(const hm_normed_map* maps, int64_t n_layers, double reach, hm_line_run* run,
                        uint8_t* states, const int64_t* most_rows, int64_t most_entries,
                        void* memory, size_t memory_size) {
    LineSearch search = search_in(memory, memory_size, maps, n_layers);
    FoundCells found = {};
    search.index = run->index;
    search.rows = {run->n,
                   run->values,
                   reinterpret_cast<const LineScale*>(run->scales),
                   reinterpret_cast<const Blur*>(run->blurs),
                   reinterpret_cast<const Place*>(run->places),
                   reinterpret_cast<const PointName*>(run->names)};
    const LineStatus status = advance(search, states, most_rows, most_entries, reach, found);
    write_run(search, found, run);
    return status;
}

int32_t hm_line_between(const hm_normed_map* maps, int64_t n_layers, const double* start,
                        const double* end, hm_line_run* run, uint8_t* states,
                        const int64_t* most_rows, int64_t most_entries, void* memory,
                        size_t memory_size) {
    LineSearch search = search_in(memory, memory_size, maps, n_layers);
    FoundCells found = {};
    const double* const ends[2] = {start, end};
    const LineStatus status = advance_between(search, ends, states, most_rows, most_entries, found);
    write_run(search, found, run);
    return status;
}

void hm_line_doubled(const hm_normed_map* maps, int64_t first, int64_t last, const uint8_t* states,
                     double* blocks, int64_t n_blocks, int64_t stride) {
    const auto block = [&](int64_t b) {
        double* rows = blocks + 5 * b * stride;
        return DoubledForms<1>{{{rows, rows + stride}, rows + 4 * stride},
                               {rows + 2 * stride, rows + 3 * stride}};
    };
    for (int64_t l = 0; l < last; ++l) {
        const int n_in = static_cast<int>(maps[l].n_in), n_out = static_cast<int>(maps[l].n_out);
        if (l > 0) states += n_in;
        if (l < first) continue;
        const DoubledForms<1> source = block(l > 0 ? n_blocks - 1 : 0);
        if (l > 0) {
            detail::clear(source, n_in);
            for (int j = 0; j < n_in; ++j)
                if (states[j - n_in]) detail::copy_form(block(l), j, source, j);
        }
        Affine map;
        map.n_in = n_in;
        map.n_out = map.stride = n_out;
        map.weight = maps[l].rows;
        map.bias = maps[l].rows + static_cast<size_t>(n_in) * static_cast<size_t>(n_out);
        detail::compose(source, map, 1.0, block(l + 1));
    }
}

size_t hm_line_maps_size(const hm_normed_map* maps, int64_t n_layers, int64_t n_changes) {
    return room_for<LineMaps>(maps, n_layers, n_changes);
}

int32_t hm_line_maps_init(void* memory, const hm_normed_map* maps, int64_t n_layers,
                          int64_t n_cells, int64_t n_changes, const uint8_t* signature,
                          const int64_t* starts, const int64_t* entries, const uint8_t* winners,
                          const double* stream, const double errors[2]) {
    int64_t n_units = 0;
    for (int64_t l = 0; l < n_layers; ++l) n_units += maps[l].n_out;
    if (n_cells < 0 || !rise(starts, n_cells) || starts[n_cells] != n_changes ||
        !all_between(entries, n_changes, 0, n_units - 1))
        return HM_OUT_OF_RANGE;
    LineMaps& search = placed<LineMaps>(memory, maps, n_layers, n_changes);
    start_maps(search, n_cells, signature, starts, entries, winners, stream, errors);
    return HM_OK;
}

int64_t hm_line_maps_compose(void* memory, int64_t first, double* values, double* radii) {
    return compose_maps(*static_cast<LineMaps*>(memory), first, values, radii);
}

void hm_test_line_changes(const hm_normed_map* map, const double* left, const double* right,
                          double scale, double beta, double eta, int64_t changes[2]) {
    const detail::Changes found = detail::count_changes(left, right, *map, {scale, beta}, eta);
    changes[0] = found.n;
    changes[1] = found.sum;
}

int64_t hm_test_line_careful(const hm_normed_map* map, const double* left, const double* right,
                             const double* scales, const double* blur) {
    return detail::count_carefully(left, right, *map, reinterpret_cast<const LineScale*>(scales),
                                   {blur[0], blur[1]});
}

int32_t hm_test_line_zeros(const hm_normed_map* map, const double* left, const double* right,
                           double scale, double beta, int64_t n, hm_line_zero* zeros) {
    return detail::find_zeros(left, right, *map, {scale, beta}, n, zeros);
}

int32_t hm_test_line_blurs(const hm_line_zero* zeros, int64_t n, const double* outer,
                           double* blurs) {
    return detail::find_blurs(zeros, n, {outer[0], outer[1]}, reinterpret_cast<Blur*>(blurs));
}

void hm_line_ends(int64_t n, const double* places, const double* blurs, int64_t n_layers,
                  double reach, double* where, double* radii) {
    bound_ends(n, reinterpret_cast<const Place*>(places), reinterpret_cast<const Blur*>(blurs),
               n_layers, reach, where, radii);
}

size_t hm_line_integers_size(const hm_normed_map* maps, int64_t n_layers) {
    return room_for<IntegerLine>(maps, n_layers);
}

int32_t hm_line_integers_begin(void* memory, const hm_normed_map* maps, int64_t n_layers,
                               const double* stream, int32_t are_ends, const int64_t outer[4]) {
    IntegerLine& search = placed<IntegerLine>(memory, maps, n_layers);
    const Ratio ends[2] = {{outer[0], outer[1]}, {outer[2], outer[3]}};
    return begin_integers(search, stream, are_ends != 0, ends);
}

void hm_line_integers_run(void* memory, hm_line_pieces* pieces) {
    run_integers(*static_cast<IntegerLine*>(memory), *pieces);
}

}  // extern "C"
