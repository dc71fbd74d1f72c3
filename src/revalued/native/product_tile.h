/* The product for one generation of processors, which product.c names: GENERATION, its TARGET, the LANES of its vectors
   and how many ROWS of the outcome fit into its registers, two vectors wide. */

#define PANEL (2 * LANES)
#define Vector NAMED(Vector, GENERATION)
#define Unaligned NAMED(Unaligned, GENERATION)
#define tile NAMED(tile, GENERATION)
#define tile_of NAMED(tile_of, GENERATION)
#define pack NAMED(pack, GENERATION)
#define multiply_row NAMED(multiply_row, GENERATION)

typedef float Vector __attribute__((vector_size(4 * LANES)));
typedef float Unaligned __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

/* A tile of so many rows and vectors, both known to the compiler; where its columns do not fill it, it takes a detour. */
TARGET static inline __attribute__((always_inline)) void
tile(int rows, int vectors, int columns, int depth, const float *left, size_t left_row, size_t left_depth,
     const float *right, size_t right_stride, int adds, float *out, size_t out_stride)
{
    Vector sums[2 * ROWS], terms[8];
    float edge[ROWS * PANEL] __attribute__((aligned(64)));
    float *to = out;
    size_t stride = out_stride;
    if (columns < vectors * LANES) {
        to = edge;
        stride = PANEL;
        if (adds)
            for (int i = 0; i < rows; i++)
                memcpy(edge + i * PANEL, out + i * out_stride, columns * sizeof(float));
    }
    IN_FULL for (int i = 0; i < rows; i++)
        IN_FULL for (int j = 0; j < vectors; j++)
            sums[i * vectors + j] = adds ? *(const Unaligned *)(to + i * stride + j * LANES) : (Unaligned){0};
    for (int k = 0; k < depth; k++, right += right_stride, left += left_depth) {
        IN_FULL for (int j = 0; j < vectors; j++)
            terms[j] = *(const Unaligned *)(right + j * LANES);
        IN_FULL for (int i = 0; i < rows; i++)
            IN_FULL for (int j = 0; j < vectors; j++)
                sums[i * vectors + j] += left[i * left_row] * terms[j];
    }
    IN_FULL for (int i = 0; i < rows; i++)
        IN_FULL for (int j = 0; j < vectors; j++)
            *(Unaligned *)(to + i * stride + j * LANES) = sums[i * vectors + j];
    if (to == edge)
        for (int i = 0; i < rows; i++)
            memcpy(out + i * out_stride, edge + i * PANEL, columns * sizeof(float));
}

/* A tile whose sizes become known here. */
TARGET static void tile_of(int rows, int columns, int depth, const float *left, size_t left_row, size_t left_depth,
                           const float *right, size_t right_stride, int adds, float *out, size_t out_stride)
{
#define REST columns, depth, left, left_row, left_depth, right, right_stride, adds, out, out_stride
#define CASE(rows)                                                                                                     \
    case rows:                                                                                                         \
        if (columns > LANES)                                                                                           \
            tile(rows, 2, REST);                                                                                       \
        else                                                                                                           \
            tile(rows, 1, REST);                                                                                       \
        break
    switch (rows) {
        CASE(1);
        CASE(2);
        CASE(3);
        CASE(4);
        CASE(5);
        CASE(6);
#if ROWS > 6
        CASE(7);
        CASE(8);
#endif
    }
#undef CASE
#undef REST
}

/* Some rows of the right matrix, and as many columns as a tile has, next to each other. */
TARGET static void pack(const Factors *f, int depth, int column, int columns, int width, int from, float *panel)
{
    const float *right = f->right;
    size_t stride = f->right_stride;
    if (f->is_right_transposed) {
        for (int x = 0; x < columns; x++)
            for (int d = 0; d < depth; d++)
                panel[d * width + x] = right[(column + x) * stride + from + d];
    } else
        for (int d = 0; d < depth; d++)
            for (int x = 0; x < columns; x++)
                panel[d * width + x] = right[(from + d) * stride + column + x];
    for (int d = 0; d < depth && columns < width; d++)
        for (int x = columns; x < width; x++)
            panel[d * width + x] = 0;
}

/* The columns that one row can have in tiles of eight vectors, for a chain must wait for each of its terms: returns how
   many that are. */
TARGET static int multiply_row(const Factors *f)
{
    int column = 0, columns = 8 * LANES;
    for (; column + columns <= f->columns; column += columns)
        tile(1, 8, columns, f->inner, f->left, 0, f->left_depth, f->right + column, f->right_stride, f->adds,
             f->out + column, 0);
    return column;
}

TARGET static void NAMED(multiply, GENERATION)(const Factors *f)
{
    float panel[DEPTH * PANEL] __attribute__((aligned(64)));
    int column = f->rows == 1 && !f->is_right_transposed ? multiply_row(f) : 0;
    for (; column < f->columns; column += PANEL) {
        int columns = f->columns - column < PANEL ? f->columns - column : PANEL;
        int width = columns > LANES ? PANEL : LANES;
        /* what a few rows read once or twice is best left where it is */
        int is_packed = f->is_right_transposed || columns < width || f->rows > 2 * ROWS;
        for (int from = 0; from < f->inner; from += DEPTH) {
            int depth = f->inner - from < DEPTH ? f->inner - from : DEPTH, adds = f->adds || from > 0;
            const float *right = is_packed ? panel : f->right + from * f->right_stride + column;
            size_t right_stride = is_packed ? width : f->right_stride;
            if (is_packed)
                pack(f, depth, column, columns, width, from, panel);
            for (int row = 0; row < f->rows; row += ROWS) {
                int rows = f->rows - row < ROWS ? f->rows - row : ROWS;
                const float *left = f->left + row * f->left_row + from * f->left_depth;
                float *out = f->out + row * f->out_stride + column;
                if (rows == ROWS && columns == PANEL && f->left_depth == 1)
                    tile(ROWS, 2, PANEL, depth, left, f->left_row, 1, right, right_stride, adds, out, f->out_stride);
                else if (rows == ROWS && columns == PANEL)
                    tile(ROWS, 2, PANEL, depth, left, 1, f->left_depth, right, right_stride, adds, out, f->out_stride);
                else
                    tile_of(rows, columns, depth, left, f->left_row, f->left_depth, right, right_stride, adds, out,
                            f->out_stride);
            }
        }
    }
}

#undef PANEL
#undef Vector
#undef Unaligned
#undef tile
#undef tile_of
#undef pack
#undef multiply_row
#undef GENERATION
#undef TARGET
#undef LANES
#undef ROWS
