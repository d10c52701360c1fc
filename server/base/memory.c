/* Memory of the machine or the control group. */
#include "server/base/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>

/* The number in a file; none, or "max": no limit. */
static uint64_t read_number(const char *path)
{
    uint64_t value;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return UINT64_MAX;
    if (fscanf(file, "%" SCNu64, &value) != 1)
        value = UINT64_MAX;
    fclose(file);
    return value;
}

/* A line is "0::/path" (version 2) or "4:memory:/path" (version 1). */
static uint64_t group_limit(const char *line)
{
    char path[4200];
    const char *name = strchr(line, ':'), *where = name != NULL ? strchr(name + 1, ':') : NULL;
    if (where == NULL)
        return UINT64_MAX;
    if (where == name + 1)
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", where + 1);
    else if (strncmp(name, ":memory:", 8) == 0)
        snprintf(path, sizeof path, "/sys/fs/cgroup/memory%s/memory.limit_in_bytes", where + 1);
    else
        return UINT64_MAX;
    return read_number(path);
}

uint64_t memory_limit(void)
{
    struct sysinfo machine;
    uint64_t least =
        sysinfo(&machine) == 0 ? (uint64_t)machine.totalram * machine.mem_unit : UINT64_MAX;
    FILE *groups = fopen("/proc/self/cgroup", "re");
    char line[4100];
    while (groups != NULL && fgets(line, sizeof line, groups) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        uint64_t limit = group_limit(line);
        least = limit < least ? limit : least;
    }
    if (groups != NULL)
        fclose(groups);
    return least;
}
