/* What depends on a critic's parameters alone: layers without an activation between them, multiplied together.

   - The input layer has no activation, so (x W0 + b0) W1 = x (W0 W1) + b0 W1: with few observations it is cheaper to
     multiply the weights first.
   - LayerNorm's scale g and shift c go into the head: (n * g + c) Wh + bh = n (g * Wh) + (c Wh + bh).
   - LayerNorm takes the mean m of the features h away and multiplies by r, one over their deviation. Columns of the
     head's weights may be centred, and then (h - m) Wh = h Wh: the features need not be normalised at all, only the
     head's few outputs are multiplied by r. The gradient that comes back through centred weights is centred too, which
     is half of LayerNorm's backward pass. A column of 1/H behind the head's weights yields m along with the outputs. */

#include "kernels.h"

/* Columns from..to of one critic's product, with the second bias in its last row. */
static void merge_layers(const float *input, const float *weight, const float *bias, int inputs,
                         int hidden, int from, int to, float *out)
{
    product('N', 'N', inputs, to - from, hidden, input, hidden, weight + from, hidden, 0, out + from, hidden);
    for (int i = from; i < to; i++)
        out[(size_t)(inputs - 1) * hidden + i] += bias[i];
}

void revalued_merge(const Layers *l)
{
    size_t D = l->inputs, H = l->hidden;
    for (int k = 0; k < l->critics; k++)
        merge_layers(l->input + k * D * H, l->weight + k * H * H, l->bias + k * H, D, H, 0, H,
                     l->merged + k * D * H);
}

/* Columns from..to of the folded head; the last part adds the one that averages, and zeros up to `width`. */
VECTORISED static void fold_head(const float *restrict scale, const float *restrict shift, const float *restrict weight,
                                 const float *restrict bias, int hidden, int outputs, int width, int from, int to,
                                 float *restrict mean, float *restrict out, float *restrict out_bias)
{
    for (int o = from; o < to; o++) {
        mean[o] = 0;
        out_bias[o] = bias[o];
    }
    for (int h = 0; h < hidden; h++) {
        const float *restrict row = weight + (size_t)h * outputs;
        for (int o = from; o < to; o++) {
            mean[o] += scale[h] * row[o];
            out_bias[o] += shift[h] * row[o];
        }
    }
    for (int o = from; o < to; o++)
        mean[o] /= hidden;
    for (int h = 0; h < hidden; h++) {
        const float *restrict row = weight + (size_t)h * outputs;
        float *restrict to_row = out + (size_t)h * width;
        for (int o = from; o < to; o++)
            to_row[o] = scale[h] * row[o] - mean[o];
        if (to == outputs)
            for (int o = outputs; o < width; o++)
                to_row[o] = o == outputs ? 1.0f / hidden : 0;
    }
}

void fold_critic(const Update *u, const Parameters *p, const Folding *f, int critic, Place at)
{
    size_t k = critic, D = u->inputs, H = u->hidden, O = u->outputs, W = u->width;
    if (f->block1) {
        int from = cut(H, at.part, at.parts, ALIGNED_FLOATS), to = cut(H, at.part + 1, at.parts, ALIGNED_FLOATS);
        merge_layers(p->input + k * D * H, p->block1_weight + k * H * H, p->block1_bias + k * H, D, H, from,
                     to, f->block1 + k * D * H);
    }
    int from = cut(O, at.part, at.parts, ALIGNED_FLOATS), to = cut(O, at.part + 1, at.parts, ALIGNED_FLOATS);
    float *mean = u->scratch.outputs + at.slot * aligned(2 * O);
    fold_head(p->norm_scale + k * H, p->norm_shift + k * H, p->head_weight + k * H * O, p->head_bias + k * O, H, O, W,
              from, to, mean, f->head_weight + k * H * W, f->head_bias + k * O);
}
