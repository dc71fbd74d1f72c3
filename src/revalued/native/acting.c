/* Outputs of critics for a few observations, for choosing actions: `revalued.networks.predict` without what the head's
   outputs mean. */

#include "kernels.h"

#include <math.h>
#include <string.h>

enum { WEIGHTS_FOR_ONE = 1 << 20 };

/* out = relu(out + bias) + residual; both may be missing */
VECTORISED static void activate(float *restrict out, const float *restrict bias, const float *restrict residual,
                                int rows, int size)
{
    for (int r = 0; r < rows; r++, out += size)
        for (int i = 0; i < size; i++) {
            float x = bias ? out[i] + bias[i] : out[i];
            x = x < 0 ? 0 : x; /* what is not a number stays visible */
            out[i] = residual ? residual[(size_t)r * size + i] + x : x;
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

/* One critic and a few rows. */
static void outputs_of(const Critics *c, int critic, const float *x, int rows, float *out, int slot)
{
    size_t k = critic, D = c->inputs, H = c->hidden, O = c->outputs, own = slot * aligned(c->block * H);
    const Parameters *p = &c->parameters;
    float *residual = c->residual + own, *block1 = c->block1 + own, *features = c->features + own;
    product('N', 'N', rows, H, D, x, D, p->input + k * D * H, H, 0, residual, H);
    if (c->merged) { /* a fraction of the numbers to read; the bias is in it */
        product('N', 'N', rows, H, D, x, D, c->merged + k * D * H, H, 0, block1, H);
        activate(block1, NULL, NULL, rows, H);
    } else {
        product('N', 'N', rows, H, H, residual, H, p->block1_weight + k * H * H, H, 0, block1, H);
        activate(block1, p->block1_bias + k * H, NULL, rows, H);
    }
    product('N', 'N', rows, H, H, block1, H, p->block2_weight + k * H * H, H, 0, features, H);
    activate(features, p->block2_bias + k * H, residual, rows, H);
    layer_norm(features, p->norm_scale + k * H, p->norm_shift + k * H, c->epsilon, rows, H, block1);
    for (int r = 0; r < rows; r++)
        memcpy(out + r * O, p->head_bias + k * O, O * sizeof(float));
    product('N', 'N', rows, O, H, block1, H, p->head_weight + k * H * O, O, 1, out, O);
}

/* Where the rows end that go through a critic together: neighbours that name the same one. */
static int group_end(const Critics *c, const int64_t *critics, int from, int rows)
{
    int to = from + 1;
    while (to < rows && to - from < c->block && critics[to] == critics[from])
        to++;
    return to;
}

/* Outputs asked for: each group of rows is a chain of one part. */
typedef struct {
    const Critics *c;
    const float *observations;
    const int64_t *critics;
    int rows;
    float *out;
} Question;

static void answer(const void *context, int chain, int stage, Place at)
{
    const Question *q = context;
    size_t row = 0;
    for (int group = 0; group < chain; group++)
        row = group_end(q->c, q->critics, row, q->rows);
    outputs_of(q->c, q->critics[row], q->observations + row * q->c->inputs,
               group_end(q->c, q->critics, row, q->rows) - row, q->out + row * q->c->outputs, at.slot);
}

/* Outputs [rows, O] of observations [rows, D], each through the critic named for it. A group of rows belongs to one
   thread, and where they read few weights all of them do: waking another one would take as long. Returns how many rows
   name a critic that there is not: then nothing has been computed. */
int revalued_outputs(const Critics *c, const float *observations, const int64_t *critics, int rows, float *out)
{
    int wrong = 0, groups = 0;
    for (int row = 0; row < rows; row++)
        wrong += critics[row] < 0 || critics[row] >= c->critics;
    if (wrong)
        return wrong;
    for (int row = 0; row < rows; row = group_end(c, critics, row, rows))
        groups++;
    int threads = (double)groups * c->hidden * c->hidden < WEIGHTS_FOR_ONE ? 1 : c->threads;
    Question question = {c, observations, critics, rows, out};
    run_job(&(Job){answer, &question, threads, groups, groups, 1, 1});
    return 0;
}
