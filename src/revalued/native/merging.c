/* The product of a critic's first two layers. */

#include "kernels.h"

typedef struct {
    Sgemm *sgemm;
    int (*set_product_threads)(int);     /* see `Critics` in acting.c */
    int critics, inputs, hidden;         /* K, D, H */
    const float *input, *weight, *bias;  /* [K, D, H], [K, H, H], [K, H] */
    float *merged;                       /* [K, D, H] */
} Layers;

/* Columns from..to of one critic's product, with the second bias in its last row. */
void merge_layers(Sgemm *sgemm, const float *input, const float *weight, const float *bias, int inputs, int hidden,
                  int from, int to, float *out)
{
    for (int column = from; column < to; column += MERGED_AT_ONCE) {
        int columns = to - column < MERGED_AT_ONCE ? to - column : MERGED_AT_ONCE;
        product(sgemm, 'N', 'N', inputs, columns, hidden, input, hidden, weight + column, hidden, 0, out + column,
                hidden);
    }
    for (int i = from; i < to; i++)
        out[(size_t)(inputs - 1) * hidden + i] += bias[i];
}

void revalued_merge(const Layers *l)
{
    size_t D = l->inputs, H = l->hidden;
    int before = l->set_product_threads ? l->set_product_threads(1) : 0;
    for (int k = 0; k < l->critics; k++)
        merge_layers(l->sgemm, l->input + k * D * H, l->weight + k * H * H, l->bias + k * H, D, H, 0, H,
                     l->merged + k * D * H);
    if (l->set_product_threads)
        l->set_product_threads(before);
}
