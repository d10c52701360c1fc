/* Outfile: an output file that is complete or absent. Bytes go to a temporary file in the same
 * folder, which is renamed at the end. stdout and special files (a pipe, /dev/null) are written
 * directly. */
#ifndef BARKER_CLI_OUTFILE_H
#define BARKER_CLI_OUTFILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct outfile {
    FILE *file;
    char *path, *temporary; /* NULL: written directly */
    int64_t bytes;
};

/* NULL or "-" is stdout. On failure reports the error and returns false. */
bool outfile_open(struct outfile *out, const char *path);
/* A sink for `struct request`: ctx is the outfile. */
bool outfile_write(void *ctx, const char *bytes, size_t size);
/* Whether it is a pipe whose reader has closed it: not an error. */
bool outfile_reader_left(const struct outfile *out);
/* Renames the file to its final name, or reports the error and removes it. */
bool outfile_commit(struct outfile *out);
/* Removes the temporary file. Does nothing after outfile_commit. */
void outfile_discard(struct outfile *out);

#endif
