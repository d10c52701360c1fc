/* Moving a WAL into its file while the writer goes on: a connection of its own, and a thread for
 * each time. */
#include "server/db.h"
#include "server/db_parts.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct db_mover {
    struct db *db; /* the mover's */
    pthread_t thread;
    bool moving;      /* there is a thread to be joined, ... */
    atomic_bool done; /* which has done what it was there for */
};

static struct db_mover *make_mover(struct db *db)
{
    struct db_mover *mover = calloc(1, sizeof *mover);
    struct db_options options = {.path = sqlite3_db_filename(db->handle, "main"),
                                 .label = db->label,
                                 .role = DB_MOVER,
                                 .cache = DB_CACHE_SMALL};
    if (mover != NULL && db_open(&mover->db, &options, NULL) == ERR_OK)
        return mover;
    free(mover);
    return NULL;
}

static void *move(void *arg)
{
    struct db_mover *mover = arg;
    db_move_now(mover->db, SQLITE_CHECKPOINT_PASSIVE);
    mover->done = true;
    return NULL;
}

bool db_move_begin(struct db *db)
{
    struct db_mover *mover = db->mover;
    if (mover != NULL && mover->moving)
        return true;
    if (mover == NULL)
        mover = db->mover = make_mover(db);
    if (mover == NULL)
        return false;
    mover->done = false;
    mover->moving = pthread_create(&mover->thread, NULL, move, mover) == 0;
    if (mover->moving)
        pthread_setname_np(mover->thread, "store-mover");
    return mover->moving;
}

void db_move_wait(struct db *db)
{
    struct db_mover *mover = db->mover;
    if (mover == NULL || !mover->moving)
        return;
    pthread_join(mover->thread, NULL);
    mover->moving = false;
    if (mover->db->health > db->health)
        db->health = mover->db->health;
}

void db_move_hear(struct db *db)
{
    if (db->mover != NULL && db->mover->done)
        db_move_wait(db);
}

void db_move_stop(struct db *db)
{
    if (db->mover != NULL)
        sqlite3_interrupt(db->mover->db->handle);
}

void db_settle(struct db *db)
{
    db_move_wait(db);
    if (db->mover != NULL)
        db_close(db->mover->db);
    free(db->mover);
    db->mover = NULL;
}
