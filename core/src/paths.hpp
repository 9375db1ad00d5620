// The stream before the first layer, as a caller gives it.
#pragma once
#include "hardmax/doubled.hpp"
#include "hardmax/interface.h"
#include "hardmax/path.hpp"
#include "hardmax/polygon.hpp"

namespace hardmax {

inline void copy_rows(const double* rows, int n, const Forms<2>& forms) {
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < n; i++) forms.coefficient[k][i] = rows[k * n + i];
    for (int i = 0; i < n; i++) forms.radius[i] = rows[3 * n + i];
}

inline void begin_path(const hm_plane_start& start, Path<2>& path, DoubledPath<2>& doubled) {
    const int n = path.network->dim_stream;
    path.scale = start.scale;
    copy_rows(start.stream, n, path.frames[0].stream);
    path.frames[0].stream_exactness = {start.stream_is_exact != 0, start.stream_grid};
    const DoubledForms<2>& first = doubled.streams[0];
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < n; i++) {
            first.high.coefficient[k][i] = start.doubled_stream[k * n + i];
            first.low[k][i] = start.doubled_stream[(3 + k) * n + i];
        }
    }
    for (int i = 0; i < n; i++) first.high.radius[i] = start.doubled_stream[6 * n + i];
    note_homogeneous(path);
}

inline void read_edge(const double* numbers, const std::int32_t* wall, Edge& edge) {
    edge.line = {{numbers[0], numbers[1]}, numbers[2], numbers[4], numbers[5]};
    edge.far_offset = numbers[3];
    edge.start = {numbers[6], numbers[7], numbers[8], numbers[9], numbers[10], numbers[11]};
    edge.wall = {wall[0], wall[1], wall[2], wall[3]};
    edge.mark = 0;
    edge.is_new = edge.is_met = false;
}

}  // namespace hardmax
