/* Outfile: a file that appears whole or not at all. Bytes go to a temporary name in the same
 * folder, which takes the real name at the end. What is no regular file (a pipe, /dev/null) and
 * stdout are written directly. */
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

/* NULL or "-" is stdout. On failure says why and returns false. */
bool outfile_open(struct outfile *out, const char *path);
/* A sink for `struct request`: ctx is the outfile. */
bool outfile_write(void *ctx, const char *bytes, size_t size);
/* Whether it is a pipe whose reader has seen enough: no trouble. */
bool outfile_reader_left(const struct outfile *out);
/* Gives the file its name, or says why not and removes it. */
bool outfile_commit(struct outfile *out);
/* Removes what was written. Does nothing after outfile_commit. */
void outfile_discard(struct outfile *out);

#endif
