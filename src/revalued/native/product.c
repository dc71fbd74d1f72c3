/* The matrix product.

   Every number of the outcome is one chain: what was there, or 0, and then one term after the other, added with a single
   rounding. So neither how the work is cut nor how wide the vectors are changes a bit, and the sizes here are small
   enough for the chain to be the fastest order too: a tile of the outcome stays in registers while rows of the right
   matrix stream past it. BLAS libraries are made for larger matrices, and some hold back on others' processors. */

#include "kernels.h"

#include <string.h>

enum { DEPTH = 256 }; /* rows of the right matrix at a time: a panel of them stays in the first cache */

/* The factors and the outcome. Strides are those of the stored rows, and `left_row`, `left_depth` those of the left
   factor's rows and columns, whichever way it is stored. */
typedef struct {
    const float *left, *right;
    float *out;
    size_t left_row, left_depth, right_stride, out_stride;
    int rows, columns, inner, is_right_transposed, adds;
} Factors;

#define JOINED(name, suffix) name##_##suffix
#define NAMED(name, suffix) JOINED(name, suffix)
#ifdef __clang__
#define IN_FULL _Pragma("clang loop unroll(full)")
#else
#define IN_FULL _Pragma("GCC unroll 16")
#endif

#ifdef __x86_64__
#define GENERATION avx512
#define TARGET __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")))
#define LANES 16
#define ROWS 8
#include "product_tile.h"
#define GENERATION avx2
#define TARGET __attribute__((target("avx2,fma")))
#define LANES 8
#define ROWS 6
#include "product_tile.h"
#endif

#define GENERATION any
#define TARGET
#define LANES 4
#define ROWS 6
#include "product_tile.h"

typedef void Multiply(const Factors *);

/* The code for processors with vectors of so many bits (512, 256, or 128: any), or NULL where this one cannot run it. */
static Multiply *multiply_of(int bits)
{
#ifdef __x86_64__
    __builtin_cpu_init();
    int is_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (bits == 512)
        return is_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                       __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")
                   ? multiply_avx512
                   : NULL;
    if (bits == 256)
        return is_avx2 ? multiply_avx2 : NULL;
#endif
    return bits == 128 ? multiply_any : NULL;
}

static Multiply *multiply;
static _Thread_local int64_t multiply_adds;

__attribute__((constructor)) static void choose(void)
{
    for (int bits = 512; !multiply; bits /= 2)
        multiply = multiply_of(bits);
}

/* For tests: how many multiplications the calling thread has done in products. */
int64_t revalued_multiply_adds(void)
{
    return multiply_adds;
}

static void carry_out(Multiply *with, char left_form, char right_form, int rows, int columns, int inner,
                      const float *left, int left_stride, const float *right, int right_stride, int adds, float *out,
                      int out_stride)
{
    size_t left_row = left_form == 'T' ? 1 : left_stride, left_depth = left_form == 'T' ? left_stride : 1;
    if (!adds && inner == 0)
        for (int row = 0; row < rows; row++)
            memset(out + (size_t)row * out_stride, 0, columns * sizeof(float));
    with(&(Factors){left, right, out, left_row, left_depth, right_stride, out_stride, rows, columns, inner,
                    right_form == 'T', adds});
    multiply_adds += (int64_t)rows * columns * inner;
}

void product(char left_form, char right_form, int rows, int columns, int inner, const float *left, int left_stride,
             const float *right, int right_stride, int adds, float *out, int out_stride)
{
    carry_out(multiply, left_form, right_form, rows, columns, inner, left, left_stride, right, right_stride, adds, out,
              out_stride);
}

/* For tests and benchmarks: a product by the code for vectors of so many bits, or the usual one (0). Returns 0 where this
   processor cannot run it. */
int revalued_product(int bits, int left_form, int right_form, int rows, int columns, int inner, const float *left,
                     int left_stride, const float *right, int right_stride, int adds, float *out, int out_stride)
{
    Multiply *with = bits == 0 ? multiply : multiply_of(bits);
    if (with)
        carry_out(with, left_form, right_form, rows, columns, inner, left, left_stride, right, right_stride, adds, out,
                  out_stride);
    return with != NULL;
}
