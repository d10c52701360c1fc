/* Unpacking gzip in steps. Several members in a row are one file, as gzip itself has it (bgzip and
 * cat make those). */
#ifndef BARKER_SERVER_DATA_GZIP_H
#define BARKER_SERVER_DATA_GZIP_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

struct gzip {
    z_stream stream;
    const char *name; /* for messages; borrowed */
    uint64_t taken;   /* bytes so far */
    bool open;        /* to be released */
    bool between;     /* between two members: the file may end here */
};

bool gzip_recognise(const char *bytes, size_t size);
enum err gzip_init(struct gzip *g, const char *name, struct err_info *info);
void gzip_release(struct gzip *g); /* all zero is fine */

/* Takes bytes from *in up to in_end and gives bytes to *out up to out_end; both move on. Stops when
 * either is used up or a member ends. MALFORMED: the data are damaged; NO_MEMORY. */
enum err gzip_step(struct gzip *g, const char **in, const char *in_end, char **out,
                   const char *out_end, struct err_info *info);
/* MALFORMED: the data end within a member. */
enum err gzip_end(const struct gzip *g, struct err_info *info);

#endif
