/* Loading the data of a job: from its files into memory, or through their binary form in the disk
 * cache when they are large. The values are the same in both cases. */
#ifndef BARKER_SERVER_DATA_LOAD_H
#define BARKER_SERVER_DATA_LOAD_H

#include "server/data/disk_cache.h"

struct load_files { /* open */
    struct data_file train, test;
    bool has_test;
};

struct load {
    const struct load_files *files;
    const struct data_spec *spec;
    enum data_kind kind;
    struct disk_cache *disk; /* NULL: none */
    uint64_t disk_from;      /* bytes of files from which on it is used */
    size_t budget;           /* bytes that a file or its table may take */
    uint64_t unpacked;       /* bytes that a packed file may unpack to */
    /* Takes memory for reading: TOO_LARGE or UNAVAILABLE if it must not be. */
    struct table_memory reading;
    /* Takes memory for the arrays: TOO_LARGE or UNAVAILABLE if it must not be. */
    enum err (*reserve)(void *context, size_t bytes, struct err_info *info);
    void *context;
};

/* Mistakes in the job's `data` object go to `mistakes`: ERR_INVALID. The last successful
 * call of `reserve` has reserved data->bytes, also if `out` is mapped and needs none. May take
 * long. */
enum err load_data(const struct load *load, struct data *out, struct mistakes *mistakes,
                   struct err_info *info);

#endif
