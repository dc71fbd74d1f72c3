/* What Python asks before it uses the library: whether it was compiled from these sources, and for these structures. */

#include "kernels.h"

#include <string.h>

#define STRUCTURE(name) {#name, sizeof(name)}

static const struct {
    const char *name;
    int64_t bytes;
} structures[] = {
    STRUCTURE(Parameters), STRUCTURE(Folding), STRUCTURE(Kept), STRUCTURE(Scratch), STRUCTURE(Backward), STRUCTURE(Update),
    STRUCTURE(Loss), STRUCTURE(Step), STRUCTURE(Critics), STRUCTURE(Layers), STRUCTURE(Tree), STRUCTURE(Rows),
};

/* The number of bytes of a structure; 0 for one that there is not. */
int64_t revalued_size_of(const char *name)
{
    for (size_t i = 0; i < sizeof structures / sizeof *structures; i++)
        if (strcmp(name, structures[i].name) == 0)
            return structures[i].bytes;
    return 0;
}

/* What stands for the sources; setup.py defines it. */
const char *revalued_digest(void)
{
    return REVALUED_DIGEST;
}
