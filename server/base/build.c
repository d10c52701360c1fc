/* The linker's build id: a hash of everything that went into the program. */
#include "server/base/build.h"

#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN = 6 }; /* bytes of it that are shown */

static char name[64];

static size_t padded(size_t size)
{
    return (size + 3) & ~(size_t)3;
}

/* Searches the notes of one segment. */
static bool take_id(const unsigned char *at, size_t left)
{
    ElfW(Nhdr) note;
    while (left >= sizeof note) {
        memcpy(&note, at, sizeof note);
        size_t id = sizeof note + padded(note.n_namesz), whole = id + padded(note.n_descsz);
        if (whole > left)
            return false;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_descsz >= SHOWN) {
            size_t end = strlen(name);
            end += (size_t)snprintf(name + end, sizeof name - end, ", build ");
            for (size_t i = 0; i < SHOWN; i++)
                snprintf(name + end + 2 * i, sizeof name - end - 2 * i, "%02x", at[id + i]);
            return true;
        }
        at += whole;
        left -= whole;
    }
    return false;
}

/* The first object is the program itself. */
static int find_build_id(struct dl_phdr_info *object, size_t size, void *ctx)
{
    (void)size;
    (void)ctx;
    for (size_t i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        const unsigned char *at = (const unsigned char *)(object->dlpi_addr + segment->p_vaddr);
        if (segment->p_type == PT_NOTE && take_id(at, segment->p_memsz))
            break;
    }
    return 1;
}

static void find(void)
{
    snprintf(name, sizeof name, "barkerd %s", BARKERD_VERSION);
    dl_iterate_phdr(find_build_id, NULL);
}

const char *build_name(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find);
    return name;
}
