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

#define HM_INTERFACE_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

enum hm_status {
    HM_OK = 0,
    HM_OUT_OF_MEMORY = 1, /* a buffer of the caller is too small */
    HM_UNAVAILABLE = 2    /* this build or this processor cannot do it */
};

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

enum { HM_EDGE_NUMBERS = 12 };

/* Networks: see `Packed` in network.hpp. The second returns whether it is certain that the forms of
 * a group differ, but for those that are said to coincide. */
HM_API size_t hm_network_size(const int64_t* integers, const double* numbers);
HM_API int32_t hm_network_init(void* network, const int64_t* integers, const double* numbers);

/* What a search of the plane starts with. */
typedef struct {
    double scale;         /* a power of two, no less than 1 and than any coordinate */
    const double* stream; /* (4, dim_stream): slopes, offsets and radii before the first layer */
    const double* doubled_stream; /* (7, dim_stream): high parts, low parts, radii */
    int32_t stream_is_exact;
    int32_t stream_grid;
    int32_t is_bounded;
    int32_t stores;
} hm_plane_start;

HM_API size_t hm_plane_size(const void* network, int32_t stores);
HM_API void hm_plane_init(void* search, const void* network, const hm_plane_start* start);

/* The stack has memory of its own, which may be replaced by more; what is on it is kept. */
HM_API size_t hm_plane_stack_size(const void* network, int32_t room_edges, int32_t room_items);
HM_API void hm_plane_set_stack(void* search, void* memory, int32_t room_edges, int32_t room_items);

/* A polygon is (n, 12) numbers: its line a1, a2, c, far offset, radius of slopes, radius of offset; the
 * start of the edge x, y, radius, dx, dy, radius; and (n, 4) walls: layer, group, winner, rival. */

/* Put a polygon on the stack, to be searched from a layer on. `signature` has the winners of the
 * layers before, `typical` the typical winners of these and, if the polygon is part of a region that
 * has been entered, of the layer itself. Returns 0, or 1 if the stack is full. */
HM_API int32_t hm_plane_push(void* search, int32_t layer, int32_t is_part, const int32_t* signature,
                             const int8_t* typical, int32_t n, const double* edges,
                             const int32_t* walls);

/* Forget the lowest polygons of the stack, whose cells come last. */
HM_API void hm_plane_drop(void* search, int32_t n_items);
/* The typical winners of the layers on the path. */
HM_API void hm_plane_typical(const void* search, int8_t* typical);
/* Compose the stream after a layer again, after the layer was refreshed. */
HM_API void hm_plane_recompose(void* search, int32_t layer);

/* Go on; returns 0 done, 1 budget spent, 2 stack full, 3 no room for cells, 4 limit of cells reached,
 * 5 the polygon on top has an undecided sign, 6 the cell on top has an uncertain vertex. */
typedef struct {
    int64_t room_cells, room_vertices;
    int64_t n_cells, n_vertices, n_broken;
    uint8_t* short_signatures;
    int32_t* signatures;
    double* maps;
    float* map_radii;
    int64_t* ends;
    double* points;
    double* directions;
    int32_t* walls;
} hm_cells;
/* It ends early, as if the budget were spent, where another thread sets `is_wanted`. */
HM_API int32_t hm_plane_run(void* search, hm_cells* cells, int64_t limit, int64_t budget,
                            const int32_t* is_wanted);

/* Cells found, signs decided by the filter, signs decided by expansions, polygons on the stack. */
HM_API void hm_plane_counts(const void* search, int64_t counts[4]);

/* Polygon `item` of the stack: returns its number of edges and writes its layer, how many of its
 * pending groups are done, and the next of these (-1: none), into `place`. Arrays may be null. */
HM_API int32_t hm_plane_item(const void* search, int32_t item, int32_t place[3], double* edges,
                             int32_t* walls);
HM_API void hm_plane_signature(const void* search, int32_t* signature);
/* For each layer a count of the regions entered, and whether coinciding forms were merged. */
HM_API void hm_plane_versions(const void* search, int64_t* versions, int32_t* are_merged);
/* The forms of a group that may win on the region; returns how many. */
HM_API int32_t hm_plane_candidates(const void* search, int32_t layer, int32_t group,
                                   int32_t* forms);
/* The scores (4, n) of a layer. */
HM_API void hm_plane_scores(const void* search, int32_t layer, double* block);

/* Replace the polygon on top by parts with the given winners, the last one on top. Returns 0, or 1 if
 * the stack is full. */
HM_API int32_t hm_plane_replace(void* search, int32_t n_parts, const int32_t* winners,
                                const int32_t* sizes, const double* edges, const int32_t* walls);
/* Set the vertices (n, 6) of the cell on top. */
HM_API void hm_plane_set_vertices(void* search, const double* vertices);
/* Replace the stream (4, n) and the scores (4, n) of a layer by better ones; unless it is ReLU, also
 * what its forms contribute, coinciding ones merged. */
HM_API void hm_plane_refresh(void* search, int32_t layer, const double* stream,
                             int32_t stream_is_exact, int32_t stream_grid, const double* scores,
                             int32_t scores_are_exact, int32_t scores_grid, const int32_t* first,
                             const double* gains, const double* gain_radii, const double* values,
                             const double* value_radii);

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

/* Which of them share a part of a wall. First the edges are gathered by their lines: returns the
 * bytes that matching needs, or -1 if the cells are not in order. Then edges are matched: marks those
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
HM_API void hm_neighbours_ties(void* search, const hm_polygons* polygons, uint8_t* may_tie);
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
HM_API void hm_measures_init(void* measures, const void* network, const hm_plane_start* start,
                             int32_t n_rows, int32_t room_edges, int32_t n, const double* edges,
                             const int32_t* walls);
/* Answer for the cells from `first` to `end`. */
HM_API void hm_measures_run(void* measures, const hm_measured* cells, int32_t questions,
                            int64_t first, int64_t end);

/* Who wins at points, in a space of any dimension. `embedding` has the weights (dim, dim_stream),
 * unless it is the identity, and the biases. The memory is used by one thread at a time. */
HM_API size_t hm_points_size(const void* network, int32_t dim, int32_t is_identity);
HM_API void hm_points_init(void* points, const void* network, int32_t dim, int32_t is_identity,
                           const double* embedding);
/* Points (n_points, dim), finite. Writes the winners of the groups from `first_group` on to one of the
 * two arrays (n_points, n_groups - first_group), and whether a point was left undecided to `open`. */
HM_API void hm_points_run(void* points, int64_t n_points, const double* given, int32_t first_group,
                          uint8_t* short_signatures, int32_t* signatures, uint8_t* open);
/* Affine forms a1 x1 + a2 x2 + c of the plane in integers of 64-bit limbs, lowest first, in two's
 * complement, with at least three bits more than the longest: slopes (n, 2, slope_limbs) in one unit,
 * offsets (n, offset_limbs) in another. See lifted.hpp. */
typedef struct {
    int32_t n, slope_limbs, offset_limbs;
    const uint64_t* slopes;
    const uint64_t* offsets;
} hm_forms;

/* Where each of the forms is largest: see EnvelopeCells in envelope.hpp. */
typedef struct {
    int32_t* sites;      /* (n) */
    int32_t* starts;     /* (n + 1) */
    int32_t* neighbours; /* (6 n) */
    int32_t* corners;    /* (6 n) */
    int32_t* triples;    /* (2 n, 3) */
    int32_t n_sites, n_vertices;
} hm_envelope_cells;

HM_API size_t hm_envelope_size(const hm_forms* forms);
/* Begin with three of the forms, which are moved to the front of `order`, all forms in the order of
 * their insertion. Returns 1, or 0 if all slopes are on a line. The forms have to stay. */
HM_API int32_t hm_envelope_begin(void* envelope, const hm_forms* forms, int32_t* order);
/* Insert the next forms of `order`. */
HM_API void hm_envelope_insert(void* envelope, const int32_t* order, int32_t n);
/* Once all are there. */
HM_API void hm_envelope_finish(void* envelope, hm_envelope_cells* cells);
/* The points (n, 2) where three forms each are equal, rounded to the nearest, times 2^exponent; NaN
 * where that is not clear. */
HM_API void hm_envelope_vertices(const void* envelope, const int32_t* triples, int32_t n,
                                 int32_t exponent, double* points);

/* The sets of forms that are the k largest on an open set: see order_k.hpp. The forms are distinct, each
 * with a multiplicity, and their slopes are not on a line; 1 <= k < the sum of the multiplicities. */
HM_API size_t hm_order_k_size(const hm_forms* forms, int32_t k, int32_t room_cells);
/* Begin with a set (min(k, n) + 1 numbers: its forms, filled up with n; the part, or n), one of its walls,
 * between i in it and j outside, and all forms that tie along that wall. */
HM_API void hm_order_k_begin(void* order_k, const hm_forms* forms, const int32_t* multiplicity,
                             int32_t k, int32_t room_cells, const int32_t* set, const int32_t* tied,
                             int32_t n_tied, int32_t i, int32_t j);
/* Walk around some cells; returns 0 done, 1 budget spent, 2 no room for more cells. */
HM_API int32_t hm_order_k_run(void* order_k, int32_t budget);
/* Read the sets (n_cells, min(k, n) + 1), where the walls of each begin (n_cells + 1), and the walls
 * (n_walls, 2): a form of the set and one outside. Writes n_cells and n_walls first; arrays may be null. */
HM_API void hm_order_k_read(const void* order_k, int32_t counts[2], int32_t* sets,
                            int32_t* first_wall, int32_t* walls);

/* Look at the polygon on top in twice the precision, whether needed or not; returns whether anything
 * is known better. */
HM_API int32_t hm_test_plane_sharpen(void* search);
/* Write where the lines of two edges meet into vertex[6]: x, y, radius, dx, dy, radius. */
HM_API void hm_test_meet(const double* one, const double* other, double* vertex);
/* Answer all questions about a polygon of at most 16 edges (n, 12): volume, radius; point; centre,
 * radius. Returns the questions left open. */
HM_API int32_t hm_test_measure(int32_t n, const double* edges, double answers[7]);
/* The filtered sign of the form a, b, c of radii 0 at a vertex; 0 if it is not clear. */
HM_API int32_t hm_test_filtered_sign(const double* form, const double* vertex);

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
