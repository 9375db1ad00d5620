#include "hardmax/graph_search.hpp"
#include "hardmax/ranges.hpp"

using namespace hardmax;

namespace {

// Whether the listed readers of a node's inputs are rows of the node and entries of these rows.
bool has_users(const GraphNode& node, int64_t n_readers, int64_t n_entries) {
    if (!rise(node.use_starts, n_readers)) return false;
    for (int64_t j = 0; j < node.use_starts[n_readers]; j++)
        if (!is_between(node.uses[2 * j], 0, node.n_rows - 1) ||
            !is_between(node.uses[2 * j + 1], 0, n_entries - 1))
            return false;
    return true;
}

// Whether a node reads and writes existing slots, and reads only from earlier nodes.
bool is_node(const GraphCell& cell, int64_t at, int64_t n_groups) {
    // Slots are counted in ints, and so are products of a few of these sizes.
    constexpr int64_t most = (int64_t{1} << 31) - 1;
    const GraphNode& node = cell.nodes[at];
    if (!is_between(node.kind, kBlock, kMaxima) || !is_between(node.n_rows, 0, most) ||
        !is_between(node.first, 0, cell.n_slots) ||
        !is_between(node.first_dirty, 0, cell.n_slots) || !is_between(node.low, 0, cell.n_slots) ||
        !is_between(node.n_readable, 0, cell.n_slots - node.low) ||
        !is_between(node.n_sources, 0, at) ||
        !all_between(node.sources, node.n_sources, 0, at - 1))
        return false;
    if (node.kind == kBlock) {
        if (!is_between(node.n_columns, 1, most) || !is_between(node.n_taps, 0, most) ||
            !is_between(node.n_channels, 0, cell.n_slots) || !is_between(node.stride, 1, most))
            return false;
        const int64_t n_written = node.n_rows * node.n_columns;
        if (node.n_rows > 0 &&
            (node.first + (node.n_rows - 1) * node.stride + node.n_columns > cell.n_slots ||
             n_written > cell.n_slots - node.first_dirty))
            return false;
        int64_t n_pixels = 0;
        for (int64_t i = 0; i < node.n_readable; i++)
            n_pixels = node.owners[i] >= n_pixels ? node.owners[i] + 1 : n_pixels;
        return all_between(node.columns, node.n_rows * node.n_taps, -1,
                           cell.n_slots - node.n_channels) &&
               all_between(node.owners, node.n_readable, -1, most) && n_pixels <= node.n_readable &&
               has_users(node, n_pixels, node.n_taps);
    }
    if (node.n_rows > cell.n_slots - node.first || node.n_rows > cell.n_slots - node.first_dirty ||
        !rise(node.starts, node.n_rows))
        return false;
    const int64_t n_entries = node.starts[node.n_rows];
    if (node.kind == kMaxima) {
        if (!is_between(node.first_group, 0, n_groups) ||
            node.n_rows > n_groups - node.first_group)
            return false;
        for (int64_t g = 0; g < node.n_rows; g++)
            if (node.starts[g] == node.starts[g + 1] ||
                !is_between(cell.winners[node.first_group + g], 0,
                            node.starts[g + 1] - node.starts[g] - 1))
                return false;
    }
    return all_between(node.columns, n_entries, node.kind == kMaxima ? -1 : 0, cell.n_slots - 1) &&
           has_users(node, node.n_readable, n_entries);
}

}  // namespace

extern "C" {

int32_t hm_graph_check(const hm_graph_cell* cell, int64_t n_groups) {
    if (!is_between(cell->n_slots, 0, (int64_t{1} << 31) - 1) || cell->n_nodes < 0)
        return HM_OUT_OF_RANGE;
    for (int64_t at = 0; at < cell->n_nodes; at++)
        if (!is_node(*cell, at, n_groups)) return HM_OUT_OF_RANGE;
    return HM_OK;
}

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

int32_t hm_graph_search_run(hm_graph_search* search, int32_t dim, int64_t n_pieces,
                            const int32_t* is_stopped) {
    return dim == 1 ? run_graph_search<1>(*search, n_pieces, is_stopped)
                    : run_graph_search<2>(*search, n_pieces, is_stopped);
}

}  // extern "C"
