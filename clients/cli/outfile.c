/* An output file that is complete or absent. */
#include "clients/cli/outfile.h"
#include "clients/cli/report.h"
#include "clients/cli/term.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_special(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && !S_ISREG(info.st_mode);
}

/* mkstemp creates files with mode 0600; the result gets the usual permissions of a new file. */
static void usual_mode(int fd)
{
    mode_t mask = umask(0);
    umask(mask);
    if (fchmod(fd, 0666 & ~mask) != 0)
        report_note("could not set the permissions of the new file: %s", strerror(errno));
}

static bool open_temporary(struct outfile *out)
{
    struct text name = {0};
    const char *slash = strrchr(out->path, '/');
    size_t folder = slash ? (size_t)(slash - out->path) + 1 : 0;
    text_add_bytes(&name, out->path, folder);
    text_addf(&name, ".%s.XXXXXX", out->path + folder);
    out->temporary = text_take(&name);
    int fd = mkstemp(out->temporary);
    if (fd >= 0) {
        usual_mode(fd);
        out->file = fdopen(fd, "wb");
        return true;
    }
    free(out->temporary);
    out->temporary = NULL;
    return false;
}

bool outfile_open(struct outfile *out, const char *path)
{
    *out = (struct outfile){0};
    if (!path || strcmp(path, "-") == 0) {
        out->file = stdout;
        return true;
    }
    out->path = mem_copy(path);
    if (is_special(path))
        out->file = fopen(path, "wb");
    else
        open_temporary(out);
    if (out->file)
        return true;
    report_error("cannot write %s: %s", path, strerror(errno));
    free(out->path);
    out->path = NULL;
    return false;
}

static bool write_failed(const struct outfile *out)
{
    if (!outfile_reader_left(out))
        report_error("cannot write %s: %s", out->path ? out->path : "the output", strerror(errno));
    return false;
}

bool outfile_reader_left(const struct outfile *out)
{
    return out->file == stdout && term_reader_left(stdout);
}

bool outfile_write(void *ctx, const char *bytes, size_t size)
{
    struct outfile *out = ctx;
    if (fwrite(bytes, 1, size, out->file) != size)
        return write_failed(out);
    out->bytes += (int64_t)size;
    return true;
}

static bool close_file(struct outfile *out)
{
    bool flushed = fflush(out->file) == 0;
    int error = errno;
    if (out->file != stdout && fclose(out->file) != 0 && flushed) {
        error = errno;
        flushed = false;
    }
    errno = error;
    bool fine = flushed || outfile_reader_left(out) || write_failed(out);
    out->file = NULL;
    return fine;
}

static void discard_names(struct outfile *out)
{
    free(out->path);
    free(out->temporary);
    *out = (struct outfile){0};
}

bool outfile_commit(struct outfile *out)
{
    bool fine = close_file(out);
    if (fine && out->temporary && rename(out->temporary, out->path) != 0) {
        report_error("cannot write %s: %s", out->path, strerror(errno));
        fine = false;
    }
    if (!fine && out->temporary)
        unlink(out->temporary);
    discard_names(out);
    return fine;
}

void outfile_discard(struct outfile *out)
{
    if (!out->file)
        return;
    if (out->file != stdout)
        fclose(out->file);
    if (out->temporary)
        unlink(out->temporary);
    discard_names(out);
}
