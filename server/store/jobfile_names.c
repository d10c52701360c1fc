/* Names of all parameters of a job, from the blocks that its file lists. */
#include "server/store/jobfile_parts.h"
#include "server/base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The blocks as the model had them. */
struct jobfile_blocks {
    struct model model; /* only the blocks; none: the file has no names */
    char names[MODEL_BLOCKS][64];
};

char *jobfile_blocks_write(const struct model_block *blocks, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        json_t *one = json_object(), *shape = json_array();
        for (size_t r = 0; r < blocks[i].rank; r++)
            json_add(&shape, json_count(blocks[i].shape[r]));
        json_put(&one, "name", json_text(blocks[i].name));
        json_put(&one, "shape", shape);
        json_add(&list, one);
    }
    char *text = list != NULL ? json_write(list, NULL) : NULL;
    json_decref(list);
    return text;
}

/* One block that begins at `offset`; its size, or 0 when it is not valid. */
static size_t read_block(const json_t *json, size_t offset, size_t d, struct model_block *block,
                         char name[64])
{
    const char *text = json_string_value(json_object_get(json, "name"));
    const json_t *shape = json_object_get(json, "shape");
    size_t rank = json_array_size(shape), size = 1;
    if (text == NULL || strlen(text) > 63 || !json_is_array(shape) || rank > 2)
        return 0;
    snprintf(name, 64, "%s", text);
    *block = (struct model_block){.name = name, .rank = rank, .offset = offset};
    for (size_t r = 0; r < rank; r++) {
        json_int_t length = json_integer_value(json_array_get(shape, r));
        if (length < 1 || (uint64_t)length > d / size)
            return 0;
        block->shape[r] = (size_t)length;
        size *= (size_t)length;
    }
    return size;
}

static void read_blocks(struct jobfile_blocks *b, const json_t *list, size_t d)
{
    size_t count = json_array_size(list), offset = 0;
    for (size_t i = 0; i < count && count <= MODEL_BLOCKS; i++) {
        size_t size =
            read_block(json_array_get(list, i), offset, d, &b->model.blocks[i], b->names[i]);
        if (size == 0)
            return;
        offset += size;
    }
    if (offset == d && count <= MODEL_BLOCKS)
        b->model.block_count = count;
}

static struct jobfile_blocks *load(struct jobfile *file)
{
    struct query q;
    char *text = NULL;
    json_t *list = NULL;
    struct jobfile_blocks *b = calloc(1, sizeof *b);
    if (b == NULL)
        return NULL;
    b->model.d = file->layout.info.d;
    query_open(&q, file->db, "SELECT value FROM meta WHERE key = 'blocks'");
    if (query_next(&q))
        text = query_dup_text(&q, 0);
    if (query_close(&q, NULL) == ERR_OK && text != NULL &&
        json_parse(&list, text, strlen(text), NULL) == ERR_OK)
        read_blocks(b, list, b->model.d);
    json_decref(list);
    free(text);
    return b;
}

void jobfile_blocks_free(struct jobfile_blocks *blocks)
{
    free(blocks);
}

const char *jobfile_parameter(struct jobfile *file, size_t j, char *out, size_t size)
{
    const struct jobfile_info *about = &file->layout.info;
    if (file->blocks == NULL)
        file->blocks = load(file);
    const char *saved = about->width == about->d ? jobfile_name(file, j) : "";
    if (saved[0] != '\0')
        snprintf(out, size, "%s", saved);
    else if (file->blocks != NULL && file->blocks->model.block_count > 0 && j < about->d)
        model_parameter_name(&file->blocks->model, j, out, size);
    else
        snprintf(out, size, "parameter %zu", j + 1);
    return out;
}
