/* The C interface of the core: every function that Python, a browser or a device host may call.
 *
 * The interface is plain C: numbers, pointers to arrays owned by the caller, and status codes. The
 * library keeps no state between calls. A function that can fail returns an hm_status. Functions
 * whose names begin with hm_test_ expose primitives to the tests and are not for other use.
 *
 * If you change a function or its meaning, increase HM_INTERFACE_VERSION here and in
 * src/hardmax/_core/library.py, which declares the same signatures.
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
    HM_UNAVAILABLE = 2,   /* this build or this processor does not support it */
    HM_OUT_OF_RANGE = 3   /* a size or an index is invalid; nothing was done */
};

/* Sizes and indices that can come from a file or a web page are checked at the start of a
 * computation (see checks.hpp). If they are invalid, functions that return a size return 0, and all
 * others return HM_OUT_OF_RANGE. */

/* The interface version of the library: HM_INTERFACE_VERSION of the header it was compiled with. */
HM_API int32_t hm_interface_version(void);

/* The instruction set this library was compiled for: "baseline" or "x86-64-v3". */
HM_API const char* hm_instruction_set(void);

/* The widest of these instruction sets that the processor and the operating system support. */
HM_API const char* hm_widest_instruction_set(void);

/* HM_OK if the calling thread rounds to nearest and keeps subnormal numbers; otherwise
 * HM_UNAVAILABLE. Loading a library built with -ffast-math disables subnormal numbers for the
 * loading thread. */
HM_API int32_t hm_float_environment(void);

/* The caller owns the memory of networks and searches: it first queries the size, aligns the memory
 * to 64 bytes, and frees it afterwards. Networks are immutable. A search must be used by one thread
 * at a time. */

/* Networks: see `Packed` in network.hpp. The first function takes the lengths of the arrays and
 * returns 0 if the arrays do not hold a network (see `is_network`). The second requires arrays that
 * the first has accepted. It returns whether the forms of each group are proven to differ, except
 * those declared to coincide, or -1 if another thread set `is_stopped` (which may be null) before
 * everything was read. */
HM_API size_t hm_network_size(const int64_t* integers, int64_t n_integers, const double* numbers,
                              int64_t n_numbers);
HM_API int32_t hm_network_init(void* network, const int64_t* integers, const double* numbers,
                               const int32_t* is_stopped);

enum { HM_EDGE_NUMBERS = 12 };

/* The start of a search on a domain of D dimensions, 1 <= D <= 7. */
typedef struct {
    int32_t dim;
    double scale; /* a power of two, at least 1 and at least every coordinate */
    const double*
        stream; /* (D + 2, dim_stream): slopes, offsets and radii before the first layer */
    const double* doubled_stream; /* (2 D + 3, dim_stream): high parts, low parts, radii */
    int32_t stream_is_exact;
    int32_t stream_grid;
    int32_t is_bounded;
    int32_t stores;
} hm_search_start;

/* Begin a search with an empty stack in a block of n_bytes. Returns the number of bytes that the
 * search needs; if this is more than n_bytes, nothing has been done. `room` is the capacity of the
 * stack in edges of polygons or vertices of polytopes, and `room_items` its capacity in cells.
 * Returns 0 if the dimension or a capacity is not supported. */
HM_API size_t hm_search_begin(void* memory, size_t n_bytes, const void* network,
                              const hm_search_start* start, int32_t room, int32_t room_items);

/* Move the stack to separate memory with a larger capacity. The contents of the stack are
 * preserved. */
HM_API size_t hm_search_stack_size(const void* search, int32_t room, int32_t room_items);
HM_API void hm_search_set_stack(void* search, void* memory, int32_t room, int32_t room_items);

/* A cell of D dimensions. A vertex is 2 D + 2 numbers: a point and its radius, then a direction and
 * its radius. A facet is a form of D + 4 numbers: slopes, offset, offset at infinity, radius of the
 * slopes and radius of the offset. In every dimension except two, the form is scaled, and a bound
 * on the sum of its absolute slopes follows. A stride is the number of entries from one row to the
 * next. Pointers to outputs may be null.
 *
 * In two dimensions, facet i is the edge from vertex i to the next vertex, and the fields after
 * `walls` are unused.
 */
typedef struct {
    int32_t n_vertices, n_facets, n_words, n_ties;
    int32_t vertex_stride, facet_stride;
    double* vertices;
    double* facets;
    int32_t* walls;  /* (n_facets, 4): layer, group, winner, rival */
    uint64_t* masks; /* (n_vertices, n_words): bit i is set if the vertex is on facet i */
    int32_t*
        ties; /* (n_ties, 3): a facet, or -1 for all; a group with two winners there; one of them */
    /* (n_facets): whether the search composed this form itself and did not replace it */
    int32_t* is_pure;
    /* (n_facets): for a part, the index of the facet in the whole cell, or -1 */
    int32_t* sources;
    int32_t is_canonical; /* whether the vertices are exactly those that are stored */
} hm_cell;

/* Push a cell on the stack, to be searched from `layer` on. `signature` contains the winners of the
 * earlier layers. `typical` contains the typical winners of these layers and, if the cell is part
 * of a region that has been entered, also of `layer` itself. Returns 0, 1 if the stack is full, or
 * HM_OUT_OF_RANGE. */
HM_API int32_t hm_search_push(void* search, int32_t layer, int32_t is_part,
                              const int32_t* signature, const int8_t* typical, const hm_cell* cell);

/* Remove the lowest cells from the stack, which are last in the order. */
HM_API void hm_search_drop(void* search, int32_t n_items);
/* Write the typical winners of the layers on the path. */
HM_API void hm_search_typical(const void* search, int8_t* typical);
/* Recompose the stream after a layer that was refreshed. */
HM_API void hm_search_recompose(void* search, int32_t layer);

/* Continue the search. Returns 0 if it is complete, 1 if the budget is spent, 2 if the stack is
 * full, 3 if the cell arrays are full, 4 if the limit of cells is reached, 5 if a sign is undecided
 * on the top cell, and 6 if the top cell has an uncertain vertex. */
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
    /* only one of the three kinds of signatures is used: see `Cells` in cells.hpp */
    uint8_t* bit_signatures;
} hm_cells;
/* Ends early, as if the budget were spent, if another thread sets `is_wanted`. If another thread sets
 * `is_stopped`, which may be null, the current step is abandoned and the stack is restored to its
 * state before the step. At the end, writes `hm_search_counts`. */
HM_API int32_t hm_search_run(void* search, hm_cells* cells, int64_t limit, int64_t budget,
                             const int32_t* is_wanted, int64_t counts[4],
                             const int32_t* is_stopped);

/* A column of the cells. `field` is the offset of its pointer in hm_cells, in bytes. `counted` says
 * what its rows belong to: 0 cells, 1 vertices, 2 facets, 3 ties. `n_before` is the number of rows
 * of zeros in front of the pointer, and `row_bytes` the size of a row in bytes. */
typedef struct {
    int64_t field, counted, n_before, row_bytes;
} hm_column;
/* Copy n columns, one after the other, to a block of n_bytes. Writes their new addresses and the
 * number of cells to `packed`. Returns the number of bytes needed; if this is more than n_bytes,
 * nothing has been done. */
HM_API size_t hm_cells_pack(const hm_cells* cells, int32_t n, const hm_column* columns,
                            hm_cells* packed, void* block, size_t n_bytes);
/* Write four numbers: cells found, signs decided by the filter, signs decided by expansions, and
 * cells on the stack. */
HM_API void hm_search_counts(const void* search, int64_t counts[4]);

/* Read cell `item` of the stack. Writes its layer, the number of its pending groups that are done,
 * and the next pending group (-1 if there is none) to `place`. Writes its sizes, and its arrays as
 * far as they exist, to `cell`. */
HM_API void hm_search_item(const void* search, int32_t item, int32_t place[3], hm_cell* cell);
/* Write the approximate size of each cell on the stack, from the lowest up: the area, or the volume
 * of the bounding box; NaN if the cell is unbounded. For estimates only, never for decisions. */
HM_API void hm_search_sizes(const void* search, double* sizes);
HM_API void hm_search_signature(const void* search, int32_t* signature);
/* Write, for each layer, the number of regions entered so far and whether coinciding forms were
 * merged. */
HM_API void hm_search_versions(const void* search, int64_t* versions, int32_t* are_merged);
/* Write the forms of a group that may win on the region. Returns their number. */
HM_API int32_t hm_search_candidates(const void* search, int32_t layer, int32_t group,
                                    int32_t* forms);
/* Of a search on a line: say which forms of a group win on the region one after the other, from left to
 * right. Without any (n = 0), whether that is known: 0, or HM_UNAVAILABLE. */
HM_API int32_t hm_search_set_chain(void* search, int32_t layer, int32_t group, int32_t n,
                                   const int32_t* forms);
/* The scores (D + 2, n) of a layer. */
HM_API void hm_search_scores(const void* search, int32_t layer, double* block);

/* Replace the top cell by parts with the given winners; the last part becomes the top. Returns 0, 1
 * if the stack is full, or HM_OUT_OF_RANGE. */
HM_API int32_t hm_search_replace(void* search, int32_t n_parts, const int32_t* winners,
                                 const hm_cell* parts);
/* Set the vertices (n, 2 D + 2) of the top cell. */
HM_API void hm_search_set_vertices(void* search, const double* vertices);
/* Replace the stream (D + 2, n) and the scores (D + 2, n) of a layer by more precise ones. Unless
 * the layer is ReLU, also replace the contributions of its forms, with coinciding forms merged. */
HM_API void hm_search_refresh(void* search, int32_t layer, const double* stream,
                              int32_t stream_is_exact, int32_t stream_grid, const double* scores,
                              int32_t scores_are_exact, int32_t scores_grid, const int32_t* first,
                              const double* gains, const double* gain_radii, const double* values,
                              const double* value_radii);

/* Cells in any dimension except two, with their facets inside the domain: see facets.hpp. */
typedef struct {
    const hm_cells* cells; /* as a search writes them, except for signatures stored as bits */
    int32_t dim, n_groups, n_borders;
    const int64_t* group_layers; /* (n_groups) */
    const int32_t* kinds;        /* (n_layers): 0 only units, 1 continuous or last, 2 with jumps */
    const uint64_t* weights;     /* (n_groups): random odd words for hashing */
    const double* borders;       /* (n_borders, dim + 3): the domain's slopes, offsets and radii */
    const int8_t* is_chosen;     /* (n_cells): which cells to process, or null */
    int32_t covers;              /* whether all cells are present and none is excluded */
    /* In the memory of the functions below: */
    int64_t* owners; /* (n_facets): the cell of each facet */
    /* (n_facets): an identifier of the split that made the facet, if the facet is loose */
    int64_t* splits;
    /* (n_facets + n_borders, dim + 3): slopes, offsets and radii of the forms composed so far, then
     * the borders */
    double* forms;
} hm_facets;

/* The header of the memory of the functions below. It holds the pairs of facets found so far that
 * share part of a wall, and the loose facets, which have not been matched by name: their number,
 * the number of those to be searched, the index of the next one to search, and the number of those
 * left open by the search. */
typedef struct {
    int64_t n_pairs, room;
    int64_t* pairs;        /* (room, 2) */
    /* (n_pairs, 2); valid, like `groups`, once all pairs are found and sorted */
    int64_t* cells;
    int64_t* groups;       /* (n_pairs) */
    int32_t is_sorted;
    int64_t n_loose, n_searched, next, n_open;
    const int64_t* loose;  /* (n_loose): facets, grouped by wall */
    const int8_t* is_open; /* (n_loose) */
} hm_meeting;

/* Match facets by name and list the others, in a block of n_bytes that can also hold a search of
 * the network. Returns the number of bytes needed, or 0 if the cells are not cells of the network.
 * If more than n_bytes are needed, nothing has been done. With at most `budget` facets, the
 * function also searches the unmatched facets and, if none of them stays open and no groups tie,
 * sorts all pairs. */
HM_API size_t hm_facets_meet(hm_facets* facets, const void* network, const hm_search_start* start,
                             void* memory, size_t n_bytes, int64_t budget);
/* Search the cells beyond the facets that are to be searched, after composing these facets: see
 * `overlay`. Stops if `pairs` is full or `budget` pairs have been found. The caller may replace
 * `pairs` by a larger array. */
HM_API void hm_facets_overlay(const hm_facets* facets, void* memory, int64_t budget);
/* Sort n pairs of facets in the order of their cells, with the smaller cell first. Writes the pairs
 * of cells (n, 2) and the group of the first facet of each pair. */
HM_API void hm_facets_sort(const hm_facets* facets, void* memory, int64_t n, int64_t* pairs,
                           int64_t* cells, int64_t* groups);
/* Write the forms, positive inside, of all facets of those cells that have any of the n chosen
 * facets. Radii are infinite if the network passes on means of contributions. */
HM_API void hm_facets_compose(const hm_facets* facets, void* memory, int64_t n,
                              const int64_t* chosen);
/* For n chosen facets, write the start of each facet's vertices (n + 1), the vertices, and bounding
 * boxes (n, 2, dim). */
HM_API void hm_facets_corners(const hm_facets* facets, int64_t n, const int64_t* chosen,
                              int64_t* starts, int64_t* corners, double* boxes);
/* Compare facets of one split: see `compare_facets`. `rows`, `normals` and `inside` are scratch
 * arrays: for all facets of two cells and of the domain, for dim + 1 numbers of each of these, and
 * for the vertices of a cell. Returns the position at which to continue, and writes the number of
 * pairs. */
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

/* Find the pairs of polygons that share part of a wall. hm_neighbours_size returns 0 if the cells
 * are not polygons (see `are_polygons`). hm_neighbours_gather groups the edges by their lines and
 * returns the number of bytes needed for matching, or -1 if the cells are not sorted.
 * hm_neighbours_match matches the edges, marks those left open in is_open (n_edges) and returns the
 * number of pairs. hm_neighbours_pairs writes the pairs (n, 2), sorted and with the smaller cell
 * first, and their overlapping edges (n, 2). */
HM_API size_t hm_neighbours_size(const hm_polygons* polygons);
HM_API int64_t hm_neighbours_gather(const hm_polygons* polygons, void* memory);
HM_API int64_t hm_neighbours_match(const hm_polygons* polygons, void* memory, void* room,
                                   uint8_t* is_open);
HM_API void hm_neighbours_pairs(const hm_polygons* polygons, void* memory, int64_t* pairs,
                                int32_t* edges);
/* Mark the edges (n_edges) that may lie on walls other than the one that names them. The stack of
 * the search must be empty, with capacity for the edges of every cell. */
HM_API int32_t hm_neighbours_ties(void* search, const hm_polygons* polygons, uint8_t* may_tie);
/* Quantities to compute for stored cells of the plane, which must be in the order of their
 * signatures: 1 volume, 2 a point inside, 4 a largest ball. */
typedef struct {
    const uint8_t* short_signatures; /* as in hm_cells */
    const int32_t* signatures;
    const int64_t* starts; /* (n_cells + 1): the start of each cell's walls */
    const int32_t* walls;
    /* Results; each array is used only if its quantity is requested: */
    double* volumes;   /* (n_cells, 2): volume and error radius */
    double* witnesses; /* (n_cells, 2) */
    double* balls;     /* (n_cells, 3): centre and radius */
    uint8_t* open;     /* (n_cells): bits of the quantities that floats could not decide */
} hm_measured;
/* `n_rows` is the number of inequalities of the domain, `room_edges` the maximum number of edges of
 * a cell. */
HM_API size_t hm_measures_size(const void* network, int32_t n_rows, int32_t room_edges);
/* Initialize with the first polygon of the search. */
HM_API int32_t hm_measures_init(void* measures, const void* network, const hm_search_start* start,
                                int32_t n_rows, int32_t room_edges, int32_t n,
                                const double* edges, const int32_t* walls);
/* Compute the quantities for cells `first` to `end`, `end` excluded. */
HM_API int32_t hm_measures_run(void* measures, const hm_measured* cells, int32_t questions,
                               int64_t first, int64_t end);

/* The same for cells in three to seven dimensions: see solids.hpp. */
typedef struct {
    const int8_t* is_wanted; /* (n_cells): the other cells are left open */
    /* Results as in hm_measured, for points of `dim` coordinates. */
    double* volumes;
    double* witnesses;
    double* balls;
    uint8_t* open;
} hm_solid_answers;
/* `n_borders` is the number of inequalities of the domain; `room_facets` and `room_points` are the
 * maximum numbers of facets inside the domain and of vertices of a cell. */
HM_API size_t hm_solids_size(const void* network, int32_t dim, int32_t n_borders,
                             int32_t room_facets, int32_t room_points);
/* Each row of `borders` (n_borders, dim + 3) contains slopes, offset and radii; the form is
 * positive inside. */
HM_API void hm_solids_init(void* solids, const void* network, const hm_search_start* start,
                           int32_t n_borders, int32_t room_facets, int32_t room_points,
                           const double* borders);
HM_API int32_t hm_solids_run(void* solids, const hm_facets* cells, const hm_solid_answers* answers,
                             int32_t questions, int64_t first, int64_t end);
/* Return the approximate volume of a bounded cell of a stack in three to seven dimensions, or NaN
 * if the computation would take too long. For estimates only, never for decisions. `scratch` has
 * the number of bytes returned by hm_volume_size. */
HM_API size_t hm_volume_size(int32_t dim, const hm_cell* cell);
HM_API double hm_volume(int32_t dim, const hm_cell* cell, void* scratch);

/* The winners at given points in a space of any dimension. `embedding` contains the weights (dim,
 * dim_stream), unless the embedding is the identity, and the biases. The size is 0 if `is_identity`
 * is set but `dim` does not match. The memory must be used by one thread at a time. */
HM_API size_t hm_points_size(const void* network, int32_t dim, int32_t is_identity);
HM_API void hm_points_init(void* points, const void* network, int32_t dim, int32_t is_identity,
                           const double* embedding);
/* Evaluate finite points (n_points, dim). Writes the winners of the groups from `first_group` on to
 * one of the two arrays (n_points, n_groups - first_group). Sets `open` for the points left
 * undecided. */
HM_API void hm_points_run(void* points, int64_t n_points, const double* given, int32_t first_group,
                          uint8_t* short_signatures, int32_t* signatures, uint8_t* open);
/* Count the signatures at finite points (n_points, dim) by their hashes. A hash is the sum of the
 * winners from `first_group` on, each times its word in `weights`. If `box` (2, dim) is given, the
 * numbers are fractions of its sides, from 0 to 1, and are replaced by the points; points that are
 * not inside the box are not counted. Writes the distinct hashes, their counts and the undecided
 * points, at most n_points of each. `table` is scratch with `n_places` entries, a power of two
 * larger than the number of points. Returns the number of distinct hashes. */
HM_API int64_t hm_points_tally(void* points, int64_t n_points, double* given, const double* box,
                               int32_t first_group, const uint64_t* weights, int32_t* table,
                               int64_t n_places, uint64_t* distinct, int64_t* counts,
                               int64_t* open, int64_t* n_open);
/* Networks whose nodes form a directed graph, on a cell of a line or a plane: see graphs.hpp.
 *
 * A node writes slots from `first` on. There are three kinds:
 * - A block (kind 0) has n_rows rows of n_columns slots, with a distance of `stride` slots between
 *   rows. A slot is a sum over n_taps taps of n_channels slots each, which begin at columns
 *   (n_rows, n_taps) (-1 for no slots), times weights (n_taps, n_channels, n_columns), plus bias
 *   (n_columns).
 * - A sparse map (kind 1) has n_rows rows. Row r has the entries starts[r] to starts[r + 1] of
 *   columns and weights, and a bias (n_rows).
 * - A node of maxima (kind 2) has n_rows groups of entries weight * slot + bias; if the column is
 *   -1, the entry is the bias alone. The slot of a group is `sign` times its largest entry.
 *
 * The readers of slots are stored for the n_readable slots from `low` on. For a block, owners
 * (n_readable) are pixels or -1, and the pairs (row, tap) that read pixel p start at
 * uses[use_starts[p]]. For the other kinds, uses contains pairs (row, entry) for each slot. kappa
 * bounds the relative rounding error of a sum.
 */
typedef struct {
    int64_t kind, n_rows, n_columns, n_taps, n_channels, stride, first, first_group, first_dirty;
    int64_t n_sources, low, n_readable;
    double sign, kappa;
    const int32_t *starts, *columns;
    const double *weights, *bias;
    const uint8_t*
        is_repeated; /* for maxima: entries equal to an earlier entry of the same group */
    const int32_t* sources; /* the nodes whose slots this node reads */
    const int32_t *owners, *use_starts, *uses;
} hm_graph_node;

/* Forms (dim + 1, n_slots), offsets last, and radii (n_slots) on the cell with the given winners,
 * one for each group. The other arrays are scratch: deltas, eps, marks (initially zero) and dirty
 * (n_slots each), and n_dirty (n_nodes). */
typedef struct {
    const hm_graph_node* nodes;
    int64_t n_nodes, n_slots;
    double scale; /* an upper bound on the coordinates of the domain */
    double *forms, *radii;
    int32_t* winners;
    double*
        reaches; /* (n_groups): see `reach_of` in graph_search.hpp; -1 if the forms have changed */
    double *deltas, *eps;
    uint8_t* marks;
    int32_t* dirty;
    int64_t* n_dirty;
} hm_graph_cell;

/* Check that the nodes, with `n_groups` groups in total, read and write only existing slots.
 * Returns HM_OUT_OF_RANGE if they do not. All other functions require nodes that have passed this
 * check. */
HM_API int32_t hm_graph_check(const hm_graph_cell* cell, int64_t n_groups);
/* Compose the forms of the nodes from `begin` to `end`. `dim` is 1 or 2. */
HM_API void hm_graph_compose(const hm_graph_cell* cell, int32_t dim, int64_t begin, int64_t end);

/* A cell on the stack of a search: its node, its sides, the groups of the node that may be open on
 * it, and the group decided last with its winner, or -1 if every group of the node must be
 * examined. */
typedef struct {
    int64_t node, first_side, n_sides, first_open, n_open, group, winner;
} hm_graph_item;

/* The cells found, in arrays with capacity for more. A vertex has dim coordinates and a radius. The
 * wall after a vertex is a node, a group and a rival; on the boundary of the domain it is -1, the
 * number of the side, -1. The changes are pairs of a group and its new winner, relative to the
 * previous cell; before the first cell, all winners are 0. maps (n, dim + 2, n_outputs): slopes,
 * offsets, radii. */
typedef struct {
    int64_t piece_room, vertex_room, change_room, n_pieces, n_vertices, n_changes;
    int64_t *vertex_ends, *change_ends;
    double* vertices;
    int32_t *walls, *changes;
    double* maps;
} hm_graph_pieces;

/* The sign of a form at a vertex, or 3 if it cannot be determined. Each row of walls (3, 4) is a
 * node, a group, a winner and a rival: first for the form, then for the two sides that meet at the
 * vertex. A side of the domain has node -1, followed by its number. */
typedef int32_t (*hm_graph_question)(const int32_t* walls);

/* A search: see graph_search.hpp. Each examined group represents its members, at member_starts
 * (n_groups + 1). Slots with equal numbers are equal functions; number 0 is the zero function. The
 * stack has capacities for items, sides, signs (side_room) and lists of open groups. The other
 * arrays are scratch, initially zero: is_stale (n_nodes), is_noted, noted and written (n_groups),
 * entries (size of the largest group), changes (n_groups, 2) and centres (n_nodes, dim).
 *
 * zeros (n_slots + 8) contains bits that state at which corners of the domain a slot is zero, for
 * at most eight corners. The caller provides them for the inputs. For the slots of the first
 * n_known nodes they are valid for the current winners. The sides follow after the slots.
 */
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

/* Write the rounded derivatives (n_slots, n_columns) of all slots with respect to some inputs; the
 * rows of the inputs are given. If is_moved (n_slots) is 0, the derivatives of the slot are zero
 * and are not written. */
HM_API void hm_graph_differentiate(const hm_graph_cell* cell, int64_t n_columns,
                                   double* derivatives, uint8_t* is_moved);

HM_API size_t hm_graph_side_size(int32_t dim);
/* Begin with a domain: lines (n, dim + 1), positive inside and in cyclic order, and their radii. */
HM_API void hm_graph_search_begin(hm_graph_search* search, int32_t dim, int64_t n_sides,
                                  const double* lines, const double* radii);
/* Continue until n_pieces more cells are found. Returns 0 if the search is complete, 1 if n_pieces
 * were found, 2 if the arrays for pieces are full, 3 if the stack is too small, and 4 if a question
 * was not answered. Ends early, with 1, if another thread sets `is_stopped`. */
HM_API int32_t hm_graph_search_run(hm_graph_search* search, int32_t dim, int64_t n_pieces,
                                   const int32_t* is_stopped);

/* Affine forms a1 x1 + a2 x2 + c of the plane in integers of 64-bit limbs, lowest first, in two's
 * complement, with at least three bits more than the longest integer. The slopes (n, 2,
 * slope_limbs) share one unit, and the offsets (n, offset_limbs) another. See lifted.hpp. */
typedef struct {
    int32_t n, slope_limbs, offset_limbs;
    const uint64_t* slopes;
    const uint64_t* offsets;
} hm_forms;

/* The sets of forms that are the k largest on some open set: see order_k.hpp. The forms are
 * distinct, each with a multiplicity, and their slopes are not collinear; 1 <= k < the sum of the
 * multiplicities. */
HM_API size_t hm_order_k_size(const hm_forms* forms, int32_t k, int32_t room_cells);
/* Begin with a set, one of its walls, between form i in the set and form j outside, and all forms
 * that tie along that wall. The set is min(k, n) + 1 numbers: its forms, padded with n; then the
 * form of which only a part belongs to it, or n. */
HM_API int32_t hm_order_k_begin(void* order_k, const hm_forms* forms, const int32_t* multiplicity,
                                int32_t k, int32_t room_cells, const int32_t* set,
                                const int32_t* tied, int32_t n_tied, int32_t i, int32_t j);
/* Walk around `budget` cells. Returns 0 if the search is complete, 1 if the budget is spent, and 2
 * if there is no capacity for more cells. */
HM_API int32_t hm_order_k_run(void* order_k, int32_t budget);
/* Read the sets (n_cells, min(k, n) + 1), the start of each set's walls (n_cells + 1), and the
 * walls (n_walls, 2), each a form of the set and a form outside. Writes n_cells and n_walls first;
 * arrays may be null. */
HM_API void hm_order_k_read(const void* order_k, int32_t counts[2], int32_t* sets,
                            int32_t* first_wall, int32_t* walls);

/* Points of R^dim, 3 <= dim <= 5: floats, or integers with a separate unit for the last column. */
typedef struct {
    int32_t n, dim;
    int32_t limbs, last_limbs; /* per integer, with three spare bits */
    const uint64_t* columns;   /* (n, dim - 1, limbs), in two's complement, lowest first; or null */
    const uint64_t* last;      /* (n, last_limbs) */
    const double* floats;      /* (n, dim), if there are no integers */
} hm_hull_points;

/* Their convex hull or upper hull: see convex_hull.hpp. The facets are in separate memory, which
 * can be replaced by a larger block. */
HM_API size_t hm_hull_size(const hm_hull_points* points);
HM_API size_t hm_hull_facets_size(int32_t dim, int32_t room);
/* Begin with the simplex of the points in `start` (dim + 1 points, or dim for an upper hull). If
 * `start` is null, the function looks for a simplex in floats. Returns 1, 0 if the simplex is
 * flat, or HM_OUT_OF_RANGE. The points must stay in place, and there must be capacity for dim +
 * 1 facets. */
HM_API int32_t hm_hull_begin(void* hull, const hm_hull_points* points, int32_t is_upper,
                             const int32_t* start, void* facets, int32_t room);
/* Move the facets to memory with a larger capacity. */
HM_API void hm_hull_move(void* hull, int32_t dim, void* facets, int32_t room);
/* Insert at most `budget` points. Returns 0 if the hull is complete, 1 if the budget is spent, and
 * 2 if there is no capacity for more facets. */
HM_API int32_t hm_hull_run(void* hull, int32_t dim, int32_t budget);
/* Return the number of facets. */
HM_API int32_t hm_hull_n_facets(const void* hull, int32_t dim);
/* Write the corners (n_facets, dim) of all facets, with -1 for the point at infinity, and the face
 * that each facet belongs to (n_facets). Returns the number of faces. */
HM_API int32_t hm_hull_finish(void* hull, int32_t dim, int32_t* corners, int32_t* faces);
/* For integer points (a, c) and the corners (n, dim) of facets of their upper hull, write the
 * points x (n, dim - 1) where <a, x> + c has the same value for all corners, rounded to nearest and
 * multiplied by 2^exponent; NaN if the rounding is not clear. Needs memory of hm_hull_size. */
HM_API int32_t hm_hull_vertices(void* memory, const hm_hull_points* points, const int32_t* corners,
                                int32_t n, int32_t exponent, double* vertices);

/* The corners of the convex hull of n >= 1 points of the plane (n, 2), counter-clockwise, or of their
 * upper hull, from left to right: see planar_hull.hpp. `order` (n) sorts the points lexicographically; of
 * equal points, the first in it is used. `corners` has n + 1 entries, `scratch` has n. Writes the number of
 * corners; returns 0 or HM_OUT_OF_RANGE. */
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

/* Read the cells from the upper hull of points in space, once the hull is complete. */
HM_API size_t hm_envelope_size(const void* hull);
HM_API void hm_envelope_read(void* memory, const void* hull, hm_envelope_cells* cells);

/* An affine map x W + b with bounds on its norms: see `NormedMap` in
 * models/_arithmetic/normed_maps.py. */
typedef struct {
    int64_t n_in, n_out;
    const double* rows; /* (n_in + 1, n_out): W, then b as the last row */
    /* (n_panels, n_in + 1, 8): `rows` divided into groups of columns, padded with zeros; or null */
    const double* panels;
    const double* omega;     /* (n_out): norms of the columns of W */
    const double* bias_size; /* (n_out): |b| */
    double sigma, frobenius, bias_norm, kappa;
    double column_sum, bias_most; /* the largest sum of |W| in a column, and the largest |b| */
    int64_t grid, bias_grid; /* all entries are multiples of 2^grid; far below 0 if unknown */
} hm_normed_map;

/* Compute the norms of n maps, given their sizes and `rows`, in a network of n_layers, and divide
 * all maps except the first into panels: see `pack_maps`. Returns the number of bytes needed, or 0
 * if the sizes of consecutive maps do not match. If `memory` is null, only the size is computed. */
HM_API size_t hm_line_pack(hm_normed_map* maps, int64_t n, int64_t n_layers, void* memory);

/* Intervals of a line through a ReLU network, from left to right: see `LineRows` in lines.hpp. */
typedef struct {
    int64_t index; /* the layer */
    int64_t n;     /* number of points that bound the intervals */
    const double* values;
    const double* scales;
    const double* blurs;
    const double* places;
    const int64_t* names;
    const uint8_t* is_open; /* (n - 1): which intervals are undecided, if there are any */
    int64_t n_signs;        /* number of signs determined in earlier layers */
    /* If no layer is left: the ends and their error radii (n), and, at each inner end, the entry of
     * the signature that changes and its new value (n - 2). */
    const double* where;
    const double* radii;
    const int64_t* groups;
    const uint8_t* winners;
} hm_line_run;

/* Write the rows (2, n_out) of the first layer at two points, given by the stream before it and
 * their weights. The first column of `scales` (2, 3) receives the norms of the errors. */
HM_API void hm_line_enter(const hm_normed_map* map, const double* const ends[2],
                          const double weights[2], double* rows, double* scales);
/* Divide the intervals by the layers from run->index on. Afterwards, `run` describes where the
 * function stopped, and its arrays are in `memory`. Returns 0 if no layer is left, 1 if a limit on
 * the work is reached, 2 if intervals are undecided, 3 if the next layer would have too many
 * entries, and 4 if `memory` is too small for it. `reach` bounds the absolute values of the finite
 * ends of the line. */
HM_API int32_t hm_line_advance(const hm_normed_map* maps, int64_t n_layers, double reach,
                               hm_line_run* run, uint8_t* states, const int64_t* most_rows,
                               int64_t most_entries, void* memory, size_t memory_size);
/* The same, starting from the ends of a segment, given as points before the first layer. */
HM_API int32_t hm_line_between(const hm_normed_map* maps, int64_t n_layers, const double* start,
                               const double* end, hm_line_run* run, uint8_t* states,
                               const int64_t* most_rows, int64_t most_entries, void* memory,
                               size_t memory_size);
/* Write the positions of the ends of intervals and their error radii: see `bound_ends`. */
HM_API void hm_line_ends(int64_t n, const double* places, const double* blurs, int64_t n_layers,
                         double reach, double* where, double* radii);
/* Cells along a line if all forms are integers with few digits: see line_integers.hpp. */
typedef struct {
    int64_t most_cells;   /* capacity in cells; the arrays of ends have one entry more */
    int64_t most_changes; /* capacity in changes, at least the number of units */
    double* where;        /* the left end of each cell and the right end of the last, rounded */
    double* radii;        /* their error radii */
    int64_t* ratios;      /* (n, 2): p and q of p / q; infinity has q = 0 */
    int64_t* names;       /* (n, 3): the layer, and the two forms that tie there */
    uint8_t* signature;   /* the signature of the first cell */
    int64_t* starts;      /* (n_cells + 1): the changes before cell i start at starts[i] */
    int64_t* groups;      /* the entry of the signature that changes */
    uint8_t* winners;     /* its new value */
    int64_t n_cells, n_changes, n_signs;
    int64_t is_done; /* whether these are the last cells */
} hm_line_pieces;
HM_API size_t hm_line_integers_size(const hm_normed_map* maps, int64_t n_layers);
/* Begin with the stream before the first layer (2, n_in), as slopes and offsets, or as its values
 * at 0 and 1. `outer` contains the ends of the domain, p and q of each. Returns 0 if the
 * computation might round. */
HM_API int32_t hm_line_integers_begin(void* memory, const hm_normed_map* maps, int64_t n_layers,
                                      const double* stream, int32_t are_ends,
                                      const int64_t outer[4]);
/* Write the next cells. */
HM_API void hm_line_integers_run(void* memory, hm_line_pieces* pieces);
/* Write the forms of the layers from `first` up to `last` on the interval with the given states, in
 * twice the precision, to blocks of 5 rows of `stride` numbers: slopes, offsets, their low parts,
 * and radii. Block 0 is the stream before the first layer, block l + 1 is layer l, and block
 * n_blocks - 1 is overwritten. */
HM_API void hm_line_doubled(const hm_normed_map* maps, int64_t first, int64_t last,
                            const uint8_t* states, double* blocks, int64_t n_blocks,
                            int64_t stride);
/* The maps on cells along a line, as slopes and offsets (n_cells, 2, n_out) with radii. The
 * functions return the size of the memory, start (see `start_maps` in line_maps.hpp), and compose
 * the maps of some cells from `first` on. The last returns the index of the next cell.
 * maps[n_layers] is the map to the output. */
HM_API size_t hm_line_maps_size(const hm_normed_map* maps, int64_t n_layers, int64_t n_changes);
HM_API int32_t hm_line_maps_init(void* memory, const hm_normed_map* maps, int64_t n_layers,
                                 int64_t n_cells, int64_t n_changes, const uint8_t* signature,
                                 const int64_t* starts, const int64_t* entries,
                                 const uint8_t* winners, const double* stream,
                                 const double errors[2]);
HM_API int64_t hm_line_maps_compose(void* memory, int64_t first, double* values, double* radii);

/* Recompute the top cell in twice the precision, even if not necessary. Returns whether anything
 * became more precise. */
HM_API int32_t hm_test_improve(void* search);
/* Write the intersection of the lines of two edges, rows of 12 numbers, to vertex[6]. */
HM_API void hm_test_meet(const double* one, const double* other, double* vertex);
/* Scale an exact form in three dimensions (four numbers) to the eight numbers of a facet. */
HM_API void hm_test_facet(const double* form, double* facet);
/* Write the intersection of three facets, rows of eight numbers, to vertex[8]. */
HM_API void hm_test_meet_facets(const double* facets, double scale, double* vertex);
/* Compute every quantity for a polygon of at most 16 edges (n, 12): volume and radius; a point
 * inside; centre and radius of a ball. Returns the quantities left open. */
HM_API int32_t hm_test_measure(int32_t n, const double* edges, double answers[7]);
/* The filtered sign of the form a, b, c with radius 0 at a vertex; 0 if it is undecided. */
HM_API int32_t hm_test_filtered_sign(const double* form, const double* vertex);

/* The largest of several affine forms at a point: see winners.hpp. */
typedef struct {
    const double* slopes;  /* (n_forms, dim) */
    const double* offsets; /* (n_forms) */
    const double* points;  /* (n_points, dim) */
    int64_t dim;
} hm_stored_forms;
/* The exact sign of the first form minus the second at the first point, or 2 if it could not be
 * computed. The expansion has capacity for 4 dim + 4 numbers. */
HM_API int32_t hm_test_difference(const hm_stored_forms* forms, double* expansion);
/* Find the largest of computed values (n_points, n_forms); the error of each value is at most the
 * bound of its row. Writes the undecided rows to `pending` and returns their number. */
HM_API int64_t hm_winners_clear(int64_t n_points, int64_t n_forms, const double* values,
                                const double* bounds, int64_t* form, int64_t* pending);
/* Find the first of the largest exact values, and the number of forms that attain it. */
HM_API void hm_winners_exact(int64_t n_points, int64_t n_forms, const double* values,
                             const int64_t* multiplicity, int64_t* form, int64_t* n_tied);
/* Find the same at n points, by intervals and exact comparisons. `stage` records the method that
 * decided: 0 intervals, 1 expansions, 2 undecided. */
HM_API void hm_winners_play_off(const hm_stored_forms* forms, int64_t n_forms,
                                const int64_t* multiplicity, int64_t n, const int64_t* rows,
                                int32_t is_filtering, double factor, double allowance,
                                double* upper, double* expansion, int64_t* form, int64_t* n_tied,
                                int8_t* stage);

/* Max-plus products max_k left[i][k] + right[k][j] with `inner` >= 1 terms, for some of the tiles
 * of `out`. left is (n_rows, inner); `row_step` and `column_step` are the strides of right. */
HM_API int64_t hm_max_plus_n_tiles(int64_t n_rows, int64_t n_columns);
HM_API void hm_max_plus_tiles(const double* left, const double* right, double* out, int64_t n_rows,
                              int64_t inner, int64_t n_columns, int64_t row_step,
                              int64_t column_step, int64_t first, int64_t last);
/* Relax all edges of a graph until no label increases, but at most n_sweeps times. Returns whether
 * no label increased in the last sweep. */
HM_API int32_t hm_max_plus_relax(int64_t n, const double* weights, double* labels, int64_t* parents,
                                 int64_t n_sweeps);

/* The point nearest to the origin in the hull of rows (n_rows, dim) of approximately unit length:
 * see `NearestQuestion` in nearest.hpp. `support`, `weights` (dim + 2) and `point` (dim) may
 * contain a starting point. Returns 1 if `point` separates the origin from the rows, 0 if it lies
 * in the hull of the support, and -1 if rounding errors prevent a decision. The result is a
 * floating-point candidate that must be proved. */
HM_API size_t hm_nearest_size(int32_t dim);
HM_API int32_t hm_nearest(void* memory, const double* rows, int64_t n_rows, int32_t dim,
                          int32_t n_start, double quality, int32_t most_rounds, int64_t* support,
                          double* weights, double* point, int32_t* n_active);

/* Invert the matrix whose columns are the rows (dim, dim), with rounding. Returns 1 if the matrix
 * is proved to be regular. `bounds` receives the bounds on the inverse: see `Inverse` in
 * orientation.hpp. */
HM_API size_t hm_invert_size(int32_t dim);
HM_API int32_t hm_invert(void* memory, const double* rows, int32_t dim, double* inverse,
                         double bounds[2]);

/* Find candidates for the vertices of a hull among some targets. The functions return the memory
 * size of a search, begin it, and process some targets. `status` receives the results of
 * hm_nearest. `support` (n, dim + 2) receives the points between which each target appears to lie
 * (n_points + k for ray k), `n_support` their number, and `directions` (n, dim) the direction in
 * which the target appears to win. The caller keeps the points and rays in memory. */
HM_API size_t hm_candidates_size(int64_t n_points, int64_t n_rays, int32_t dim);
HM_API void hm_candidates_init(void* search, int64_t n_points, int64_t n_rays, int32_t dim,
                               const double* points, const double* rays, const uint8_t* is_known,
                               double quality);
HM_API int32_t hm_candidates_find(void* search, int64_t n_targets, const int64_t* targets,
                                  int64_t* status, int64_t* n_support, int64_t* support,
                                  double* directions);

/* Find the vertices of the hull of n >= 2 distinct points: start, then run the steps from `first`
 * to `last`, of 2 n in total. The verdicts are 1 for a vertex, 0 for no vertex, 2 for no vertex
 * provided that the origin lies in the hull of the differences from the points in `supports` (n,
 * dim + 1; padded with -1), and -1 for undecided. */
HM_API size_t hm_hull_vertices_size(int64_t n, int32_t dim);
HM_API void hm_hull_vertices_init(void* search, int64_t n, int32_t dim, const double* points,
                                  int8_t* verdict);
HM_API void hm_hull_vertices_decide(void* search, int64_t first, int64_t last, int8_t* verdict,
                                    int64_t* supports);

/* Find the pairs of n vertices that are joined by an edge: see `HullEdges` in hulls.hpp.
 * hm_hull_edges_init returns the number of sampled pairs that appear to be joined.
 * hm_hull_edges_decide decides the pairs of each vertex from `first` to `last` with the vertices
 * after it, and returns the number of claims. */
HM_API size_t hm_hull_edges_size(int64_t n, int32_t dim);
HM_API int32_t hm_hull_edges_init(void* search, int64_t n, int32_t dim, const double* rows,
                                  int8_t* adjacent, int64_t* claims, int64_t room_claims,
                                  int32_t n_samples);
HM_API int64_t hm_hull_edges_decide(void* search, int64_t first, int64_t last);

/* The rows of all heads: row r of vertex v states that v scores more than rival[r]. */
typedef struct {
    int64_t dim, n_heads, n_rows;
    /* (n_rows, dim): rounded differences, with largest entry about one */
    const double* rows;
    const double* units;         /* (n_rows, dim): approximately the same, with unit length */
    const double* points;        /* (n_vertices, dim): for guessing winners */
    const int64_t* first_vertex; /* (n_heads + 1) */
    const int64_t* first_row;    /* (n_vertices + 1); the rows after these apply to every tuple */
    const int64_t* rival;        /* (n_rows) */
    const int64_t* reverse;      /* (n_rows): the row of the opposite statement */
} hm_fan;

/* The results of a search for tuples of winners: tuples (n_heads) with directions (dim) that select
 * them; claims with the nodes that rely on them; and deferred nodes, which were not expanded. A
 * claim is a set of rows (dim + 1; padded with -1) whose hull should contain the origin. A node is
 * a tuple padded with -1. */
typedef struct {
    int64_t room_leaves, room_claims, room_parked;
    int64_t n_leaves, n_claims, n_parked;
    int64_t n_refused; /* number of refusals proved in floats */
    int64_t* leaves;
    double* directions;
    int64_t* claims;
    int64_t* claim_paths;
    int64_t* parked;
} hm_joint_found;

/* A search for tuples: memory size, start, a node to search below, and a number of steps.
 * hm_joint_run returns 1 once the search is complete. The caller keeps the fan in memory; n_base of
 * its rows belong to no vertex. */
HM_API size_t hm_joint_size(const hm_fan* fan, int64_t n_base);
HM_API void hm_joint_init(void* search, const hm_fan* fan, int64_t n_base);
HM_API int32_t hm_joint_load(void* search, int64_t level, int64_t n_rows, const int64_t* rows,
                             const int64_t* winners, const double* direction);
HM_API int32_t hm_joint_run(void* search, int64_t root, int64_t steps, hm_joint_found* found);

/* For n tuples of vertices with one direction each: whether the direction is proved to select the
 * tuple, and the sine of its angle to the nearest wall. `margins` may be null. */
HM_API int32_t hm_joint_check(const hm_fan* fan, int64_t n, const int64_t* leaves,
                              const double* directions, uint8_t* is_proved, double* margins);

/* Decide whether row walls[q] of tuple cells[q] is a facet, where rows with equal `line` count as
 * one: 1 yes, 0 no, -1 undecided. */
HM_API size_t hm_joint_facets_size(const hm_fan* fan);
HM_API int32_t hm_joint_facets(void* memory, const hm_fan* fan, const int64_t* line,
                               const int64_t* leaves, int64_t n, const int64_t* cells,
                               const int64_t* walls, int8_t* verdict);

/* Signs and zeros of forms between two points, computed from their values there (see lines.hpp).
 * The functions return: the number of units that change and the sum of their indices; the same
 * number, with the radii at each end; the n zeros as unit, part and blur, and 1 if they are
 * certain; the error of the ends as parts of an interval, and 1 if it is small enough. */
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

/* Whether a rounded row is proved to have a positive product with a direction; and whether the row
 * times a sign is proved to be a positive combination of the columns of a matrix inverted by
 * hm_invert. */
HM_API int32_t hm_test_is_positive(const double* row, const double* direction, int32_t dim);
HM_API int32_t hm_test_is_inside(const double* row, double sign, const double* inverse,
                                 const double* bounds, int32_t dim);

/* Each function writes the high and the low part of its result to pair[0] and pair[1]. */
HM_API void hm_test_two_sum(double a, double b, double* pair);
HM_API void hm_test_fast_two_sum(double a, double b, double* pair);
HM_API void hm_test_halves(double a, double* pair);
HM_API void hm_test_two_product(double a, double b, double* pair);
HM_API void hm_test_two_product_by_halves(double a, double b, double* pair);
/* HM_UNAVAILABLE if the instruction set has no fused multiply-add. */
HM_API int32_t hm_test_two_product_by_fma(double a, double b, double* pair);

/* Expansions, modified in place. Each function except the last returns the new length. */
HM_API int64_t hm_test_grow(double* entries, int64_t length, double number);
HM_API int64_t hm_test_grow_by_product(double* entries, int64_t length, double a, double b);
HM_API int64_t hm_test_compress(double* entries, int64_t length);
HM_API int32_t hm_test_sign(const double* entries, int64_t length);

/* Numbers represented by two floats: x and y are arrays {high, low}. */
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
