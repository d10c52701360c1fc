/* How writers write to their files: in large pieces, and early.
 *
 * SQLite hands over page after page, and the disk hears of them when they are synced. Here half a
 * megabyte of a WAL is one call, and what is written, be it to the WAL or to the database, is on
 * its way to the disk while SQLite goes on.
 *
 * What is in a piece is written before the same connection reads it, or syncs, cuts, measures or
 * closes the WAL. Others read of a WAL what was synced and no more: so this is for connections with
 * synchronous=FULL, and for file systems that need no filling up of sectors (SQLite's "powersafe
 * overwrite", which is assumed of all); others are left alone. */
#ifndef BARKER_SERVER_STORE_VFS_H
#define BARKER_SERVER_STORE_VFS_H

/* A name for sqlite3_open_v2, or NULL: the usual one. To be called once, before any connection is
 * opened. */
const char *db_write_register(void);

#endif
