// The stream before the first layer, as given by a caller.
#pragma once
#include "hardmax/doubled.hpp"
#include "hardmax/interface.h"
#include "hardmax/path.hpp"
#include "hardmax/polygon.hpp"

namespace hardmax {

template <int D>
void copy_rows(const double* rows, int n, const Forms<D>& forms) {
    for (int k = 0; k <= D; k++)
        for (int i = 0; i < n; i++) forms.coefficient[k][i] = rows[k * n + i];
    for (int i = 0; i < n; i++) forms.radius[i] = rows[(D + 1) * n + i];
}

template <int D>
void begin_path(const hm_search_start& start, Path<D>& path, DoubledPath<D>& doubled) {
    const int n = path.network->dim_stream;
    path.scale = start.scale;
    copy_rows(start.stream, n, path.frames[0].stream);
    path.frames[0].stream_exactness = {start.stream_is_exact != 0, start.stream_grid};
    const DoubledForms<D>& first = doubled.streams[0];
    for (int k = 0; k <= D; k++) {
        for (int i = 0; i < n; i++) {
            first.high.coefficient[k][i] = start.doubled_stream[k * n + i];
            first.low[k][i] = start.doubled_stream[(D + 1 + k) * n + i];
        }
    }
    for (int i = 0; i < n; i++) first.high.radius[i] = start.doubled_stream[(2 * D + 2) * n + i];
    note_homogeneous(path);
}

inline void read_edge(const double* line, const double* start, const std::int32_t* wall,
                      Edge& edge) {
    edge.line = {{line[0], line[1]}, line[2], line[4], line[5]};
    edge.far_offset = line[3];
    edge.start = {start[0], start[1], start[2], start[3], start[4], start[5], {}};
    edge.wall = {wall[0], wall[1], wall[2], wall[3]};
    edge.mark = 0;
    edge.is_new = edge.is_met = false;
}

// Read an edge from a row of HM_EDGE_NUMBERS: its line, then its start.
inline void read_edge(const double* numbers, const std::int32_t* wall, Edge& edge) {
    read_edge(numbers, numbers + 6, wall, edge);
}

}  // namespace hardmax
