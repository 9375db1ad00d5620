// Requirements of the arithmetic on the compiler: compilation fails here if they are not met.
//
// A header that is also compiled for a device or a browser includes only this one.
#ifndef HARDMAX_PLATFORM_HPP
#define HARDMAX_PLATFORM_HPP

#include <stdint.h>

#if defined(__FAST_MATH__)
#error "hardmax proves its signs: it cannot be compiled with -ffast-math"
#endif
#if defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0
#error "hardmax needs float64 arithmetic without excess precision (no x87)"
#endif
#if !defined(__CUDACC__) && (!defined(__DBL_MANT_DIG__) || __DBL_MANT_DIG__ != 53)
#error "hardmax needs IEEE float64 (and a compiler in the manner of GCC)"
#endif

// HM_FUNCTION: a small inline function, also on a device.
#if defined(__CUDACC__)
#define HM_FUNCTION __host__ __device__ inline
#else
#define HM_FUNCTION inline
#endif

// HM_HAS_FMA: whether a single instruction computes a b + c with one rounding. Otherwise, fma() is
// a slow call.
#if defined(__FMA__) || defined(__aarch64__) || defined(__CUDA_ARCH__)
#define HM_HAS_FMA 1
#define HM_FMA(a, b, c) __builtin_fma((a), (b), (c))
#else
#define HM_HAS_FMA 0
#endif

#endif
