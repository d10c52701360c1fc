/* Private to reference_read.c and reference_draws.c: reading a reference from its document. */
#ifndef BARKER_SERVER_RESULTS_REFERENCE_PARTS_H
#define BARKER_SERVER_RESULTS_REFERENCE_PARTS_H

#include "server/base/field.h"
#include "server/results/reference.h"

/* State of a reader; once memory has run out, it stays failed. */
struct reading {
    struct reference *out;
    struct mistakes *mistakes;
    size_t count; /* of names, in columns */
    double energy, energy_mcse;
    const json_t *made_by;    /* borrowed */
    const char *warning;      /* borrowed */
    struct mixing_work *work; /* NULL until it is needed */
    bool no_memory;
};

void reference_set_name(struct reading *rd, size_t i, const char *name);
/* False, with a mistake: too few or too many parameters. */
bool reference_check_count(const struct place *place, size_t count);
/* A document of draws: [{"theta[1]": [draws], ...}, ...], one object per chain. */
void reference_read_chains(struct reading *rd, const struct place *root, const json_t *chains);

#endif
