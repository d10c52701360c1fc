/* Data files in binary form. */
#include "server/data/cache_file.h"

#include "server/data/guard.h"
#include "server/base/memory.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define PIECE           ((size_t)1 << 20) /* bytes read or written at once */
#define BYTE_ORDER_MARK 0x0102030405060708u

static const char magic[8] = "BARKDATA";

struct head_array {
    uint64_t offset, bytes, checksum;
};

struct head_set {
    uint64_t kind, precision, N, columns, stride, users, items;
    struct head_array arrays[LAYOUT_ARRAYS];
};

struct head {
    char magic[8];
    uint64_t version, layout, byte_order, size;
    char key[CACHE_FILE_KEY_HEX + 7], sha256[2 * DATA_FILE_SHA256_HEX + 6];
    struct cache_file_source sources[2];
    uint64_t source_bytes[2];
    uint64_t has_test, name_count;
    struct head_array names;
    struct head_set sets[2];
    uint64_t checksum; /* of everything before it */
};
static_assert(sizeof(struct head) <= LAYOUT_HEAD, "the head has room");
static_assert(offsetof(struct head, checksum) + sizeof(uint64_t) == sizeof(struct head),
              "nothing behind its checksum");

static uint64_t head_checksum(const struct head *head)
{
    return XXH3_64bits(head, offsetof(struct head, checksum));
}

static enum err corrupt(struct err_info *info, const char *why)
{
    return err_set(info, ERR_CORRUPT, "the binary file %s", why);
}

/* ---- bytes ---- */

static enum err write_error(int number, struct err_info *info)
{
    bool full = number == ENOSPC || number == EDQUOT || number == EFBIG;
    return err_set(info, full ? ERR_NO_SPACE : ERR_IO,
                   "the binary form of the data cannot be stored: %s", strerror(number));
}

static enum err write_at(int fd, const void *bytes, size_t size, size_t offset,
                         struct err_info *info)
{
    const char *from = bytes;
    while (size > 0) {
        ssize_t put = TEMP_FAILURE_RETRY(pwrite(fd, from, size, (off_t)offset));
        if (put < 0)
            return write_error(errno, info);
        from += put;
        offset += (size_t)put;
        size -= (size_t)put;
    }
    return ERR_OK;
}

static enum err read_at(int fd, void *bytes, size_t size, size_t offset, struct err_info *info)
{
    char *to = bytes;
    while (size > 0) {
        ssize_t got = TEMP_FAILURE_RETRY(pread(fd, to, size, (off_t)offset));
        if (got < 0)
            return err_set(info, ERR_CORRUPT, "the binary file cannot be read: %s",
                           strerror(errno));
        if (got == 0)
            return corrupt(info, "is truncated");
        to += got;
        offset += (size_t)got;
        size -= (size_t)got;
    }
    return ERR_OK;
}

/* ---- writing ---- */

/* Rows of one array that are not yet written. */
struct stage {
    char *bytes;
    size_t row_bytes, rows, room; /* room in rows */
    size_t offset;                /* where they go */
    XXH3_state_t *sum;
};

struct writer {
    int fd;
    struct stage stages[2][LAYOUT_ARRAYS];
};

static enum err flush(struct writer *w, struct stage *s, struct err_info *info)
{
    size_t bytes = s->rows * s->row_bytes;
    enum err code = write_at(w->fd, s->bytes, bytes, s->offset, info);
    XXH3_64bits_update(s->sum, s->bytes, bytes);
    memset(s->bytes, 0, bytes);
    s->offset += bytes;
    s->rows = 0;
    return code;
}

static enum err writer_row(void *context, int set, struct prepare_row *out, struct err_info *info)
{
    struct writer *w = context;
    void *at[LAYOUT_ARRAYS];
    for (int k = 0; k < LAYOUT_ARRAYS; k++) {
        struct stage *s = &w->stages[set][k];
        if (s->bytes != NULL && s->rows == s->room) {
            enum err code = flush(w, s, info);
            if (code != ERR_OK)
                return code;
        }
        at[k] = s->bytes != NULL ? s->bytes + s->rows++ * s->row_bytes : NULL;
    }
    *out = (struct prepare_row){.x = at[LAYOUT_X],
                                .y = at[LAYOUT_Y],
                                .user = at[LAYOUT_USER],
                                .item = at[LAYOUT_ITEM],
                                .offset = at[LAYOUT_OFFSET],
                                .weight = at[LAYOUT_WEIGHT]};
    return ERR_OK;
}

static bool writer_init(struct writer *w, int fd, const struct data_layout *layout)
{
    *w = (struct writer){.fd = fd};
    for (int set = 0; set < 2; set++)
        for (int k = 0; k < LAYOUT_ARRAYS; k++) {
            const struct layout_array *a = &layout->arrays[set][k];
            struct stage *s = &w->stages[set][k];
            if (a->bytes == 0)
                continue;
            s->row_bytes = a->row_bytes;
            s->room = PIECE / a->row_bytes + 1;
            s->offset = a->offset;
            s->bytes = calloc(s->room, s->row_bytes);
            s->sum = XXH3_createState();
            if (s->bytes == NULL || s->sum == NULL)
                return false;
            XXH3_64bits_reset(s->sum);
        }
    return true;
}

static void writer_release(struct writer *w)
{
    for (int set = 0; set < 2; set++)
        for (int k = 0; k < LAYOUT_ARRAYS; k++) {
            free(w->stages[set][k].bytes);
            XXH3_freeState(w->stages[set][k].sum);
        }
}

static enum err writer_finish(struct writer *w, struct err_info *info)
{
    enum err code = ERR_OK;
    for (int set = 0; set < 2; set++)
        for (int k = 0; k < LAYOUT_ARRAYS; k++)
            if (code == ERR_OK && w->stages[set][k].bytes != NULL)
                code = flush(w, &w->stages[set][k], info);
    return code;
}

static void describe_set(struct head_set *out, const struct dataset *d,
                         const struct layout_array *arrays, const struct stage *stages)
{
    *out = (struct head_set){.kind = d->kind,
                             .precision = d->precision,
                             .N = d->N,
                             .columns = d->columns,
                             .stride = d->stride,
                             .users = d->users,
                             .items = d->items};
    for (int k = 0; k < LAYOUT_ARRAYS; k++)
        if (arrays[k].bytes > 0)
            out->arrays[k] = (struct head_array){.offset = arrays[k].offset,
                                                 .bytes = arrays[k].bytes,
                                                 .checksum = XXH3_64bits_digest(stages[k].sum)};
}

static void describe(struct head *head, const struct cache_file_about *about,
                     const struct data *shape, const struct data_layout *layout,
                     const struct writer *w, uint64_t names_checksum)
{
    memset(head, 0, sizeof *head);
    memcpy(head->magic, magic, sizeof magic);
    head->version = CACHE_FILE_VERSION;
    head->layout = LAYOUT_VERSION;
    head->byte_order = BYTE_ORDER_MARK;
    head->size = layout->size;
    memcpy(head->key, about->key, sizeof about->key);
    memcpy(head->sha256, about->sha256, sizeof about->sha256);
    memcpy(head->sources, about->sources, sizeof head->sources);
    memcpy(head->source_bytes, about->source_bytes, sizeof head->source_bytes);
    head->has_test = shape->has_test;
    head->name_count = shape->name_count;
    head->names = (struct head_array){layout->names_offset, layout->names_bytes, names_checksum};
    describe_set(&head->sets[0], &shape->train, layout->arrays[0], w->stages[0]);
    describe_set(&head->sets[1], &shape->test, layout->arrays[1], w->stages[1]);
    head->checksum = head_checksum(head);
}

static enum err write_names(int fd, const struct data *shape, const struct data_layout *layout,
                            uint64_t *checksum, struct err_info *info)
{
    char *text = layout_names_text(shape, layout->names_bytes);
    if (text == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for the names of the columns");
    enum err code = write_at(fd, text, layout->names_bytes, layout->names_offset, info);
    *checksum = XXH3_64bits(text, layout->names_bytes);
    free(text);
    return code;
}

enum err cache_file_reserve(int fd, size_t size, struct err_info *info)
{
    if (fallocate(fd, 0, 0, (off_t)size) == 0)
        return ERR_OK;
    bool unknown = errno == EOPNOTSUPP || errno == ENOSYS;
    return unknown && ftruncate(fd, (off_t)size) == 0 ? ERR_OK : write_error(errno, info);
}

enum err cache_file_write(int fd, const struct cache_file_about *about,
                          const struct prepare_plan *plan, const struct data_layout *layout,
                          struct data_rows *train, struct data_rows *test, struct err_info *info)
{
    struct writer w;
    struct head head;
    struct prepare_sink sink = {.row = writer_row, .context = &w};
    uint64_t names_checksum = 0;
    enum err code = writer_init(&w, fd, layout)
                        ? ERR_OK
                        : err_set(info, ERR_NO_MEMORY, "no memory to store the data");
    if (code == ERR_OK)
        code = write_names(fd, &plan->shape, layout, &names_checksum, info);
    if (code == ERR_OK)
        code = prepare_fill(plan, train, test, &sink, info);
    if (code == ERR_OK)
        code = writer_finish(&w, info);
    if (code == ERR_OK) {
        describe(&head, about, &plan->shape, layout, &w, names_checksum);
        code = write_at(fd, &head, sizeof head, 0, info);
    }
    if (code == ERR_OK && fsync(fd) != 0)
        code = write_error(errno, info);
    writer_release(&w);
    return code;
}

/* ---- reading ---- */

static enum err read_head(int fd, struct head *head, struct err_info *info)
{
    struct stat status;
    enum err code = read_at(fd, head, sizeof *head, 0, info);
    if (code != ERR_OK)
        return code;
    if (memcmp(head->magic, magic, sizeof magic) != 0 || head->byte_order != BYTE_ORDER_MARK)
        return corrupt(info, "was not written by barkerd");
    if (head->version != CACHE_FILE_VERSION || head->layout != LAYOUT_VERSION)
        return corrupt(info, "was written by another version of barkerd");
    if (head->checksum != head_checksum(head))
        return corrupt(info, "has a damaged header");
    if (fstat(fd, &status) != 0 || (uint64_t)status.st_size != head->size)
        return corrupt(info, "has another length than its header says");
    return ERR_OK;
}

enum err cache_file_about(int fd, struct cache_file_about *out, struct err_info *info)
{
    struct head head;
    enum err code = read_head(fd, &head, info);
    if (code != ERR_OK)
        return code;
    memcpy(out->key, head.key, sizeof out->key);
    memcpy(out->sha256, head.sha256, sizeof out->sha256);
    memcpy(out->sources, head.sources, sizeof out->sources);
    memcpy(out->source_bytes, head.source_bytes, sizeof out->source_bytes);
    out->size = head.size;
    out->bytes = 0;
    for (int set = 0; set < 2; set++)
        for (int k = 0; k < LAYOUT_ARRAYS; k++)
            out->bytes += head.sets[set].arrays[k].bytes;
    return ERR_OK;
}

enum err cache_file_set_sources(int fd, const struct cache_file_source sources[2],
                                struct err_info *info)
{
    struct head head;
    enum err code = read_head(fd, &head, info);
    if (code != ERR_OK)
        return code;
    memcpy(head.sources, sources, sizeof head.sources);
    head.checksum = head_checksum(&head);
    return write_at(fd, &head, sizeof head, 0, info);
}

static void read_set(struct dataset *out, const struct head_set *set)
{
    *out = (struct dataset){.kind = (enum data_kind)set->kind,
                            .precision = (enum precision)set->precision,
                            .N = set->N,
                            .columns = set->columns,
                            .stride = set->stride,
                            .users = set->users,
                            .items = set->items};
}

static enum err read_names(int fd, const struct head *head, struct data *out, struct err_info *info)
{
    char *text = malloc(head->names.bytes + 1);
    enum err code = text == NULL ? err_set(info, ERR_NO_MEMORY, "no memory for the data")
                                 : read_at(fd, text, head->names.bytes, head->names.offset, info);
    if (code == ERR_OK && XXH3_64bits(text, head->names.bytes) != head->names.checksum)
        code = corrupt(info, "has damaged names");
    if (code == ERR_OK) {
        out->names = layout_names_list(text, head->names.bytes, head->name_count);
        out->name_count = out->names != NULL ? head->name_count : 0;
        if (out->names == NULL)
            code = err_set(info, ERR_NO_MEMORY, "no memory for the data");
    }
    free(text);
    return code;
}

static bool set_as_today(const struct head_set *set, const struct dataset *d,
                         const struct layout_array *arrays)
{
    bool same = d->kind == DATA_TRIPLETS || d->N == 0 ||
                d->stride == dataset_stride(d->columns, d->precision);
    for (int k = 0; k < LAYOUT_ARRAYS; k++)
        same &=
            set->arrays[k].offset == arrays[k].offset && set->arrays[k].bytes == arrays[k].bytes;
    return same;
}

/* The header is intact; the layout must be the one that this version writes. */
static enum err read_shape(int fd, const struct head *head, struct data *out,
                           struct data_layout *layout, struct err_info *info)
{
    *out = (struct data){.has_test = head->has_test != 0,
                         .has_offset = head->sets[0].arrays[LAYOUT_OFFSET].bytes > 0,
                         .has_weight = head->sets[0].arrays[LAYOUT_WEIGHT].bytes > 0};
    memcpy(out->sha256, head->sha256, sizeof out->sha256);
    read_set(&out->train, &head->sets[0]);
    read_set(&out->test, &head->sets[1]);
    if (head->names.bytes > head->size)
        return corrupt(info, "was written by another version of barkerd");
    enum err code = read_names(fd, head, out, info);
    if (code != ERR_OK)
        return code;
    if (!data_layout(layout, out) || layout->size != head->size ||
        layout->names_bytes != head->names.bytes ||
        !set_as_today(&head->sets[0], &out->train, layout->arrays[0]) ||
        !set_as_today(&head->sets[1], &out->test, layout->arrays[1]))
        return corrupt(info, "has another layout");
    return ERR_OK;
}

/* Reads an array to `to`, or (NULL) piece by piece to `piece`, and compares its checksum. */
static enum err read_array(int fd, const struct head_array *a, char *to, char *piece,
                           XXH3_state_t *sum, struct err_info *info)
{
    enum err code = ERR_OK;
    XXH3_64bits_reset(sum);
    for (size_t done = 0; done < a->bytes && code == ERR_OK;) {
        size_t size = a->bytes - done < PIECE ? a->bytes - done : PIECE;
        char *at = to != NULL ? to + done : piece;
        code = read_at(fd, at, size, a->offset + done, info);
        if (code == ERR_OK)
            XXH3_64bits_update(sum, at, size);
        done += size;
    }
    if (code == ERR_OK && a->bytes > 0 && XXH3_64bits_digest(sum) != a->checksum)
        code = corrupt(info, "is damaged");
    return code;
}

static enum err read_arrays(int fd, const struct head *head, char *base, struct err_info *info)
{
    char *piece = base == NULL ? malloc(PIECE) : NULL;
    XXH3_state_t *sum = XXH3_createState();
    enum err code = ERR_OK;
    posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    if (sum == NULL || (base == NULL && piece == NULL))
        code = err_set(info, ERR_NO_MEMORY, "no memory to read the data");
    for (int set = 0; set < 2; set++)
        for (int k = 0; k < LAYOUT_ARRAYS && code == ERR_OK; k++) {
            const struct head_array *a = &head->sets[set].arrays[k];
            code = read_array(fd, a, base != NULL ? base + a->offset : NULL, piece, sum, info);
        }
    XXH3_freeState(sum);
    free(piece);
    return code;
}

/* Checks the arrays through the mapping, which also loads its pages, huge ones where possible. */
static enum err check_mapped(const struct data *data, const struct head *head,
                             struct err_info *info)
{
    for (int set = 0; set < 2; set++)
        for (int k = 0; k < LAYOUT_ARRAYS; k++) {
            const struct head_array *a = &head->sets[set].arrays[k];
            const char *bytes = (const char *)data->base + a->offset;
            if (a->bytes > 0 && XXH3_64bits(bytes, a->bytes) != a->checksum)
                return corrupt(info, "is damaged");
        }
    return data_broken(data) ? corrupt(info, "cannot be read") : ERR_OK;
}

/* If half of the memory has room for all data that are mapped in this way, they are mapped with
 * huge pages (where the file system has them) and with read-ahead. Otherwise without read-ahead,
 * which would read most of the file again and again. */
static enum err open_mapped(struct data *out, int fd, const struct head *head,
                            const struct data_layout *layout, bool verified, struct err_info *info)
{
    bool ample;
    enum err code = cache_file_map(out, fd, layout->size, memory_limit() / 2, &ample, info);
    if (code != ERR_OK)
        return code;
    layout_attach(out, layout);
    madvise(out->base, out->size, ample ? MADV_HUGEPAGE : MADV_RANDOM);
    if (verified)
        return ERR_OK;
    if (!ample)
        return read_arrays(fd, head, NULL, info);
    /* Pages that are in the page cache after writing or copying stay small: drop them. */
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    return check_mapped(out, head, info);
}

enum err cache_file_open(struct data *out, int fd, enum cache_file_way way, bool verified,
                         struct err_info *info)
{
    struct head head;
    struct data_layout layout;
    *out = (struct data){0};
    enum err code = read_head(fd, &head, info);
    if (code == ERR_OK)
        code = read_shape(fd, &head, out, &layout, info);
    if (code == ERR_OK && way == CACHE_FILE_MEMORY) {
        code = layout_allocate(out, &layout, info);
        if (code == ERR_OK)
            code = read_arrays(fd, &head, out->base, info);
    } else if (code == ERR_OK) {
        code = open_mapped(out, fd, &head, &layout, verified, info);
    }
    if (code != ERR_OK)
        data_release(out);
    return code;
}
