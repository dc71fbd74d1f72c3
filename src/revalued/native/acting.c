/* Outputs of critics for a few observations, for choosing actions. */

#include "kernels.h"

#include <math.h>

typedef struct {
    Sgemm *sgemm;
    int threads, critics, inputs, hidden, outputs, block; /* T, K, D, H, O; rows that fit into the memory below */
    float epsilon;
    Parameters parameters;
    float *residual, *block1, *features; /* [block, H] */
    float *normal;                       /* [T, block, H] */
} Critics;

/* out = relu(out + bias) + residual, for some columns; the residual may be missing */
VECTORISED static void activate(float *restrict out, const float *restrict bias, const float *restrict residual,
                                int rows, int from, int to, int stride)
{
    for (int r = 0; r < rows; r++, out += stride)
        for (int i = from; i < to; i++) {
            float x = out[i] + bias[i];
            x = x < 0 ? 0 : x; /* what is not a number stays visible */
            out[i] = residual ? residual[(size_t)r * stride + i] + x : x;
        }
}

VECTORISED static void layer_norm(const float *restrict features, const float *restrict scale,
                                  const float *restrict shift, float epsilon, int rows, int size, float *restrict out)
{
    for (int r = 0; r < rows; r++, features += size, out += size) {
        float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
        for (int i = 0; i < size; i++)
            sum += features[i];
        float mean = sum / size;
#pragma omp simd reduction(+ : squares)
        for (int i = 0; i < size; i++)
            squares += (features[i] - mean) * (features[i] - mean);
        float inverse = 1 / sqrtf(squares / size + epsilon);
        for (int i = 0; i < size; i++)
            out[i] = (features[i] - mean) * inverse * scale[i] + shift[i];
    }
}

/* One critic and some rows; the threads share the columns of every layer. */
static void outputs_of(const Critics *c, int critic, const float *x, int rows, float *out, int slot, int threads)
{
    size_t k = critic, D = c->inputs, H = c->hidden, O = c->outputs;
    const Parameters *p = &c->parameters;
    int from = cut(H, slot, threads, ALIGNED_FLOATS), to = cut(H, slot + 1, threads, ALIGNED_FLOATS);
    product(c->sgemm, 'N', 'N', rows, to - from, D, x, D, p->input + k * D * H + from, H, 0, c->residual + from, H);
#pragma omp barrier
    product(c->sgemm, 'N', 'N', rows, to - from, H, c->residual, H, p->block1_weight + k * H * H + from, H, 0,
            c->block1 + from, H);
    activate(c->block1, p->block1_bias + k * H, NULL, rows, from, to, H);
#pragma omp barrier
    product(c->sgemm, 'N', 'N', rows, to - from, H, c->block1, H, p->block2_weight + k * H * H + from, H, 0,
            c->features + from, H);
    activate(c->features, p->block2_bias + k * H, c->residual, rows, from, to, H);
#pragma omp barrier
    from = cut(O, slot, threads, ALIGNED_FLOATS), to = cut(O, slot + 1, threads, ALIGNED_FLOATS);
    if (from < to) {
        float *normal = c->normal + (size_t)slot * c->block * H;
        layer_norm(c->features, p->norm_scale + k * H, p->norm_shift + k * H, c->epsilon, rows, H, normal);
        for (int r = 0; r < rows; r++)
            for (int o = from; o < to; o++)
                out[r * O + o] = p->head_bias[k * O + o];
        product(c->sgemm, 'N', 'N', rows, to - from, H, normal, H, p->head_weight + k * H * O + from, O, 1, out + from,
                O);
    }
}

/* Outputs [rows, O] of observations [rows, D], each through the critic named for it; neighbours that name the same one
   go through it together. Returns how many name a critic that there is not: then nothing has been computed. */
int revalued_outputs(const Critics *c, const float *observations, const int64_t *critics, int rows, float *out)
{
    int wrong = 0;
    for (int row = 0; row < rows; row++)
        wrong += critics[row] < 0 || critics[row] >= c->critics;
    if (wrong)
        return wrong;
#pragma omp parallel num_threads(c->threads)
    {
        int slot = omp_get_thread_num(), threads = omp_get_num_threads();
        for (int row = 0, next; row < rows; row = next) {
            for (next = row + 1; next < rows && next - row < c->block && critics[next] == critics[row];)
                next++;
            outputs_of(c, critics[row], observations + (size_t)row * c->inputs, next - row,
                       out + (size_t)row * c->outputs, slot, threads);
#pragma omp barrier
        }
    }
    return 0;
}
