/* Unpacking gzip. */
#include "server/data/gzip.h"

#include <limits.h>
#include <string.h>

bool gzip_recognise(const char *bytes, size_t size)
{
    return size >= 2 && memcmp(bytes, "\x1f\x8b", 2) == 0;
}

static enum err no_memory(const struct gzip *g, struct err_info *info)
{
    return err_set(info, ERR_NO_MEMORY, "%s: no memory to unpack it", g->name);
}

enum err gzip_init(struct gzip *g, const char *name, struct err_info *info)
{
    *g = (struct gzip){.name = name};
    g->open = inflateInit2(&g->stream, 16 + MAX_WBITS) == Z_OK;
    return g->open ? ERR_OK : no_memory(g, info);
}

void gzip_release(struct gzip *g)
{
    if (g->open)
        inflateEnd(&g->stream);
    g->open = false;
}

static uInt clamp(size_t size)
{
    return size < UINT_MAX ? (uInt)size : UINT_MAX;
}

enum err gzip_step(struct gzip *g, const char **in, const char *in_end, char **out,
                   const char *out_end, struct err_info *info)
{
    z_stream *z = &g->stream;
    z->next_in = (Bytef *)(uintptr_t)*in;
    z->avail_in = clamp((size_t)(in_end - *in));
    z->next_out = (Bytef *)*out;
    z->avail_out = clamp((size_t)(out_end - *out));
    int status = inflate(z, Z_NO_FLUSH);
    g->taken += (uint64_t)((const char *)z->next_in - *in);
    *in = (const char *)z->next_in;
    *out = (char *)z->next_out;
    g->between = status == Z_STREAM_END;
    if (status == Z_MEM_ERROR)
        return no_memory(g, info);
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
        return err_set(info, ERR_MALFORMED, "%s: the gzip data are damaged near byte %llu (%s)",
                       g->name, (unsigned long long)g->taken,
                       z->msg != NULL ? z->msg : "no details");
    if (g->between)
        inflateReset(z);
    return ERR_OK;
}

enum err gzip_end(const struct gzip *g, struct err_info *info)
{
    return g->between ? ERR_OK
                      : err_set(info, ERR_MALFORMED, "%s: the gzip data end too early", g->name);
}
