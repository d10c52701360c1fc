/* Embedding by the assembler: no generated sources. The compiler runs at the top of the repository,
 * to which the paths are relative. */
#include "server/base/assets.h"

#define X(name, path)                       \
    __asm__(".section .rodata, \"a\"\n"     \
            ".balign 16\n"                  \
            "asset_begin_" #name ":\n"      \
            ".incbin \"" path "\"\n"        \
            "asset_end_" #name ":\n"        \
            ".byte 0\n"                     \
            ".previous\n");                 \
    extern const char asset_begin_##name[]; \
    extern const char asset_end_##name[];
ASSET_LIST(X)
#undef X

struct asset asset_get(enum asset_id id)
{
    static const struct {
        const char *path, *begin, *end;
    } assets[] = {
#define X(name, path) {path, asset_begin_##name, asset_end_##name},
        ASSET_LIST(X)
#undef X
    };
    return (struct asset){.path = assets[id].path,
                          .bytes = assets[id].begin,
                          .size = (size_t)(assets[id].end - assets[id].begin)};
}
