/* Guarded mappings. */
#include "server/data/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAPPINGS_MAX 1024
#define PAGE         ((uintptr_t)4096)
#define HUGE_PAGE    ((uintptr_t)2 << 20)

/* Read by the handler, which takes no lock: `base` is set last and cleared first. */
static struct mapping {
    _Atomic uintptr_t base;
    _Atomic size_t size;
    atomic_bool broken;
    bool ample; /* under the lock */
} mappings[MAPPINGS_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool guarding;

static struct mapping *find(uintptr_t address)
{
    for (size_t i = 0; i < MAPPINGS_MAX; i++) {
        uintptr_t base = atomic_load(&mappings[i].base);
        if (base != 0 && address >= base && address - base < atomic_load(&mappings[i].size))
            return &mappings[i];
    }
    return NULL;
}

/* Replaces the whole mapping at once: page by page, a file that has lost many pages would exceed
 * the number of mappings that a process may have. */
static bool replace(const struct mapping *m)
{
    void *base = (void *)atomic_load(&m->base);
    return mmap(base, atomic_load(&m->size), PROT_READ,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

static void on_bus_error(int number, siginfo_t *what, void *context)
{
    int saved = errno;
    struct mapping *m = find((uintptr_t)what->si_addr);
    (void)context;
    if (m != NULL)
        atomic_store(&m->broken, true);
    if (m == NULL || !replace(m)) {
        signal(number, SIG_DFL);
        raise(number);
    }
    errno = saved;
}

static void guard(void)
{
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_NODEFER};
    if (!guarding)
        sigaction(SIGBUS, &action, NULL);
    guarding = true;
}

static uint64_t ample_bytes(void)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < MAPPINGS_MAX; i++)
        if (atomic_load(&mappings[i].base) != 0 && mappings[i].ample)
            bytes += atomic_load(&mappings[i].size);
    return bytes;
}

static struct mapping *free_slot(void)
{
    for (size_t i = 0; i < MAPPINGS_MAX; i++)
        if (atomic_load(&mappings[i].base) == 0)
            return &mappings[i];
    return NULL;
}

/* Huge pages of a file need an address that is aligned like its offset: map more, replace a part,
 * unmap the ends. */
static char *map_aligned(int fd, size_t size)
{
    char *at = mmap(NULL, size + HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return MAP_FAILED;
    size_t before = -(uintptr_t)at % HUGE_PAGE;
    size_t rounded = (size + PAGE - 1) & -PAGE;
    if (mmap(at + before, size, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
        munmap(at, size + HUGE_PAGE);
        return MAP_FAILED;
    }
    if (before > 0)
        munmap(at, before);
    if (size + HUGE_PAGE > before + rounded)
        munmap(at + before + rounded, size + HUGE_PAGE - before - rounded);
    return at + before;
}

static enum err take_slot(struct data *data, int fd, size_t size, uint64_t room, bool *ample,
                          struct err_info *info)
{
    struct mapping *m = free_slot();
    if (m == NULL)
        return err_set(info, ERR_UNAVAILABLE,
                       "%d data files are mapped, which is the limit; try again later",
                       MAPPINGS_MAX);
    char *base = map_aligned(fd, size);
    if (base == MAP_FAILED)
        return err_set(info, ERR_NO_MEMORY, "the data cannot be mapped: %s", strerror(errno));
    guard();
    m->ample = *ample = ample_bytes() + size <= room;
    atomic_store(&m->broken, false);
    atomic_store(&m->size, size);
    atomic_store(&m->base, (uintptr_t)base);
    data->base = base;
    data->size = size;
    data->mapped = true;
    data->broken = &m->broken;
    return ERR_OK;
}

/* A descriptor that is opened again has a lock of its own. */
static int open_again(int fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int own = open(path, O_RDONLY | O_CLOEXEC);
    if (own >= 0)
        flock(own, LOCK_SH);
    return own;
}

enum err cache_file_map(struct data *data, int fd, size_t size, uint64_t room, bool *ample,
                        struct err_info *info)
{
    int own = open_again(fd);
    if (own < 0)
        return err_set(info, ERR_UNAVAILABLE, "the data cannot be mapped: %s", strerror(errno));
    pthread_mutex_lock(&lock);
    enum err code = take_slot(data, own, size, room, ample, info);
    pthread_mutex_unlock(&lock);
    data->fd = own;
    if (code != ERR_OK)
        close(own);
    return code;
}

/* The slot is free when nothing is mapped there any more, and no other mapping may have its address
 * before that. */
void cache_file_unmap(struct data *data)
{
    pthread_mutex_lock(&lock);
    struct mapping *m = find((uintptr_t)data->base);
    munmap(data->base, data->size);
    if (m != NULL)
        atomic_store(&m->base, 0);
    pthread_mutex_unlock(&lock);
    close(data->fd);
}
