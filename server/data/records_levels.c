/* The different texts of a column: a hash table with open addressing over a list of levels, whose
 * texts lie one behind the other. The seed of the hashes is not known outside, so that nobody can
 * write a file whose texts all collide; nothing that is returned depends on it. */
#include "server/data/records_parts.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { FIRST_SLOTS = 16 };

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

enum err records_grow(struct table_input *input, void **items, size_t *room, size_t wanted,
                      size_t item_bytes, struct err_info *info)
{
    if (wanted <= *room)
        return ERR_OK;
    size_t more;
    if (__builtin_mul_overflow(wanted - *room, item_bytes, &more) || more > input->budget)
        return err_set(info, ERR_TOO_LARGE,
                       "%s: its columns do not fit into the %zu bytes of memory left for it",
                       input->name, input->budget);
    enum err err = table_take(input, more, info);
    if (err != ERR_OK)
        return err;
    void *grown = realloc(*items, wanted * item_bytes);
    if (grown == NULL) {
        table_give(input, more);
        return table_no_memory(input->name, info);
    }
    input->budget -= more;
    memset((char *)grown + *room * item_bytes, 0, more);
    *items = grown;
    *room = wanted;
    return ERR_OK;
}

static void give(struct table_input *input, size_t bytes)
{
    input->budget += bytes;
    table_give(input, bytes);
}

/* The slot of the text, or the empty one where it belongs. */
static uint32_t *find_slot(const struct levels *levels, uint32_t hash, const char *text,
                           size_t size)
{
    for (size_t i = hash;; i++) {
        uint32_t *slot = levels->slots + (i & (levels->slot_count - 1));
        if (*slot == 0)
            return slot;
        const struct level *level = levels->list + *slot - 1;
        if (level->hash == hash && level->size == size &&
            memcmp(levels->texts + level->offset, text, size) == 0)
            return slot;
    }
}

static uint32_t hash_of(const char *text, size_t size, uint64_t seed)
{
    return (uint32_t)XXH3_64bits_withSeed(text, size, seed);
}

struct level *records_levels_find(const struct levels *levels, uint64_t seed, const char *text,
                                  size_t size)
{
    if (levels->slot_count == 0)
        return NULL;
    uint32_t slot = *find_slot(levels, hash_of(text, size, seed), text, size);
    return slot > 0 ? levels->list + slot - 1 : NULL;
}

/* Twice as many slots, at most half of which are taken. */
static enum err more_slots(struct levels *levels, struct table_input *input, struct err_info *info)
{
    if (2 * (levels->count + 1) <= levels->slot_count)
        return ERR_OK;
    size_t wanted = larger(FIRST_SLOTS, 2 * levels->slot_count);
    enum err err = records_grow(input, (void **)&levels->slots, &levels->slot_count, wanted,
                                sizeof *levels->slots, info);
    if (err != ERR_OK)
        return err;
    memset(levels->slots, 0, levels->slot_count * sizeof *levels->slots);
    for (size_t i = 0; i < levels->count; i++) {
        const struct level *level = levels->list + i;
        *find_slot(levels, level->hash, levels->texts + level->offset, level->size) =
            (uint32_t)(i + 1);
    }
    return ERR_OK;
}

enum err records_levels_add(struct levels *levels, struct table_input *input, uint64_t seed,
                            const char *text, size_t size, struct err_info *info)
{
    size_t bytes = levels->text_bytes + size + 1;
    enum err err = more_slots(levels, input, info);
    if (err == ERR_OK && levels->count == levels->room)
        err = records_grow(input, (void **)&levels->list, &levels->room,
                           larger(FIRST_SLOTS / 2, 2 * levels->room), sizeof *levels->list, info);
    if (err == ERR_OK && bytes > levels->text_room)
        err = records_grow(input, (void **)&levels->texts, &levels->text_room,
                           larger(bytes, 2 * levels->text_room), 1, info);
    if (err != ERR_OK)
        return err;
    uint32_t hash = hash_of(text, size, seed);
    *find_slot(levels, hash, text, size) = (uint32_t)(levels->count + 1);
    levels->list[levels->count++] = (struct level){
        .offset = levels->text_bytes, .size = (uint32_t)size, .hash = hash, .rows = 1};
    memcpy(levels->texts + levels->text_bytes, text, size);
    levels->texts[bytes - 1] = '\0';
    levels->text_bytes = bytes;
    return ERR_OK;
}

static int compare(const void *a, const void *b, void *context)
{
    const struct levels *levels = context;
    return strcmp(levels->texts + levels->list[*(const uint32_t *)a].offset,
                  levels->texts + levels->list[*(const uint32_t *)b].offset);
}

/* Copies the levels in the order of `order` to the facts. */
static void list_levels(struct levels *levels, const uint32_t *order, struct column_facts *facts)
{
    char *text = (char *)(facts->levels + levels->count);
    for (uint32_t i = 0; i < levels->count; i++) {
        struct level *level = levels->list + order[i];
        level->position = i;
        facts->levels[i] = text;
        facts->level_rows[i] = level->rows;
        memcpy(text, levels->texts + level->offset, level->size + 1);
        text += level->size + 1;
    }
    facts->level_count = levels->count;
}

enum err records_levels_finish(struct levels *levels, struct table_input *input,
                               struct column_facts *facts, struct err_info *info)
{
    uint32_t *order = NULL;
    size_t order_room = 0, level_room = 0, row_room = 0;
    size_t level_bytes = levels->count * sizeof(char *) + levels->text_bytes;
    if (levels->count == 0)
        return ERR_OK;
    enum err err =
        records_grow(input, (void **)&order, &order_room, levels->count, sizeof *order, info);
    if (err == ERR_OK)
        err = records_grow(input, (void **)&facts->levels, &level_room, level_bytes, 1, info);
    if (err == ERR_OK)
        err = records_grow(input, (void **)&facts->level_rows, &row_room, levels->count,
                           sizeof *facts->level_rows, info);
    if (err == ERR_OK) {
        for (uint32_t i = 0; i < levels->count; i++)
            order[i] = i;
        qsort_r(order, levels->count, sizeof *order, compare, levels);
        list_levels(levels, order, facts);
    }
    give(input, order_room * sizeof *order);
    free(order);
    return err;
}

void records_levels_release(struct levels *levels, struct table_input *input)
{
    give(input, levels->text_room + levels->room * sizeof *levels->list +
                    levels->slot_count * sizeof *levels->slots);
    free(levels->texts);
    free(levels->list);
    free(levels->slots);
    *levels = (struct levels){0};
}
