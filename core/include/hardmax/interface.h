/* The C interface of the core: all that Python, a browser or a device host may call.
 *
 * Plain C: numbers, pointers to arrays owned by the caller, status codes. Nothing is kept between
 * calls. A function that can fail returns an hm_status. Names that begin with hm_test_ expose the
 * primitives to the tests and are not for use.
 *
 * Whoever changes a function or a meaning raises HM_INTERFACE_VERSION, here and in
 * src/hardmax/_core/library.py, where the same signatures are declared.
 */
#ifndef HARDMAX_INTERFACE_H
#define HARDMAX_INTERFACE_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define HM_API __declspec(dllexport)
#else
#define HM_API __attribute__((visibility("default")))
#endif

#define HM_INTERFACE_VERSION 16

#ifdef __cplusplus
extern "C" {
#endif

enum hm_status {
    HM_OK = 0,
    HM_OUT_OF_MEMORY = 1, /* a buffer of the caller is too small */
    HM_UNAVAILABLE = 2,   /* this build or this processor cannot do it */
    HM_OUT_OF_RANGE = 3   /* a size or an index of the caller refers to nothing: nothing was done */
};

/* Sizes and indices that can come from a file or a page are checked where a computation begins (see
 * checks.hpp). A function that returns a size returns 0 for them, others HM_OUT_OF_RANGE. */

/* The version of this interface: HM_INTERFACE_VERSION of the header it was compiled with. */
HM_API int32_t hm_interface_version(void);

/* The instruction set this library was compiled for: "baseline" or "x86-64-v3". */
HM_API const char* hm_instruction_set(void);

/* The widest instruction set, of those above, that this processor and system can run. */
HM_API const char* hm_widest_instruction_set(void);

/* HM_OK if the calling thread rounds to nearest and keeps subnormal numbers; else HM_UNAVAILABLE.
 * Libraries built with -ffast-math switch subnormal numbers off for the thread that loads them. */
HM_API int32_t hm_float_environment(void);

/* Memory of networks and searches belongs to the caller, who asks for its size first, keeps it on a
 * boundary of 64 bytes, and releases it when done. Networks are immutable; a search is used by one
 * thread at a time. */

/* Networks: see `Packed` in network.hpp. The first takes the lengths of the arrays, and returns 0 if
 * they are not a network (see `is_network`); the second is for arrays that the first has accepted, and
 * returns whether it is certain that the forms of a group differ, but for those that are said to
 * coincide; or -1 if another thread has set `is_stopped`, which may be null, before all was read. */
HM_API size_t hm_network_size(const int64_t* integers, int64_t n_integers, const double* numbers,
                              int64_t n_numbers);
HM_API int32_t hm_network_init(void* network, const int64_t* integers, const double* numbers,
                               const int32_t* is_stopped);

enum { HM_EDGE_NUMBERS = 12 };

/* What a search starts with, on a domain of D dimensions: 1 to 7. */
typedef struct {
    int32_t dim;
    double scale; /* a power of two, no less than 1 and than any coordinate */
    const double*
        stream; /* (D + 2, dim_stream): slopes, offsets and radii before the first layer */
    const double* doubled_stream; /* (2 D + 3, dim_stream): high parts, low parts, radii */
    int32_t stream_is_exact;
    int32_t stream_grid;
    int32_t is_bounded;
    int32_t stores;
} hm_search_start;

/* Begin a search, with nothing on its stack, in a block of n_bytes; returns how many it takes. If these
 * are more, nothing has been done. The stack has room for edges of polygons, or vertices of polytopes,
 * and for cells. Returns 0 if there is no search of such a dimension, or with such room. */
HM_API size_t hm_search_begin(void* memory, size_t n_bytes, const void* network,
                              const hm_search_start* start, int32_t room, int32_t room_items);

/* Give the stack more room, in memory of its own; what is on it is kept. */
HM_API size_t hm_search_stack_size(const void* search, int32_t room, int32_t room_items);
HM_API void hm_search_set_stack(void* search, void* memory, int32_t room, int32_t room_items);

/* A cell of D dimensions. A vertex is 2 D + 2 numbers: a point and its radius, a direction and its
 * radius. A facet is a form of D + 4 numbers, slopes, offset, offset at infinity, radius of the slopes,
 * radius of the offset; in other than two dimensions it is scaled, and a bound on the sum of its
 * absolute slopes follows. Strides are numbers from one row to the next. Pointers may be null where
 * something is written.
 *
 * In two dimensions facet i is the edge from vertex i to the next, and nothing below `walls` is used. */
typedef struct {
    int32_t n_vertices, n_facets, n_words, n_ties;
    int32_t vertex_stride, facet_stride;
    double* vertices;
    double* facets;
    int32_t* walls;  /* (n_facets, 4): layer, group, winner, rival */
    uint64_t* masks; /* (n_vertices, n_words): bit i is set on facet i */
    int32_t*
        ties; /* (n_ties, 3): a facet or -1 for all, a group with two winners there, one of them */
    int32_t*
        is_pure; /* (n_facets): whether the search composed the form so and did not replace it */
    int32_t* sources;     /* (n_facets): of a part, which facet of the whole it is, or -1 */
    int32_t is_canonical; /* whether the vertices are those that are stored */
} hm_cell;

/* Put a cell on the stack, to be searched from a layer on. `signature` has the winners of the layers
 * before, `typical` the typical winners of these and, if the cell is part of a region that has been
 * entered, of the layer itself. Returns 0, 1 if the stack is full, or HM_OUT_OF_RANGE. */
HM_API int32_t hm_search_push(void* search, int32_t layer, int32_t is_part,
                              const int32_t* signature, const int8_t* typical, const hm_cell* cell);

/* Forget the lowest cells of the stack, which come last. */
HM_API void hm_search_drop(void* search, int32_t n_items);
/* The typical winners of the layers on the path. */
HM_API void hm_search_typical(const void* search, int8_t* typical);
/* Compose the stream after a layer again, after the layer was refreshed. */
HM_API void hm_search_recompose(void* search, int32_t layer);

/* Go on; returns 0 done, 1 budget spent, 2 stack full, 3 no room for cells, 4 limit of cells reached,
 * 5 the cell on top has an undecided sign, 6 the cell on top has an uncertain vertex. */
typedef struct {
    int64_t room_cells, room_vertices, room_facets, room_ties;
    int64_t n_cells, n_vertices, n_facets, n_ties, n_broken;
    uint8_t* short_signatures;
    int32_t* signatures;
    double* maps;
    float* map_radii;
    int64_t* ends;
    double* points;
    double* directions;
    int32_t* walls;
    int64_t* facet_ends;
    int64_t* tie_ends;
    int32_t* ties;
    double* blurs;
    uint8_t* bit_signatures; /* one of the three: see `Cells` in cells.hpp */
} hm_cells;
/* It ends early, as if the budget were spent, where another thread sets `is_wanted`. Where another thread
 * sets `is_stopped`, which may be null, it does not finish its step: the stack is as before it. At its end
 * it writes `hm_search_counts`. */
HM_API int32_t hm_search_run(void* search, hm_cells* cells, int64_t limit, int64_t budget,
                             const int32_t* is_wanted, int64_t counts[4],
                             const int32_t* is_stopped);

/* One of the columns of cells: which pointer it is, in bytes from the beginning of hm_cells; what has a
 * row, 0 cells, 1 vertices, 2 facets, 3 ties; how many rows of zeros come before the pointer; the bytes of a
 * row. */
typedef struct {
    int64_t field, counted, n_before, row_bytes;
} hm_column;
/* Copy n columns one after the other to a block of n_bytes, and write where they are then, and how many
 * cells; returns how many bytes they take. If these are more, nothing has been done. */
HM_API size_t hm_cells_pack(const hm_cells* cells, int32_t n, const hm_column* columns,
                            hm_cells* packed, void* block, size_t n_bytes);
/* Cells found, signs decided by the filter, signs decided by expansions, cells on the stack. */
HM_API void hm_search_counts(const void* search, int64_t counts[4]);

/* Cell `item` of the stack: writes its layer, how many of its pending groups are done, and the next of
 * these (-1: none), into `place`, and its sizes and arrays, those that are there, into `cell`. */
HM_API void hm_search_item(const void* search, int32_t item, int32_t place[3], hm_cell* cell);
/* About how large each cell of the stack is, the lowest first: the area, or the volume of the box around
 * it; not a number if it is unbounded. Nothing is decided by it. */
HM_API void hm_search_sizes(const void* search, double* sizes);
HM_API void hm_search_signature(const void* search, int32_t* signature);
/* For each layer a count of the regions entered, and whether coinciding forms were merged. */
HM_API void hm_search_versions(const void* search, int64_t* versions, int32_t* are_merged);
/* The forms of a group that may win on the region; returns how many. */
HM_API int32_t hm_search_candidates(const void* search, int32_t layer, int32_t group,
                                    int32_t* forms);
/* Of a search on a line: say which forms of a group win on the region one after the other, from left to
 * right. Without any (n = 0), whether that is known: 0, or HM_UNAVAILABLE. */
HM_API int32_t hm_search_set_chain(void* search, int32_t layer, int32_t group, int32_t n,
                                   const int32_t* forms);
/* The scores (D + 2, n) of a layer. */
HM_API void hm_search_scores(const void* search, int32_t layer, double* block);

/* Replace the cell on top by parts with the given winners, the last one on top. Returns 0, 1 if the
 * stack is full, or HM_OUT_OF_RANGE. */
HM_API int32_t hm_search_replace(void* search, int32_t n_parts, const int32_t* winners,
                                 const hm_cell* parts);
/* Set the vertices (n, 2 D + 2) of the cell on top. */
HM_API void hm_search_set_vertices(void* search, const double* vertices);
/* Replace the stream (D + 2, n) and the scores (D + 2, n) of a layer by better ones; unless it is ReLU,
 * also what its forms contribute, coinciding ones merged. */
HM_API void hm_search_refresh(void* search, int32_t layer, const double* stream,
                              int32_t stream_is_exact, int32_t stream_grid, const double* scores,
                              int32_t scores_are_exact, int32_t scores_grid, const int32_t* first,
                              const double* gains, const double* gain_radii, const double* values,
                              const double* value_radii);

/* Cells of other than two dimensions with their facets inside the domain: see facets.hpp. */
typedef struct {
    const hm_cells* cells; /* as a search writes them, but for winners as bits */
    int32_t dim, n_groups, n_borders;
    const int64_t* group_layers; /* (n_groups) */
    const int32_t* kinds;        /* (n_layers): 0 only units, 1 continuous or the last, 2 jumps */
    const uint64_t* weights;     /* (n_groups): random odd words to hash with */
    const double* borders;       /* (n_borders, dim + 3): the domain's slopes, offsets and radii */
    const int8_t* is_chosen;     /* (n_cells): which cells to look at, or null */
    int32_t covers;              /* whether all cells are there, and none is left out */
    /* In the memory of what follows: */
    int64_t* owners; /* (n_facets): the cell of each facet */
    int64_t* splits; /* (n_facets): a number for the split that made it, if it is loose */
    double* forms;   /* (n_facets + n_borders, dim + 3): slopes, offsets and radii as far as they are
                        composed, then the borders */
} hm_facets;

/* At the start of the memory of what follows: the pairs of facets that share a part of a wall, as far as
 * known; facets that have not been matched by name, how many of them are to be searched, from which
 * number on they have not been, and how many are left open after that. */
typedef struct {
    int64_t n_pairs, room;
    int64_t* pairs;        /* (room, 2) */
    int64_t* cells;        /* (n_pairs, 2), once they are all there and sorted, as are */
    int64_t* groups;       /* (n_pairs) */
    int32_t is_sorted;
    int64_t n_loose, n_searched, next, n_open;
    const int64_t* loose;  /* (n_loose): facets, wall after wall */
    const int8_t* is_open; /* (n_loose) */
} hm_meeting;

/* Match facets by their names, and list the others, in a block of n_bytes where a search of the network
 * can begin as well; returns how many it takes, or 0 if the cells are not cells of the network. If these
 * are more, nothing has been done. Where there are at most `budget` facets, it goes on: the others are searched, and, if none is left and no groups
 * tie, all pairs are sorted. */
HM_API size_t hm_facets_meet(hm_facets* facets, const void* network, const hm_search_start* start,
                             void* memory, size_t n_bytes, int64_t budget);
/* Search the cells beyond facets that are to be searched, composed first: see `overlay`. Ends where there
 * is no room for a pair, or so many are found; the caller may replace `pairs` by more room. */
HM_API void hm_facets_overlay(const hm_facets* facets, void* memory, int64_t budget);
/* Sort n pairs of facets in the order of their cells, the smaller first, and write the pairs of cells,
 * (n, 2), and the groups of the first facets. */
HM_API void hm_facets_sort(const hm_facets* facets, void* memory, int64_t n, int64_t* pairs,
                           int64_t* cells, int64_t* groups);
/* Write the forms of all facets, positive inside, of the cells that have some of n facets; radii are
 * infinite where means are passed on. */
HM_API void hm_facets_compose(const hm_facets* facets, void* memory, int64_t n,
                              const int64_t* chosen);
/* Of n chosen facets write where the vertices begin (n + 1), the vertices, and bounds (n, 2, dim). */
HM_API void hm_facets_corners(const hm_facets* facets, int64_t n, const int64_t* chosen,
                              int64_t* starts, int64_t* corners, double* boxes);
/* Compare facets of one split: see `compare_facets`. `rows`, `normals` and `inside` are scratch for all
 * facets of two cells and of the domain, for dim + 1 numbers of each, and for the vertices of a cell.
 * Returns where to go on, and counts the pairs. */
HM_API int64_t hm_facets_compare(const hm_facets* facets, int64_t n, const int64_t* chosen,
                                 int64_t* starts, int64_t* corners, double* boxes, int64_t begin,
                                 const int64_t* order, const int64_t* ends, int64_t* rows,
                                 double* normals, int8_t* inside, int64_t room, int64_t* pairs,
                                 int64_t* verdicts, int64_t* n_pairs);

/* Cells of the plane in the lexicographic order of their signatures: see `Polygons` in
 * neighbours.hpp. */
typedef struct {
    int64_t n_cells, n_edges;
    int32_t n_layers, n_groups;
    double scale;
    const uint8_t* short_signatures;
    const int32_t* signatures;
    const int64_t* starts;
    const int32_t* codes;
    const double* points;
    const double* directions;
    const int32_t* first_groups;
    const int32_t* form_starts;
    const uint8_t* passes;
    int32_t has_means;
} hm_polygons;

/* Which of them share a part of a wall. The size is 0 if they are not polygons (see `are_polygons`).
 * First the edges are gathered by their lines: returns the bytes that matching needs, or -1 if the cells
 * are not in order. Then edges are matched: marks those
 * that are left open in is_open (n_edges) and returns the number of pairs. Then pairs (n, 2) are
 * written, sorted, the smaller cell first, with the edges (n, 2) that overlap. */
HM_API size_t hm_neighbours_size(const hm_polygons* polygons);
HM_API int64_t hm_neighbours_gather(const hm_polygons* polygons, void* memory);
HM_API int64_t hm_neighbours_match(const hm_polygons* polygons, void* memory, void* room,
                                   uint8_t* is_open);
HM_API void hm_neighbours_pairs(const hm_polygons* polygons, void* memory, int64_t* pairs,
                                int32_t* edges);
/* Mark the edges (n_edges) that may lie on other walls beside the one that names them. The search has
 * nothing on its stack, with room for the edges of every cell. */
HM_API int32_t hm_neighbours_ties(void* search, const hm_polygons* polygons, uint8_t* may_tie);
/* Questions about stored cells of the plane, which come in the order of their signatures: 1 volume, 2
 * a point inside, 4 a largest ball. */
typedef struct {
    const uint8_t* short_signatures; /* as in hm_cells */
    const int32_t* signatures;
    const int64_t* starts; /* (n_cells + 1): where the walls of a cell begin */
    const int32_t* walls;
    /* Answers, each for the questions asked alone: */
    double* volumes;   /* (n_cells, 2): volume and radius */
    double* witnesses; /* (n_cells, 2) */
    double* balls;     /* (n_cells, 3): centre and radius */
    uint8_t* open;     /* (n_cells): the questions that floats cannot answer */
} hm_measured;
/* `n_rows` is the number of inequalities of the domain, `room_edges` the most edges of a cell. */
HM_API size_t hm_measures_size(const void* network, int32_t n_rows, int32_t room_edges);
/* With the first polygon of the search. */
HM_API int32_t hm_measures_init(void* measures, const void* network, const hm_search_start* start,
                                int32_t n_rows, int32_t room_edges, int32_t n,
                                const double* edges, const int32_t* walls);
/* Answer for the cells from `first` to `end`. */
HM_API int32_t hm_measures_run(void* measures, const hm_measured* cells, int32_t questions,
                               int64_t first, int64_t end);

/* The same about cells of three to seven dimensions: see solids.hpp. */
typedef struct {
    const int8_t* is_wanted; /* (n_cells): the others are left open */
    /* Answers, as in hm_measured, for points of `dim` coordinates. */
    double* volumes;
    double* witnesses;
    double* balls;
    uint8_t* open;
} hm_solid_answers;
/* `n_borders` is the number of inequalities of the domain; the others are the most facets inside it and
 * the most vertices of a cell. */
HM_API size_t hm_solids_size(const void* network, int32_t dim, int32_t n_borders,
                             int32_t room_facets, int32_t room_points);
/* The borders (n_borders, dim + 3) are slopes, offset and radii, positive inside. */
HM_API void hm_solids_init(void* solids, const void* network, const hm_search_start* start,
                           int32_t n_borders, int32_t room_facets, int32_t room_points,
                           const double* borders);
HM_API int32_t hm_solids_run(void* solids, const hm_facets* cells, const hm_solid_answers* answers,
                             int32_t questions, int64_t first, int64_t end);
/* About the volume of a bounded cell of a stack, in three to seven dimensions; not a number where it takes
 * too long. Nothing is decided by it. `scratch` has as many bytes as the first function says. */
HM_API size_t hm_volume_size(int32_t dim, const hm_cell* cell);
HM_API double hm_volume(int32_t dim, const hm_cell* cell, void* scratch);

/* Who wins at points, in a space of any dimension. `embedding` has the weights (dim, dim_stream),
 * unless it is the identity, and the biases. The size is 0 if the identity has another dimension. The
 * memory is used by one thread at a time. */
HM_API size_t hm_points_size(const void* network, int32_t dim, int32_t is_identity);
HM_API void hm_points_init(void* points, const void* network, int32_t dim, int32_t is_identity,
                           const double* embedding);
/* Points (n_points, dim), finite. Writes the winners of the groups from `first_group` on to one of the
 * two arrays (n_points, n_groups - first_group), and whether a point was left undecided to `open`. */
HM_API void hm_points_run(void* points, int64_t n_points, const double* given, int32_t first_group,
                          uint8_t* short_signatures, int32_t* signatures, uint8_t* open);
/* Count how often signatures occur at points (n_points, dim), finite, by their hashes: the sums of the winners
 * from `first_group` on times words, one for each. With a box (2, dim) the numbers given are shares of its
 * sides, from 0 to 1, and become the points; those that are not inside it count for nothing. Writes the
 * distinct hashes, their counts, and the points left undecided, n_points of each at most; `table` is scratch,
 * more places than points, a power of two. Returns how many hashes there are. */
HM_API int64_t hm_points_tally(void* points, int64_t n_points, double* given, const double* box,
                               int32_t first_group, const uint64_t* weights, int32_t* table,
                               int64_t n_places, uint64_t* distinct, int64_t* counts,
                               int64_t* open, int64_t* n_open);
/* Networks whose nodes form a directed graph, on a cell of a line or a plane: see graphs.hpp.
 *
 * A node writes slots from `first` on. A block (kind 0) has n_rows rows of n_columns slots, `stride` slots apart,
 * each the sum over n_taps taps of n_channels slots, from columns (n_rows, n_taps) on, -1 for none, times
 * weights (n_taps, n_channels, n_columns), plus bias (n_columns). A sparse map (1) has n_rows rows, with the
 * entries starts[r] to starts[r + 1]: columns, weights; bias (n_rows). Maxima (2) have n_rows groups of entries
 * weight * slot + bias (column -1: the bias alone); the slot of a group is `sign` times the largest.
 *
 * Who reads a slot: slots low to low + n_readable. Of a block owners (n_readable) are pixels or -1, pixel p is used by the pairs (row, tap) uses[use_starts[p]] on; otherwise slots are used by pairs (row, entry).
 * kappa bounds the relative rounding of a sum. */
typedef struct {
    int64_t kind, n_rows, n_columns, n_taps, n_channels, stride, first, first_group, first_dirty;
    int64_t n_sources, low, n_readable;
    double sign, kappa;
    const int32_t *starts, *columns;
    const double *weights, *bias;
    const uint8_t*
        is_repeated; /* of maxima: entries that are the same as one before them in the group */
    const int32_t* sources; /* the nodes whose slots it reads */
    const int32_t *owners, *use_starts, *uses;
} hm_graph_node;

/* Forms (dim + 1, n_slots), offsets last, and radii (n_slots) of the cell with given winners (one for each group).
 * The rest is room to work in: deltas, eps, marks (zero), dirty (n_slots each), n_dirty (n_nodes). */
typedef struct {
    const hm_graph_node* nodes;
    int64_t n_nodes, n_slots;
    double scale; /* no coordinate of the domain is larger */
    double *forms, *radii;
    int32_t* winners;
    double*
        reaches; /* (n_groups): see `reach_of` in graph_search.hpp; -1 where forms have changed */
    double *deltas, *eps;
    uint8_t* marks;
    int32_t* dirty;
    int64_t* n_dirty;
} hm_graph_cell;

/* Whether the nodes, of so many groups in all, read and write slots that are there: HM_OUT_OF_RANGE if
 * not. The other functions are for nodes that have passed. */
HM_API int32_t hm_graph_check(const hm_graph_cell* cell, int64_t n_groups);
/* Compose the forms of the nodes begin to end. `dim` is 1 or 2. */
HM_API void hm_graph_compose(const hm_graph_cell* cell, int32_t dim, int64_t begin, int64_t end);

/* A cell on the stack of a search: its node, its sides, the groups of the node that may be open on it, and
 * the group that was decided last, with its winner; -1 if all groups of the node have to be looked at. */
typedef struct {
    int64_t node, first_side, n_sides, first_open, n_open, group, winner;
} hm_graph_item;

/* Cells that were found, with room for more of them. A vertex has dim coordinates and a radius; the wall after it is a
 * node, a group and a rival; on the boundary of the domain -1, the number of the side, -1. Changes are pairs of a group and its
 * winner, against the cell before; all winners are 0 before the first. maps (n, dim + 2, n_outputs): slopes,
 * offsets, radii. */
typedef struct {
    int64_t piece_room, vertex_room, change_room, n_pieces, n_vertices, n_changes;
    int64_t *vertex_ends, *change_ends;
    double* vertices;
    int32_t *walls, *changes;
    double* maps;
} hm_graph_pieces;

/* The sign of a form at a vertex: walls (3, 4) are node, group, winner and rival of the form and of the two sides that
 * meet there, node -1 and the side's number for a side of the domain; 3 if it cannot be told. */
typedef int32_t (*hm_graph_question)(const int32_t* walls);

/* A search: see graph_search.hpp. Groups that are looked at stand for their members, member_starts (n_groups + 1);
 * slots with equal numbers are equal functions, 0 the one that is zero. The stack has room for
 * items, sides, signs (side_room) and lists of open groups. The rest is room to work in: is_stale (n_nodes), is_noted,
 * noted, written (n_groups), entries (of the largest group), changes (n_groups, 2), centres (n_nodes, dim);
 * all are zero at first. Of the inputs, zeros (n_slots + 8) say at which corners of the domain they are zero, as bits, of eight
 * corners at most; of the slots of the first n_known nodes this is known for the winners at hand; after the slots come the
 * sides. */
typedef struct {
    const hm_graph_cell* cell;
    const uint8_t* is_looked_at;
    const int32_t *member_starts, *members;
    const int64_t* numbers;
    const int32_t* outputs;
    int64_t n_outputs, n_groups;
    hm_graph_question ask;
    hm_graph_pieces* pieces;
    hm_graph_item* items;
    void* sides;
    int8_t* signs;
    int32_t* open;
    int64_t item_room, side_room, open_room, n_items;
    uint8_t *is_stale, *is_noted;
    int32_t *noted, *written, *entries, *changes;
    double* centres;
    uint8_t* zeros;
    int64_t n_known, n_noted, n_flips, n_asked;
} hm_graph_search;

/* Derivatives of all slots by some inputs, rounded: derivatives (n_slots, n_columns), those of the inputs given; of slots
 * where is_moved (n_slots) is 0 they are zero and not written. */
HM_API void hm_graph_differentiate(const hm_graph_cell* cell, int64_t n_columns,
                                   double* derivatives, uint8_t* is_moved);

HM_API size_t hm_graph_side_size(int32_t dim);
/* Begin with a domain: lines (n, dim + 1) that are positive inside, in cyclic order, and their radii. */
HM_API void hm_graph_search_begin(hm_graph_search* search, int32_t dim, int64_t n_sides,
                                  const double* lines, const double* radii);
/* Go on for n_pieces more. Returns 0 if nothing is left, 1 if so many were found, 2 if there is no room for more pieces, 3
 * if the stack is too small, 4 if a question was not answered. It ends early, with 1, where another thread sets
 * `is_stopped`. */
HM_API int32_t hm_graph_search_run(hm_graph_search* search, int32_t dim, int64_t n_pieces,
                                   const int32_t* is_stopped);

/* Affine forms a1 x1 + a2 x2 + c of the plane in integers of 64-bit limbs, lowest first, in two's
 * complement, with at least three bits more than the longest: slopes (n, 2, slope_limbs) in one unit,
 * offsets (n, offset_limbs) in another. See lifted.hpp. */
typedef struct {
    int32_t n, slope_limbs, offset_limbs;
    const uint64_t* slopes;
    const uint64_t* offsets;
} hm_forms;

/* The sets of forms that are the k largest on an open set: see order_k.hpp. The forms are distinct, each
 * with a multiplicity, and their slopes are not on a line; 1 <= k < the sum of the multiplicities. */
HM_API size_t hm_order_k_size(const hm_forms* forms, int32_t k, int32_t room_cells);
/* Begin with a set (min(k, n) + 1 numbers: its forms, filled up with n; the part, or n), one of its walls,
 * between i in it and j outside, and all forms that tie along that wall. */
HM_API int32_t hm_order_k_begin(void* order_k, const hm_forms* forms, const int32_t* multiplicity,
                                int32_t k, int32_t room_cells, const int32_t* set,
                                const int32_t* tied, int32_t n_tied, int32_t i, int32_t j);
/* Walk around some cells; returns 0 done, 1 budget spent, 2 no room for more cells. */
HM_API int32_t hm_order_k_run(void* order_k, int32_t budget);
/* Read the sets (n_cells, min(k, n) + 1), where the walls of each begin (n_cells + 1), and the walls
 * (n_walls, 2): a form of the set and one outside. Writes n_cells and n_walls first; arrays may be null. */
HM_API void hm_order_k_read(const void* order_k, int32_t counts[2], int32_t* sets,
                            int32_t* first_wall, int32_t* walls);

/* Points of R^dim, dim from 3 to 5: integers, the last column in a unit of its own, or floats. */
typedef struct {
    int32_t n, dim;
    int32_t limbs, last_limbs; /* of an integer, with three bits to spare */
    const uint64_t* columns;   /* (n, dim - 1, limbs), in two's complement, lowest first; or null */
    const uint64_t* last;      /* (n, last_limbs) */
    const double* floats;      /* (n, dim), where there are no integers */
} hm_hull_points;

/* Their convex hull, or upper hull: see convex_hull.hpp. The facets lie in memory of their own, which
 * may be replaced by more. */
HM_API size_t hm_hull_size(const hm_hull_points* points);
HM_API size_t hm_hull_facets_size(int32_t dim, int32_t room);
/* Begin with the simplex of some points (dim + 1, of an upper hull dim), or with one that is looked for in
 * floats if `start` is null; returns 1, 0 if it is flat, or HM_OUT_OF_RANGE. The points have to stay;
 * there must be room for dim + 1 facets. */
HM_API int32_t hm_hull_begin(void* hull, const hm_hull_points* points, int32_t is_upper,
                             const int32_t* start, void* facets, int32_t room);
/* Move to memory with more room for facets. */
HM_API void hm_hull_move(void* hull, int32_t dim, void* facets, int32_t room);
/* Insert some points; returns 0 done, 1 budget spent, 2 no room for more facets. */
HM_API int32_t hm_hull_run(void* hull, int32_t dim, int32_t budget);
/* How many facets there are. */
HM_API int32_t hm_hull_n_facets(const void* hull, int32_t dim);
/* Write the corners (n_facets, dim) of all facets, -1 for the one at infinity, and which of them lie in one
 * face (n_facets); returns how many faces there are. */
HM_API int32_t hm_hull_finish(void* hull, int32_t dim, int32_t* corners, int32_t* faces);
/* For points (a, c), which are integers, and facets of their upper hull, corners (n, dim): the points x
 * (n, dim - 1) where <a, x> + c is the same for all corners, rounded to the nearest, times 2^exponent; NaN
 * where that is not clear. Takes memory of hm_hull_size. */
HM_API int32_t hm_hull_vertices(void* memory, const hm_hull_points* points, const int32_t* corners,
                                int32_t n, int32_t exponent, double* vertices);

/* The corners of the convex hull of n >= 1 points of the plane (n, 2), counter-clockwise, or of their
 * upper hull, from left to right: see planar_hull.hpp. `order` (n) sorts the points by their first
 * coordinates, then by their second ones; of equal points the first in it counts. Room is needed for n + 1
 * corners, and for n numbers of scratch. Writes how many corners there are; returns 0 or HM_OUT_OF_RANGE. */
HM_API int32_t hm_planar_hull(int32_t n, const double* points, int32_t is_upper,
                              const int32_t* order, int32_t* scratch, int32_t* corners,
                              int32_t* n_corners);

/* Where each of many forms is largest on the plane: see EnvelopeCells in envelope.hpp. */
typedef struct {
    int32_t* sites;      /* (n) */
    int32_t* starts;     /* (n + 1) */
    int32_t* neighbours; /* (6 n) */
    int32_t* corners;    /* (6 n) */
    int32_t* triples;    /* (2 n, 3) */
    int32_t n_sites, n_vertices;
} hm_envelope_cells;

/* Read them off an upper hull of points in space, once it is done. */
HM_API size_t hm_envelope_size(const void* hull);
HM_API void hm_envelope_read(void* memory, const void* hull, hm_envelope_cells* cells);

/* An affine map x W + b, and bounds on its norms: see `NormedMap` in models/_arithmetic/normed_maps.py. */
typedef struct {
    int64_t n_in, n_out;
    const double* rows; /* (n_in + 1, n_out): W and, last, b */
    const double*
        panels; /* (n_panels, n_in + 1, 8): the same cut by columns, padded with zeros; or null */
    const double* omega;     /* (n_out): norms of the columns of W */
    const double* bias_size; /* (n_out): |b| */
    double sigma, frobenius, bias_norm, kappa;
    double column_sum, bias_most; /* the largest sum of |W| in a column, and the largest |b| */
    int64_t grid, bias_grid; /* all entries are multiples of 2^grid; far below 0 if not known */
} hm_normed_map;

/* Find the norms of n maps, of which the sizes and `rows` are given, in a network of n_layers, and cut
 * all but the first into panels: see `pack_maps`. Returns how many bytes of memory that takes, or 0 if
 * a map does not take what the one before it gives; without memory nothing else is done. */
HM_API size_t hm_line_pack(hm_normed_map* maps, int64_t n, int64_t n_layers, void* memory);

/* Intervals of a line through a ReLU network, from left to right: see `LineRows` in lines.hpp. */
typedef struct {
    int64_t index; /* the layer */
    int64_t n;     /* how many points bound the intervals */
    const double* values;
    const double* scales;
    const double* blurs;
    const double* places;
    const int64_t* names;
    const uint8_t* is_open; /* (n - 1): which intervals are in doubt, if any is */
    int64_t n_signs;        /* how many signs were found in the layers before */
    /* If no layer is left: the ends and how far they may be off (n), and which entry of the signature
     * changes at each inner one, and what to (n - 2). */
    const double* where;
    const double* radii;
    const int64_t* groups;
    const uint8_t* winners;
} hm_line_run;

/* Write the rows (2, n_out) of the first layer at two points, given by the stream before it and their
 * weights. `scales` (2, 3) has the norms of the errors in its first column. */
HM_API void hm_line_enter(const hm_normed_map* map, const double* const ends[2],
                          const double weights[2], double* rows, double* scales);
/* Cut intervals by the layers from run->index on; afterwards `run` says where it stopped, and its arrays
 * lie in `memory`. Returns 0 no layer is left, 1 there is much to do, 2 intervals are in doubt, 3 the
 * next layer would have too many entries, 4 the memory is too small for it. No finite end of the line is
 * further out than `reach`. */
HM_API int32_t hm_line_advance(const hm_normed_map* maps, int64_t n_layers, double reach,
                               hm_line_run* run, uint8_t* states, const int64_t* most_rows,
                               int64_t most_entries, void* memory, size_t memory_size);
/* The same from the ends of a segment on, points before the first layer. */
HM_API int32_t hm_line_between(const hm_normed_map* maps, int64_t n_layers, const double* start,
                               const double* end, hm_line_run* run, uint8_t* states,
                               const int64_t* most_rows, int64_t most_entries, void* memory,
                               size_t memory_size);
/* Write where the ends of intervals are, and how far they may be off: see `bound_ends`. */
HM_API void hm_line_ends(int64_t n, const double* places, const double* blurs, int64_t n_layers,
                         double reach, double* where, double* radii);
/* Cells along a line where all forms are integers of few digits: see line_integers.hpp. */
typedef struct {
    int64_t most_cells;   /* there is room for so many, and one end more, */
    int64_t most_changes; /* and for so many changes, at least as many as there are units */
    double* where;        /* the left end of each cell, and the right end of the last, rounded; */
    double* radii;        /* how far they are off; */
    int64_t* ratios;      /* (n, 2): p and q of p / q; 0 is the q of infinity; */
    int64_t* names;       /* (n, 3): the layer and the two forms that tie there */
    uint8_t* signature;   /* of the first cell */
    int64_t* starts;      /* (n_cells + 1): the changes before cell i are from starts[i] on */
    int64_t* groups;      /* which entry of the signature changes, */
    uint8_t* winners;     /* and what to */
    int64_t n_cells, n_changes, n_signs;
    int64_t is_done; /* whether these were the last */
} hm_line_pieces;
HM_API size_t hm_line_integers_size(const hm_normed_map* maps, int64_t n_layers);
/* Begin with the stream before the first layer, (2, n_in), as slopes and offsets, or as its values at 0
 * and 1; `outer` has the ends of the domain, p and q of each. Returns 0 if something may be rounded. */
HM_API int32_t hm_line_integers_begin(void* memory, const hm_normed_map* maps, int64_t n_layers,
                                      const double* stream, int32_t are_ends,
                                      const int64_t outer[4]);
/* Write the next cells. */
HM_API void hm_line_integers_run(void* memory, hm_line_pieces* pieces);
/* Write the forms of layers from `first` up to `last` on the interval with given states, in twice the
 * precision, into blocks of 5 rows of `stride` numbers: slopes, offsets, their low parts, radii. Block
 * 0 is the stream before the first layer, block l + 1 layer l, block n_blocks - 1 is overwritten. */
HM_API void hm_line_doubled(const hm_normed_map* maps, int64_t first, int64_t last,
                            const uint8_t* states, double* blocks, int64_t n_blocks,
                            int64_t stride);
/* The maps on cells along a line, as slopes and offsets (n_cells, 2, n_out) with radii: memory, start
 * (see `start_maps` in line_maps.hpp), and some cells from `first` on, which returns the next one.
 * maps[n_layers] is the one to the output. */
HM_API size_t hm_line_maps_size(const hm_normed_map* maps, int64_t n_layers, int64_t n_changes);
HM_API int32_t hm_line_maps_init(void* memory, const hm_normed_map* maps, int64_t n_layers,
                                 int64_t n_cells, int64_t n_changes, const uint8_t* signature,
                                 const int64_t* starts, const int64_t* entries,
                                 const uint8_t* winners, const double* stream,
                                 const double errors[2]);
HM_API int64_t hm_line_maps_compose(void* memory, int64_t first, double* values, double* radii);

/* Look at the cell on top in twice the precision, whether needed or not; returns whether anything is
 * known better. */
HM_API int32_t hm_test_improve(void* search);
/* Write where the lines of two edges, rows of 12 numbers, meet into vertex[6]. */
HM_API void hm_test_meet(const double* one, const double* other, double* vertex);
/* Scale an exact form in three dimensions, four numbers, to the eight numbers of a facet. */
HM_API void hm_test_facet(const double* form, double* facet);
/* Write where three facets, rows of eight numbers, meet into vertex[8]. */
HM_API void hm_test_meet_facets(const double* facets, double scale, double* vertex);
/* Answer all questions about a polygon of at most 16 edges (n, 12): volume, radius; point; centre,
 * radius. Returns the questions left open. */
HM_API int32_t hm_test_measure(int32_t n, const double* edges, double answers[7]);
/* The filtered sign of the form a, b, c of radii 0 at a vertex; 0 if it is not clear. */
HM_API int32_t hm_test_filtered_sign(const double* form, const double* vertex);

/* Which of several affine forms is largest at a point, see winners.hpp. */
typedef struct {
    const double* slopes;  /* (n_forms, dim) */
    const double* offsets; /* (n_forms) */
    const double* points;  /* (n_points, dim) */
    int64_t dim;
} hm_stored_forms;
/* The exact sign of the first form less the second at the first point; 2 where it could not be taken.
 * The expansion has room for 4 dim + 4 numbers. */
HM_API int32_t hm_test_difference(const hm_stored_forms* forms, double* expansion);
/* The largest of computed values (n_points, n_forms), each known up to the bound of its row; returns how
 * many rows this leaves open, and writes which into `pending`. */
HM_API int64_t hm_winners_clear(int64_t n_points, int64_t n_forms, const double* values,
                                const double* bounds, int64_t* form, int64_t* pending);
/* The first largest of exact values, and how many forms attain it. */
HM_API void hm_winners_exact(int64_t n_points, int64_t n_forms, const double* values,
                             const int64_t* multiplicity, int64_t* form, int64_t* n_tied);
/* The same at n points, by intervals and exact comparisons; `stage` says what decided: 0 intervals, 1
 * expansions, 2 nothing. */
HM_API void hm_winners_play_off(const hm_stored_forms* forms, int64_t n_forms,
                                const int64_t* multiplicity, int64_t n, const int64_t* rows,
                                int32_t is_filtering, double factor, double allowance,
                                double* upper, double* expansion, int64_t* form, int64_t* n_tied,
                                int8_t* stage);

/* Max-plus products max_k left[i][k] + right[k][j], with `inner` >= 1 terms: some of the tiles of
 * `out`. left is (n_rows, inner); the rows and columns of right are so many numbers apart. */
HM_API int64_t hm_max_plus_n_tiles(int64_t n_rows, int64_t n_columns);
HM_API void hm_max_plus_tiles(const double* left, const double* right, double* out, int64_t n_rows,
                              int64_t inner, int64_t n_columns, int64_t row_step,
                              int64_t column_step, int64_t first, int64_t last);
/* Sweep over all edges of a graph until no label rises, or n_sweeps times; whether none rose. */
HM_API int32_t hm_max_plus_relax(int64_t n, const double* weights, double* labels, int64_t* parents,
                                 int64_t n_sweeps);

/* The nearest point to the origin in the hull of rows (n_rows, dim) of about unit length; see
 * `NearestQuestion` in nearest.hpp. `support`, `weights` (dim + 2) and `point` (dim) may hold a start.
 * Returns 1 if `point` separates the origin from the rows, 0 if it lies in the hull of the support, -1
 * if rounding does not allow to say: in floats, a candidate to be proved. */
HM_API size_t hm_nearest_size(int32_t dim);
HM_API int32_t hm_nearest(void* memory, const double* rows, int64_t n_rows, int32_t dim,
                          int32_t n_start, double quality, int32_t most_rounds, int64_t* support,
                          double* weights, double* point, int32_t* n_active);

/* Invert the matrix whose columns are the rows (dim, dim), rounded; 1 if it is proved to be regular.
 * `bounds` gets what is known of the inverse: see `Inverse` in orientation.hpp. */
HM_API size_t hm_invert_size(int32_t dim);
HM_API int32_t hm_invert(void* memory, const double* rows, int32_t dim, double* inverse,
                         double bounds[2]);

/* Which of some targets seem to be vertices of a hull: memory of a search, its start, and a call for
 * some targets. `status` gets the answers of hm_nearest, `support` (n, dim + 2) the points they seem
 * to lie between (n_points + k for ray k) and `n_support` how many, `directions` (n, dim) those they
 * seem to win. Points and rays are kept by the caller. */
HM_API size_t hm_candidates_size(int64_t n_points, int64_t n_rays, int32_t dim);
HM_API void hm_candidates_init(void* search, int64_t n_points, int64_t n_rays, int32_t dim,
                               const double* points, const double* rays, const uint8_t* is_known,
                               double quality);
HM_API int32_t hm_candidates_find(void* search, int64_t n_targets, const int64_t* targets,
                                  int64_t* status, int64_t* n_support, int64_t* support,
                                  double* directions);

/* Which of n >= 2 distinct points are vertices of their hull: start, then steps from `first` to `last`,
 * of 2 n in all. Verdicts are 1 yes, 0 no, 2 no if the origin lies in the hull of the differences from
 * the points in `supports` (n, dim + 1; padded with -1), -1 not known. */
HM_API size_t hm_hull_vertices_size(int64_t n, int32_t dim);
HM_API void hm_hull_vertices_init(void* search, int64_t n, int32_t dim, const double* points,
                                  int8_t* verdict);
HM_API void hm_hull_vertices_decide(void* search, int64_t first, int64_t last, int8_t* verdict,
                                    int64_t* supports);

/* Which pairs of n vertices are joined by an edge; see `HullEdges` in hulls.hpp. The start returns how
 * many of some pairs seem to be. The other call decides the pairs of vertices from `first` to `last`
 * with those after them, and returns how many claims there are. */
HM_API size_t hm_hull_edges_size(int64_t n, int32_t dim);
HM_API int32_t hm_hull_edges_init(void* search, int64_t n, int32_t dim, const double* rows,
                                  int8_t* adjacent, int64_t* claims, int64_t room_claims,
                                  int32_t n_samples);
HM_API int64_t hm_hull_edges_decide(void* search, int64_t first, int64_t last);

/* The rows of all heads: row r of vertex v says that v scores more than rival[r]. */
typedef struct {
    int64_t dim, n_heads, n_rows;
    const double* rows;          /* (n_rows, dim): rounded differences, largest entry about one */
    const double* units;         /* (n_rows, dim): about the same, of unit length */
    const double* points;        /* (n_vertices, dim): to guess winners */
    const int64_t* first_vertex; /* (n_heads + 1) */
    const int64_t* first_row;    /* (n_vertices + 1); later rows count for every tuple */
    const int64_t* rival;        /* (n_rows) */
    const int64_t* reverse;      /* (n_rows): the row that says the opposite */
} hm_fan;

/* What a search for tuples of winners has found: tuples (n_heads) with directions (dim) that select
 * them; claims, which are rows (dim + 1; padded with -1) said to have the origin in their hull, with
 * the nodes that rely on them; and nodes not expanded. Nodes are tuples padded with -1. */
typedef struct {
    int64_t room_leaves, room_claims, room_parked;
    int64_t n_leaves, n_claims, n_parked;
    int64_t n_refused; /* how many refusals floats have proved */
    int64_t* leaves;
    double* directions;
    int64_t* claims;
    int64_t* claim_paths;
    int64_t* parked;
} hm_joint_found;

/* A search for tuples: memory, start, a node to search below, and some steps, which return 1 when all
 * is done. The fan is kept by the caller; n_base of its rows belong to no vertex. */
HM_API size_t hm_joint_size(const hm_fan* fan, int64_t n_base);
HM_API void hm_joint_init(void* search, const hm_fan* fan, int64_t n_base);
HM_API int32_t hm_joint_load(void* search, int64_t level, int64_t n_rows, const int64_t* rows,
                             const int64_t* winners, const double* direction);
HM_API int32_t hm_joint_run(void* search, int64_t root, int64_t steps, hm_joint_found* found);

/* For n tuples of vertices with a direction each: whether it is proved to select the tuple, and the
 * sine of its angle to the nearest wall. `margins` may be null. */
HM_API int32_t hm_joint_check(const hm_fan* fan, int64_t n, const int64_t* leaves,
                              const double* directions, uint8_t* is_proved, double* margins);

/* Whether row walls[q] of the tuple cells[q] is a facet, rows of equal `line` counted as one: 1 yes,
 * 0 no, -1 not known. */
HM_API size_t hm_joint_facets_size(const hm_fan* fan);
HM_API int32_t hm_joint_facets(void* memory, const hm_fan* fan, const int64_t* line,
                               const int64_t* leaves, int64_t n, const int64_t* cells,
                               const int64_t* walls, int8_t* verdict);

/* Signs and zeros of forms between two points, from their values there (see lines.hpp): how many units
 * change and the sum of their numbers; the first again with the radii of each end; the n zeros, as unit,
 * part and blur, 1 if they are sure; how far ends may be off in parts of an interval, 1 if not too far. */
typedef struct {
    int64_t unit;
    double part, blur;
} hm_line_zero;
HM_API void hm_test_line_changes(const hm_normed_map* map, const double* left, const double* right,
                                 double scale, double beta, double eta, int64_t changes[2]);
HM_API int64_t hm_test_line_careful(const hm_normed_map* map, const double* left,
                                    const double* right, const double* scales, const double* blur);
HM_API int32_t hm_test_line_zeros(const hm_normed_map* map, const double* left, const double* right,
                                  double scale, double beta, int64_t n, hm_line_zero* zeros);
HM_API int32_t hm_test_line_blurs(const hm_line_zero* zeros, int64_t n, const double* outer,
                                  double* blurs);

/* Whether a rounded row is proved to have a positive product with a direction; whether it, times a
 * sign, is proved to be a positive combination of the columns of a matrix inverted by hm_invert. */
HM_API int32_t hm_test_is_positive(const double* row, const double* direction, int32_t dim);
HM_API int32_t hm_test_is_inside(const double* row, double sign, const double* inverse,
                                 const double* bounds, int32_t dim);

/* Each writes the high and the low part of its result to pair[0] and pair[1]. */
HM_API void hm_test_two_sum(double a, double b, double* pair);
HM_API void hm_test_fast_two_sum(double a, double b, double* pair);
HM_API void hm_test_halves(double a, double* pair);
HM_API void hm_test_two_product(double a, double b, double* pair);
HM_API void hm_test_two_product_by_halves(double a, double b, double* pair);
/* HM_UNAVAILABLE where the instruction set has no fused operation. */
HM_API int32_t hm_test_two_product_by_fma(double a, double b, double* pair);

/* Expansions, changed in place; each returns the new length. */
HM_API int64_t hm_test_grow(double* entries, int64_t length, double number);
HM_API int64_t hm_test_grow_by_product(double* entries, int64_t length, double a, double b);
HM_API int64_t hm_test_compress(double* entries, int64_t length);
HM_API int32_t hm_test_sign(const double* entries, int64_t length);

/* Numbers of two floats: x and y are arrays {high, low}. */
HM_API void hm_test_add_float(const double* x, double y, double* pair);
HM_API void hm_test_add(const double* x, const double* y, double* pair);
HM_API void hm_test_multiply_float(const double* x, double y, double* pair);
HM_API void hm_test_multiply(const double* x, const double* y, double* pair);

/* bias + sum_j weights[j] x_j for n_terms numbers x_j = {numbers[2 j], numbers[2 j + 1]}. */
HM_API void hm_test_add_terms(double bias, const double* weights, const double* numbers,
                              int64_t n_terms, double* pair);

#ifdef __cplusplus
}
#endif

#endif
