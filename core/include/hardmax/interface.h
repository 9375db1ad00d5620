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
HM_API const char *hm_instruction_set(void);

/* The widest instruction set, of those above, that this processor and system can run. */
HM_API const char *hm_widest_instruction_set(void);

/* HM_OK if the calling thread rounds to nearest and keeps subnormal numbers; else HM_UNAVAILABLE.
 * Libraries built with -ffast-math switch subnormal numbers off for the thread that loads them. */
HM_API int32_t hm_float_environment(void);

/* Each writes the high and the low part of its result to pair[0] and pair[1]. */
HM_API void hm_test_two_sum(double a, double b, double *pair);
HM_API void hm_test_fast_two_sum(double a, double b, double *pair);
HM_API void hm_test_halves(double a, double *pair);
HM_API void hm_test_two_product(double a, double b, double *pair);
HM_API void hm_test_two_product_by_halves(double a, double b, double *pair);
/* HM_UNAVAILABLE where the instruction set has no fused operation. */
HM_API int32_t hm_test_two_product_by_fma(double a, double b, double *pair);

/* Expansions, changed in place; each returns the new length. */
HM_API int64_t hm_test_grow(double *entries, int64_t length, double number);
HM_API int64_t hm_test_grow_by_product(double *entries, int64_t length, double a, double b);
HM_API int64_t hm_test_compress(double *entries, int64_t length);
HM_API int32_t hm_test_sign(const double *entries, int64_t length);

/* Numbers of two floats: x and y are arrays {high, low}. */
HM_API void hm_test_add_float(const double *x, double y, double *pair);
HM_API void hm_test_add(const double *x, const double *y, double *pair);
HM_API void hm_test_multiply_float(const double *x, double y, double *pair);
HM_API void hm_test_multiply(const double *x, const double *y, double *pair);

/* bias + sum_j weights[j] x_j for n_terms numbers x_j = {numbers[2 j], numbers[2 j + 1]}. */
HM_API void hm_test_add_terms(double bias, const double *weights, const double *numbers,
                              int64_t n_terms, double *pair);

#ifdef __cplusplus
}
#endif

#endif
