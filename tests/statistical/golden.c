/* The draws of every sampler x variant x model x coordinates are those that are stored, bit for
 * bit: tests/fixtures/golden/draws.txt has a hash of each, or `none` where the combination is
 * refused. Moves and renames of code keep the file as it is. When and how it may be made again:
 * tests/fixtures/golden/README.md.
 *
 * The hashes are those of kernels with fused multiply-adds: the table that the machine chose and
 * the emulated one must give them, chain by chain and in lockstep. Loops over the registries: a new
 * sampler, variant or model is named as not recorded yet, and guarded once the file is made again. */
#include "tests/statistical/golden_lines.h"
#include "tests/support/truth.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_NAME "tests/fixtures/golden/draws.txt"
#define WRITE     "BARKER_GOLDEN_WRITE"
#define SHOWN     20 /* lines that differ */

/* ---- the file ---- */

struct stored {
    char key[KEY_SIZE], hash[20];
    bool met;
};

struct golden {
    struct stored *lines;
    size_t count;
};

static void hash_text(uint64_t hash, char text[20])
{
    if (hash == NONE)
        snprintf(text, 20, "none");
    else
        snprintf(text, 20, "%016" PRIx64, hash);
}

static void golden_read(struct golden *g)
{
    char line[KEY_SIZE + 40];
    FILE *file = fopen(FILE_NAME, "r");
    *g = (struct golden){0};
    cr_assert_not_null(file, "no %s: tests run at the top of the tree", FILE_NAME);
    while (fgets(line, sizeof line, file) != NULL) {
        char *end = strrchr(line, ' ');
        if (line[0] == '#')
            continue;
        cr_assert(end != NULL && end - line < KEY_SIZE && strlen(end + 1) <= 20, "%s", line);
        g->lines = realloc(g->lines, (g->count + 1) * sizeof *g->lines);
        struct stored *s = &g->lines[g->count++];
        *end = 0;
        end[1 + strcspn(end + 1, "\n")] = 0;
        snprintf(s->key, sizeof s->key, "%.*s", KEY_SIZE - 1, line);
        snprintf(s->hash, sizeof s->hash, "%.19s", end + 1);
        s->met = false;
    }
    fclose(file);
}

static struct stored *golden_find(struct golden *g, const char *key)
{
    for (size_t i = 0; i < g->count; i++)
        if (strcmp(g->lines[i].key, key) == 0)
            return &g->lines[i];
    return NULL;
}

static bool writing(void)
{
    const char *value = getenv(WRITE);
    return value != NULL && *value != 0;
}

/* ---- tests ---- */

/* Whether the stored hashes are about these kernels. */
static void need_fused_kernels(void)
{
    if (!kernels->fused)
        cr_skip_test(
            "skipped: the golden draws are those of fused multiply-adds, not of %s kernels",
            kernels->isa);
}

struct comparison {
    struct golden golden;
    enum way way;
    bool emulated;
    const char *what;
    size_t lines, different;
};

static void differs(struct comparison *c, const char *key, const char *was, const char *is)
{
    if (c->different++ < SHOWN)
        fprintf(stderr, "%s: %s (%s): %s instead of %s\n", FILE_NAME, key, c->what, is, was);
}

static void compare(const struct line *line, void *ctx)
{
    struct comparison *c = ctx;
    struct stored *stored = golden_find(&c->golden, line->key);
    char text[20];
    if (stored == NULL || (c->way == LOCKSTEP && line->what == PLAN) ||
        (c->emulated && !line->run->emulated))
        return;
    c->lines++;
    hash_text(golden_hash_of(line, c->way), text);
    if (strcmp(stored->hash, text) != 0)
        differs(c, line->key, stored->hash, text);
}

static void compared(const struct comparison *c)
{
    cr_expect_eq(c->different, 0,
                 "%zu of %zu lines differ from %s. Moves and renames must not change a draw. Where "
                 "draws are meant to change: " WRITE "=1 build/release/test-statistical "
                 "--filter 'golden/*', in a commit of its own (tests/fixtures/golden/README.md)",
                 c->different, c->lines, FILE_NAME);
}

static void draws_are_the_stored_ones(const struct model_type *type)
{
    struct comparison c = {0};
    const char *chosen = kernels->isa;
    need_fused_kernels();
    if (writing())
        return;
    golden_read(&c.golden);
    c.what = chosen;
    golden_for_all(type, compare, &c);
    c.what = "in lockstep";
    c.way = LOCKSTEP;
    golden_for_all(type, compare, &c);
    if (truth()->fused && truth() != kernels) {
        c.what = truth()->isa;
        c.emulated = true;
        cr_assert(kernels_choose(c.what));
        golden_for_all(type, compare, &c);
        cr_assert(kernels_choose(chosen));
    }
    compared(&c);
    free(c.golden.lines);
}

#define X(name)                                   \
    Test(golden, draws_of_##name)                 \
    {                                             \
        draws_are_the_stored_ones(&model_##name); \
    }
MODEL_LIST(X)
#undef X

static void meet(const struct line *line, void *ctx)
{
    struct comparison *c = ctx;
    struct stored *stored = golden_find(&c->golden, line->key);
    c->lines++;
    if (stored == NULL)
        fprintf(stderr, "%s: %s is new and not recorded yet\n", FILE_NAME, line->key);
    else if (stored->met)
        differs(c, line->key, "one line", "the same twice");
    else
        stored->met = true;
}

static void write_line(const struct line *line, void *ctx)
{
    char text[20];
    hash_text(golden_hash_of(line, ALONE), text);
    fprintf(ctx, "%s %s\n", line->key, text);
}

static void write_file(void)
{
    FILE *file = fopen(FILE_NAME, "w");
    cr_assert_not_null(file, "cannot write %s", FILE_NAME);
    fprintf(file, "# sampler variant model coordinates seed hash; see README.md\n");
    for (size_t m = 0; m < model_count; m++)
        golden_for_all(models[m], write_line, file);
    cr_assert_eq(fclose(file), 0, "cannot write %s", FILE_NAME);
}

Test(golden, no_recorded_combination_is_gone_or_there_twice)
{
    struct comparison c = {.what = "lines"};
    need_fused_kernels();
    if (writing())
        write_file();
    golden_read(&c.golden);
    for (size_t m = 0; m < model_count; m++)
        golden_for_all(models[m], meet, &c);
    for (size_t i = 0; i < c.golden.count; i++)
        if (!c.golden.lines[i].met)
            differs(&c, c.golden.lines[i].key, "a combination", "gone");
    compared(&c);
    free(c.golden.lines);
}
