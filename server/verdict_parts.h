/* Private to verdict*.c: what all parts of a verdict look at, and the parts. */
#ifndef BARKER_SERVER_VERDICT_PARTS_H
#define BARKER_SERVER_VERDICT_PARTS_H

#include "server/combined.h"
#include "server/tolerance.h"
#include "server/verdict.h"
#include "server/words.h"

struct verdict_look {
    struct jobfile *file;
    struct jobfile_info about;
    const struct verdict_context *context;
    struct combined combined;
    struct tolerance tolerance;
    struct tolerance_head noise;
    uint64_t draws;  /* after warm-up, of the chain that has fewest */
    size_t constant; /* parameters that have not moved since warm-up */
    size_t stuck;    /* the first of them */
    bool ended;
};

/* The name of any coordinate, saved or not. */
void verdict_name(const struct verdict_look *look, size_t j, char *out, size_t size);
#define VERDICT_NAME_SIZE 120

/* A clause that begins with the level ("poor (...)") is added to `text`; the answer is the part of
 * the document, or NULL: out of memory. What cannot be known is added to `unknown`. */
json_t *verdict_mixing(const struct verdict_look *look, struct words *text, json_t **unknown);
json_t *verdict_bias(const struct verdict_look *look, struct words *text, json_t **unknown);

#endif
