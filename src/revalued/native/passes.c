/* The critics' forward and backward pass, written out; folding.c explains the algebra. */

#include "kernels.h"

#include <math.h>
#include <string.h>

/* relu, written so that what is not a number stays visible */
static inline float positive(float x)
{
    return x < 0 ? 0 : x;
}

/* x = relu(x + bias), which may be missing */
VECTORISED static void relu(float *restrict x, const float *restrict bias, int rows, int hidden)
{
    for (int r = 0; r < rows; r++, x += hidden)
        for (int i = 0; i < hidden; i++)
            x[i] = positive(bias ? x[i] + bias[i] : x[i]);
}

/* block2 = relu(block2 + bias), features = hidden + block2 (the two may be the same memory), squares = Σ features² */
VECTORISED static void end_block(const float *hidden, float *block2, const float *bias, float *features,
                                 float *squares, int rows, int size)
{
    for (int r = 0; r < rows; r++, hidden += size, block2 += size, features += size) {
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int i = 0; i < size; i++) {
            block2[i] = positive(block2[i] + bias[i]);
            features[i] = hidden[i] + block2[i];
            sum += features[i] * features[i];
        }
        squares[r] = sum;
    }
}

/* LayerNorm, from what came through the folded head: outputs = raw / deviation + bias */
VECTORISED static void normalise(const float *restrict raw, const float *restrict squares, const float *restrict bias,
                                 float epsilon, int rows, int outputs, int width, int hidden, float *restrict out,
                                 float *restrict mean, float *restrict inverse_deviation)
{
    for (int r = 0; r < rows; r++, raw += width, out += outputs) {
        float m = raw[outputs], variance = squares[r] / hidden - m * m;
        float inverse = 1 / sqrtf(positive(variance) + epsilon);
        for (int o = 0; o < outputs; o++)
            out[o] = raw[o] * inverse + bias[o];
        mean[r] = m;
        inverse_deviation[r] = inverse;
    }
}

/* Where the intermediate results of one block of rows go. */
typedef struct {
    float *hidden, *block1, *block2, *features, *mean, *inverse_deviation, *output;
} Blocks;

static void forward_block(const Update *u, const Parameters *p, const Folding *f, const float *x, int rows, int critic,
                          float *raw, Blocks to)
{
    size_t k = critic, D = u->inputs, H = u->hidden, O = u->outputs, W = u->width;
    float squares[rows];
    product('N', 'N', rows, H, D, x, D, p->input + k * D * H, H, 0, to.hidden, H);
    if (f->block1) {
        product('N', 'N', rows, H, D, x, D, f->block1 + k * D * H, H, 0, to.block1, H);
        relu(to.block1, NULL, rows, H);
    } else {
        product('N', 'N', rows, H, H, to.hidden, H, p->block1_weight + k * H * H, H, 0, to.block1, H);
        relu(to.block1, p->block1_bias + k * H, rows, H);
    }
    product('N', 'N', rows, H, H, to.block1, H, p->block2_weight + k * H * H, H, 0, to.block2, H);
    end_block(to.hidden, to.block2, p->block2_bias + k * H, to.features, squares, rows, H);
    product('N', 'N', rows, W, H, to.features, H, f->head_weight + k * H * W, W, 0, raw, W);
    normalise(raw, squares, f->head_bias + k * O, u->epsilon, rows, O, W, H, to.output, to.mean, to.inverse_deviation);
}

/* A pass of which only the output [K, total, O] is of interest, for a part of the rows. */
static void forward(const Update *u, const Parameters *p, const Folding *f, const float *inputs, int total,
                    float *output, int critic, Place at)
{
    size_t H = u->hidden, one = aligned(u->block), own = at.slot * one, own_hidden = at.slot * aligned(u->block * H);
    int from = cut(total, at.part, at.parts, 1), to = cut(total, at.part + 1, at.parts, 1);
    const Scratch *s = &u->scratch;
    for (int row = from; row < to; row += u->block) {
        int rows = to - row < u->block ? to - row : u->block;
        Blocks blocks = {
            s->hidden + own_hidden, s->block1 + own_hidden, s->block2 + own_hidden, s->hidden + own_hidden,
            s->mean + own, s->inverse_deviation + own, output + ((size_t)critic * total + row) * u->outputs,
        };
        forward_block(u, p, f, inputs + (size_t)row * u->inputs, rows, critic,
                      s->raw + (size_t)at.slot * u->block * u->width, blocks);
    }
}

/* All passes of a critic but the one that is differentiated. */
void predict_others(const Update *u, int critic, Place at)
{
    forward(u, &u->target, &u->target_folding, u->observations, u->target_passes * u->rows, u->target_next, critic, at);
    if (u->online_next)
        forward(u, &u->online, &u->online_folding, u->observations, u->rows, u->online_next, critic, at);
}

/* The pass that is differentiated. */
void predict_online(const Update *u, int critic, int store, Place at)
{
    size_t B = u->rows, H = u->hidden;
    int from = cut(B, at.part, at.parts, 1), to = cut(B, at.part + 1, at.parts, 1);
    const Kept *s = &u->kept;
    const float *inputs = u->observations + B * u->inputs;
    float *raw = u->scratch.raw + (size_t)at.slot * u->block * u->width;
    for (int row = from; row < to; row += u->block) {
        int rows = to - row < u->block ? to - row : u->block;
        size_t own = store * aligned(B) + row, own_hidden = store * aligned(B * H) + row * H;
        Blocks blocks = {
            s->hidden + own_hidden, s->block1 + own_hidden, s->block2 + own_hidden, s->features + own_hidden,
            s->mean + own, s->inverse_deviation + own,
            s->output + store * aligned(B * u->outputs) + row * u->outputs,
        };
        forward_block(u, &u->online, &u->online_folding, inputs + (size_t)row * u->inputs, rows, critic, raw,
                      blocks);
    }
}

/* The head's output gradient divided by the deviation, and what of it flows further up (its averaging column too). */
VECTORISED static void begin_backward(const float *restrict gradient, const float *restrict output,
                                      const float *restrict bias, const float *restrict mean,
                                      const float *restrict inverse_deviation, float trunk_scale, int rows, int outputs,
                                      int width, int hidden, float *restrict scaled, float *restrict upstream,
                                      float *restrict pull)
{
    for (int r = 0; r < rows; r++, gradient += outputs, output += outputs, scaled += width, upstream += width) {
        float inverse = inverse_deviation[r], along = 0;
#pragma omp simd reduction(+ : along)
        for (int o = 0; o < outputs; o++) {
            scaled[o] = gradient[o] * inverse;
            upstream[o] = scaled[o] * trunk_scale;
            along += (output[o] - bias[o]) * scaled[o];
        }
        pull[r] = along * inverse * (trunk_scale / hidden);
        upstream[outputs] = pull[r] * mean[r] * hidden;
        scaled[outputs] = 0;
        for (int o = outputs + 1; o < width; o++)
            scaled[o] = upstream[o] = 0;
    }
}

/* residual −= features · pull; block2 = residual where relu let it through */
VECTORISED static void into_block2(float *restrict residual, const float *restrict features,
                                   const float *restrict pull, float *restrict block2, int rows, int hidden)
{
    for (int r = 0; r < rows; r++, residual += hidden, features += hidden, block2 += hidden)
        for (int i = 0; i < hidden; i++) {
            residual[i] -= features[i] * pull[r];
            block2[i] = block2[i] > 0 ? residual[i] : 0;
        }
}

VECTORISED static void through_relu(float *restrict gradient, const float *restrict output, size_t size)
{
    for (size_t i = 0; i < size; i++)
        gradient[i] = output[i] > 0 ? gradient[i] : 0;
}

/* Gradients of activations, for a part of the rows. */
void backward_rows(const Update *u, int critic, int store, Place at)
{
    size_t k = critic, B = u->rows, H = u->hidden, O = u->outputs, W = u->width;
    const Parameters *p = &u->online;
    const Folding *f = &u->online_folding;
    int from = cut(B, at.part, at.parts, 1), to = cut(B, at.part + 1, at.parts, 1);
    for (int row = from; row < to; row += u->block) {
        int rows = to - row < u->block ? to - row : u->block;
        size_t kept = store * aligned(B) + row, kept_hidden = store * aligned(B * H) + row * H;
        size_t kept_output = store * aligned(B * O) + row * O;
        size_t own = at.place * B * W + row * W, own_hidden = at.place * aligned(B * H) + row * H;
        float *scaled = u->backward.scaled + own, *upstream = u->backward.upstream + own, pull[rows];
        float *residual = u->backward.residual + own_hidden, *block1 = u->backward.block1 + own_hidden;
        float *block2 = u->kept.block2 + kept_hidden;
        begin_backward(u->kept.output_gradient + kept_output, u->kept.output + kept_output, f->head_bias + k * O,
                       u->kept.mean + kept, u->kept.inverse_deviation + kept, u->trunk_scale, rows, O, W, H, scaled,
                       upstream, pull);
        product('N', 'T', rows, H, W, upstream, W, f->head_weight + k * H * W, W, 0, residual, H);
        into_block2(residual, u->kept.features + kept_hidden, pull, block2, rows, H);
        product('N', 'T', rows, H, H, block2, H, p->block2_weight + k * H * H, H, 0, block1, H);
        through_relu(block1, u->kept.block1 + kept_hidden, rows * H);
        if (!f->block1)
            product('N', 'T', rows, H, H, block1, H, p->block1_weight + k * H * H, H, 1, residual, H);
    }
}

/* Sums over rows, which count as much as their weights if there are any. */
VECTORISED static void column_sums(const float *restrict x, const float *restrict weights, int rows, int columns,
                                   int stride, float *restrict out)
{
    for (int i = 0; i < columns; i++)
        out[i] = 0;
    for (int r = 0; r < rows; r++, x += stride) {
        float weight = weights ? weights[r] : 1;
        for (int i = 0; i < columns; i++)
            out[i] += weight * x[i];
    }
}

/* Gradients of the head and of LayerNorm's scale and shift, from those of the folded head: features enter centred. */
VECTORISED static void head_gradients(const float *restrict folded, const float *restrict mean_part,
                                      const float *restrict bias, const float *restrict weight,
                                      const float *restrict scale, const float *restrict shift, float trunk_scale,
                                      int rows, int outputs, int width, float *restrict out, float *restrict out_scale,
                                      float *restrict out_shift)
{
    for (int h = 0; h < rows; h++, folded += width, weight += outputs, out += outputs) {
        float to_scale = 0, to_shift = 0;
#pragma omp simd reduction(+ : to_scale, to_shift)
        for (int o = 0; o < outputs; o++) {
            float gradient = folded[o] - mean_part[o];
            out[o] = gradient * scale[h] + shift[h] * bias[o];
            to_scale += gradient * weight[o];
            to_shift += bias[o] * weight[o];
        }
        out_scale[h] = to_scale * trunk_scale;
        out_shift[h] = to_shift * trunk_scale;
    }
}

/* Σ x² of a matrix, in runs short enough for float to add up exactly enough */
VECTORISED static double sum_of_squares(const float *x, int rows, int columns, int stride)
{
    double total = 0;
    for (int r = 0; r < rows; r++, x += stride) {
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int i = 0; i < columns; i++)
            sum += x[i] * x[i];
        total += sum;
    }
    return total;
}

/* Gradients of the last layers' parameters, a part of each, and the sum of their squares, taken while they are in the
   cache; of merged layers, the gradient of their product. */
void backward_outer(const Update *u, int critic, int store, Place at)
{
    size_t k = critic, t = at.place, B = u->rows, D = u->inputs, H = u->hidden, O = u->outputs, W = u->width;
    const Parameters *p = &u->online, *g = &u->gradients;
    size_t from = cut(H, at.part, at.parts, ALIGNED_FLOATS), to = cut(H, at.part + 1, at.parts, ALIGNED_FLOATS);
    int own = to - from;
    size_t kept = store * aligned(B * H);
    const float *scaled = u->backward.scaled + t * B * W, *gradient2 = u->kept.block2 + kept;
    float *folded = u->backward.head + t * aligned(H * W) + from * W;
    float *mean_part = u->scratch.outputs + at.slot * aligned(2 * O), *bias = mean_part + O;
    size_t own_unit = t * aligned(H) + from;
    float *head = g->head_weight + t * aligned(H * O) + from * O, *scale = g->norm_scale + own_unit;
    float *block2 = g->block2_weight + t * aligned(H * H) + from * H, *shift = g->norm_shift + own_unit;
    float *bias2 = g->block2_bias + own_unit;
    double squares = 0;

    product('T', 'N', own, W, B, u->kept.features + kept + from, H, scaled, W, 0, folded, W);
    column_sums(scaled, u->kept.mean + store * aligned(B), B, O, W, mean_part);
    column_sums(u->kept.output_gradient + store * aligned(B * O), NULL, B, O, O, bias);
    head_gradients(folded, mean_part, bias, p->head_weight + (k * H + from) * O, p->norm_scale + k * H + from,
                   p->norm_shift + k * H + from, u->trunk_scale, own, O, W, head, scale, shift);
    squares += sum_of_squares(head, own, O, O) + sum_of_squares(scale, 1, own, H) + sum_of_squares(shift, 1, own, H);
    if (at.part == 0) {
        memcpy(g->head_bias + t * aligned(O), bias, O * sizeof(float));
        squares += sum_of_squares(bias, 1, O, O);
    }
    product('T', 'N', own, H, B, u->kept.block1 + kept + from, H, gradient2, H, 0, block2, H);
    column_sums(gradient2 + from, NULL, B, own, H, bias2);
    squares += sum_of_squares(block2, own, H, H) + sum_of_squares(bias2, 1, own, H);
    if (u->online_folding.block1)
        product('T', 'N', D, own, B, u->observations + B * D, D, u->backward.block1 + t * aligned(B * H) + from,
                H, 0, u->backward.merged + t * aligned(D * H) + from, H);
    u->backward.squares[t * u->parts + at.part] = squares;
}

/* Gradients of the first two layers' parameters. */
void backward_inner(const Update *u, int critic, int store, Place at)
{
    size_t k = critic, t = at.place, B = u->rows, D = u->inputs, H = u->hidden;
    const Parameters *p = &u->online, *g = &u->gradients;
    size_t from = cut(H, at.part, at.parts, ALIGNED_FLOATS), to = cut(H, at.part + 1, at.parts, ALIGNED_FLOATS);
    int own = to - from;
    const float *now = u->observations + B * D, *residual = u->backward.residual + t * aligned(B * H) + from;
    const float *gradient1 = u->backward.block1 + t * aligned(B * H);
    float *block1 = g->block1_weight + t * aligned(H * H) + from * H, *input = g->input + t * aligned(D * H) + from;
    float *bias1 = g->block1_bias + t * aligned(H) + from;
    if (u->online_folding.block1) {
        const float *merged = u->backward.merged + t * aligned(D * H);
        memcpy(bias1, merged + (D - 1) * H + from, own * sizeof(float));
        product('T', 'N', own, H, D, p->input + k * D * H + from, H, merged, H, 0, block1, H);
        product('N', 'T', D, own, H, merged, H, p->block1_weight + (k * H + from) * H, H, 0, input, H);
        product('T', 'N', D, own, B, now, D, residual, H, 1, input, H);
    } else {
        const float *hidden = u->kept.hidden + store * aligned(B * H) + from;
        product('T', 'N', own, H, B, hidden, H, gradient1, H, 0, block1, H);
        column_sums(gradient1 + from, NULL, B, own, H, bias1);
        product('T', 'N', D, own, B, now, D, residual, H, 0, input, H);
    }
    u->backward.squares[t * u->parts + at.part] +=
        sum_of_squares(block1, own, H, H) + sum_of_squares(input, D, own, H) + sum_of_squares(bias1, 1, own, H);
}
