#include "hardmax/interface.h"

#include "hardmax/arithmetic.hpp"
#include "processor.hpp"

namespace {

void write(hardmax::Doubled x, double* pair) {
    pair[0] = x.high;
    pair[1] = x.low;
}

hardmax::Doubled read(const double* pair) { return {pair[0], pair[1]}; }

}  // namespace

extern "C" {

int32_t hm_interface_version(void) { return HM_INTERFACE_VERSION; }

const char* hm_instruction_set(void) { return HM_INSTRUCTION_SET; }

const char* hm_widest_instruction_set(void) {
    return hardmax::runs_x86_64_v3() ? "x86-64-v3" : "baseline";
}

int32_t hm_float_environment(void) {
    return hardmax::float_environment_is_sound() ? HM_OK : HM_UNAVAILABLE;
}

void hm_test_two_sum(double a, double b, double* pair) { write(hardmax::two_sum(a, b), pair); }

void hm_test_fast_two_sum(double a, double b, double* pair) {
    write(hardmax::fast_two_sum(a, b), pair);
}

void hm_test_halves(double a, double* pair) { write(hardmax::halves(a), pair); }

void hm_test_two_product(double a, double b, double* pair) {
    write(hardmax::two_product(a, b), pair);
}

void hm_test_two_product_by_halves(double a, double b, double* pair) {
    write(hardmax::two_product_by_halves(a, b), pair);
}

int32_t hm_test_two_product_by_fma(double a, double b, double* pair) {
#if HM_HAS_FMA
    write(hardmax::two_product_by_fma(a, b), pair);
    return HM_OK;
#else
    (void)a, (void)b, (void)pair;
    return HM_UNAVAILABLE;
#endif
}

int64_t hm_test_grow(double* entries, int64_t length, double number) {
    return hardmax::grow(entries, length, number);
}

int64_t hm_test_grow_by_product(double* entries, int64_t length, double a, double b) {
    return hardmax::grow_by_product(entries, length, a, b);
}

int64_t hm_test_compress(double* entries, int64_t length) {
    return hardmax::compress(entries, length);
}

int32_t hm_test_sign(const double* entries, int64_t length) {
    return hardmax::sign(entries, length);
}

void hm_test_add_float(const double* x, double y, double* pair) {
    write(hardmax::add(read(x), y), pair);
}

void hm_test_add(const double* x, const double* y, double* pair) {
    write(hardmax::add(read(x), read(y)), pair);
}

void hm_test_multiply_float(const double* x, double y, double* pair) {
    write(hardmax::multiply(read(x), y), pair);
}

void hm_test_multiply(const double* x, const double* y, double* pair) {
    write(hardmax::multiply(read(x), read(y)), pair);
}

void hm_test_add_terms(double bias, const double* weights, const double* numbers, int64_t n_terms,
                       double* pair) {
    hardmax::Doubled sum = {bias, 0.0};
    for (int64_t j = 0; j < n_terms; ++j) {
        sum = hardmax::add_term(sum, weights[j], read(numbers + 2 * j));
    }
    write(hardmax::normalised(sum), pair);
}

}  // extern "C"
