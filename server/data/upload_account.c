/* Files and bytes of the users with uploads under way, against their quotas. */
#include "server/data/data_root_parts.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* There is one while the user has uploads under way. */
struct upload_account {
    char user[DATA_FILE_USER_MAX + 1];
    struct data_usage stored; /* files that are whole */
    uint64_t arrived;         /* bytes of those under way */
    uint64_t uploads;
    struct upload_account *next;
};

struct upload_accounts {
    pthread_mutex_t lock;
    struct upload_account *first;
};

struct upload_accounts *upload_accounts_new(void)
{
    struct upload_accounts *all = calloc(1, sizeof *all);
    if (all != NULL)
        pthread_mutex_init(&all->lock, NULL);
    return all;
}

void upload_accounts_free(struct upload_accounts *all)
{
    pthread_mutex_destroy(&all->lock);
    free(all);
}

static struct upload_account *find(struct upload_accounts *all, const char *user)
{
    struct upload_account *account = all->first;
    while (account != NULL && strcmp(account->user, user) != 0)
        account = account->next;
    return account;
}

/* ---- what is there ---- */

static void count_file(void *ctx, int folder, const char *name)
{
    struct data_usage *usage = ctx;
    struct stat status;
    if (strncmp(name, DATA_FILE_TEMPORARY, sizeof DATA_FILE_TEMPORARY - 1) == 0 ||
        fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode))
        return;
    usage->files++;
    usage->bytes += (uint64_t)status.st_size;
}

static struct data_usage count_stored(const struct data_root *root, const char *user)
{
    struct data_usage usage = {0};
    data_file_each_name(data_file_open_own(root, user, O_RDONLY), count_file, &usage);
    return usage;
}

void data_file_usage(const struct data_root *root, const char *user, struct data_usage *out)
{
    pthread_mutex_lock(&root->accounts->lock);
    const struct upload_account *account = find(root->accounts, user);
    *out = count_stored(root, user);
    if (account != NULL) {
        out->files += account->uploads;
        out->bytes += account->arrived;
    }
    pthread_mutex_unlock(&root->accounts->lock);
}

void upload_accounts_refresh(const struct data_root *root, const char *user)
{
    pthread_mutex_lock(&root->accounts->lock);
    struct upload_account *account = find(root->accounts, user);
    if (account != NULL)
        account->stored = count_stored(root, user);
    pthread_mutex_unlock(&root->accounts->lock);
}

/* ---- one upload ---- */

/* The file that is replaced when the upload gets its name. */
static struct data_usage replaced(const struct upload_share *share)
{
    struct data_usage usage = {0};
    count_file(&usage, share->folder, share->name);
    return usage;
}

/* The bytes beside those of this upload and of the file that it replaces. */
static uint64_t others(const struct upload_share *share)
{
    const struct upload_account *account = share->account;
    uint64_t bytes = account->stored.bytes + account->arrived - share->arrived;
    uint64_t less = replaced(share).bytes;
    return bytes > less ? bytes - less : 0;
}

static enum err check_files(const struct upload_share *share, struct err_info *info)
{
    const struct upload_account *account = share->account;
    uint64_t files = account->stored.files + account->uploads - replaced(share).files;
    if (files <= share->bounds.files)
        return ERR_OK;
    return err_set(info, ERR_QUOTA,
                   "\"%s\" is not stored: you may have at most %llu data files, including uploads "
                   "in progress; delete some",
                   share->name, (unsigned long long)share->bounds.files);
}

static enum err check_bytes(const struct upload_share *share, uint64_t more, struct err_info *info)
{
    uint64_t other = others(share), own = share->arrived + more;
    if (other <= share->bounds.bytes && own <= share->bounds.bytes - other)
        return ERR_OK;
    return err_set(info, ERR_QUOTA,
                   "\"%s\" does not fit: your other data files take %llu MB, including uploads in "
                   "progress, and at most %llu MB are allowed; delete some",
                   share->name, (unsigned long long)other >> 20,
                   (unsigned long long)share->bounds.bytes >> 20);
}

/* Under the lock. */
static void leave(struct upload_share *share)
{
    struct upload_account *account = share->account;
    struct upload_account **at = &share->all->first;
    account->arrived -= share->arrived;
    share->account = NULL;
    if (--account->uploads > 0)
        return;
    while (*at != account)
        at = &(*at)->next;
    *at = account->next;
    free(account);
}

static struct upload_account *join(struct upload_accounts *all, const char *user)
{
    struct upload_account *account = find(all, user);
    if (account == NULL && (account = calloc(1, sizeof *account)) != NULL) {
        snprintf(account->user, sizeof account->user, "%s", user);
        account->next = all->first;
        all->first = account;
    }
    return account;
}

enum err upload_share_open(struct upload_share *share, const struct data_root *root,
                           const char *user, struct err_info *info)
{
    enum err code;
    share->all = root->accounts;
    pthread_mutex_lock(&share->all->lock);
    share->account = join(share->all, user);
    if (share->account == NULL) {
        code = err_set(info, ERR_NO_MEMORY, "no memory to store \"%s\"", share->name);
    } else {
        share->account->uploads++;
        share->account->stored = count_stored(root, user);
        code = check_files(share, info);
        if (code == ERR_OK)
            code = check_bytes(share, 0, info);
        if (code != ERR_OK)
            leave(share);
    }
    pthread_mutex_unlock(&share->all->lock);
    return code;
}

enum err upload_share_take(struct upload_share *share, uint64_t more, struct err_info *info)
{
    if (share->account == NULL)
        return ERR_OK;
    pthread_mutex_lock(&share->all->lock);
    enum err code = check_bytes(share, more, info);
    if (code == ERR_OK) {
        share->arrived += more;
        share->account->arrived += more;
    }
    pthread_mutex_unlock(&share->all->lock);
    return code;
}

int upload_share_rename(struct upload_share *share, int folder, const char *temporary)
{
    if (share->account == NULL)
        return renameat(folder, temporary, folder, share->name);
    pthread_mutex_lock(&share->all->lock);
    struct data_usage gone = replaced(share), *stored = &share->account->stored;
    int rc = renameat(folder, temporary, folder, share->name);
    if (rc == 0) {
        stored->files += 1 - gone.files;
        stored->bytes += share->arrived;
        stored->bytes -= gone.bytes < stored->bytes ? gone.bytes : stored->bytes;
        leave(share);
    }
    pthread_mutex_unlock(&share->all->lock);
    return rc;
}

void upload_share_close(struct upload_share *share)
{
    if (share->account == NULL)
        return;
    pthread_mutex_lock(&share->all->lock);
    leave(share);
    pthread_mutex_unlock(&share->all->lock);
}
