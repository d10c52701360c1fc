/* The lines of tests/fixtures/golden/draws.txt: combinations, and the hash of what each gives. */
#ifndef BARKER_TESTS_GOLDEN_LINES_H
#define BARKER_TESTS_GOLDEN_LINES_H

#include "tests/conformance/fixture.h"

#define KEY_SIZE 120
#define NONE     UINT64_MAX /* the combination is refused */

struct scene; /* a model in all its coordinates */
struct asked; /* a request of a plan */

/* What is varied with the seed, so that few lines cover much. */
struct run {
    uint64_t seed;
    enum precision precision;
    enum step_kind step;
    enum start_kind start;
    bool replacement;
    uint32_t one_in;
    bool other;    /* choices beside the variant are not the defaults */
    bool emulated; /* once more with the emulated kernels, which take their time */
};

enum what { DRAWS, SUMMARY, PLAN }; /* SUMMARY: moments, held-out metrics, step sizes */
enum way { ALONE, LOCKSTEP };

struct line {
    char key[KEY_SIZE]; /* all but the hash */
    enum what what;
    const struct scene *scene;
    const struct run *run;
    size_t coordinates; /* index */
    const struct sampler_type *sampler;
    size_t variant;            /* index of the choice; 0 where there is none */
    const struct asked *asked; /* PLAN */
};

typedef void visit(const struct line *line, void *ctx);

/* Calls fn for every line of this model, in the order of the file. */
void golden_for_all(const struct model_type *type, visit *fn, void *ctx);
/* The hash of what the combination gives, or NONE. */
uint64_t golden_hash_of(const struct line *line, enum way way);

#endif
