#pragma once
#include <sqlite3.h>

// SQLITE_TRANSIENT is a cast that Swift cannot import. SQLite keeps a copy of the bytes; none at all is the empty text.
static inline int csqlite_bind_text_copied(sqlite3_stmt *statement, int index, const unsigned char *bytes, int count) {
  return sqlite3_bind_text(statement, index, bytes ? (const char *)bytes : "", count, SQLITE_TRANSIENT);
}

// sqlite3_db_config is variadic, which Swift cannot call.

// Closing this connection leaves the database and its log as they are (for one that is damaged).
static inline int csqlite_keep_log_on_close(sqlite3 *database) {
  return sqlite3_db_config(database, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)0);
}

// The errno of the last write to the write-ahead log (or journal) that failed. sqlite3_system_errno reads errno only
// after the statement was unwound, and knows no more by then; SQLite itself tells only ENOSPC from other causes.
static inline int csqlite_log_errno(sqlite3 *database) {
  sqlite3_file *log = (sqlite3_file *)0;
  int number = 0;
  if (database && sqlite3_file_control(database, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log) == SQLITE_OK && log &&
      log->pMethods)
    log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &number);
  return number;
}
