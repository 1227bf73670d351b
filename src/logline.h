/*-------------------------------------------------------------------------
 *
 * logline.h
 *		The form of what the extension writes to the server log.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_LOGLINE_H
#define FENCING_LOGLINE_H

#include "lib/stringinfo.h"
#include "utils/rel.h"

/*
 * A line is built by these, in this order:
 *
 *		fencing: EVENT key=value key=value ...
 *
 * and written by fencing_log_write.  Memory is CurrentMemoryContext's.
 */
extern void fencing_log_begin(StringInfo line, const char *event);

/* A text in double quotes, left out if it is NULL. */
extern void fencing_log_text(StringInfo line, const char *key,
							 const char *value);
extern void fencing_log_number(StringInfo line, const char *key, int64 value);

/* table=..., with its schema */
extern void fencing_log_table(StringInfo line, Relation rel);

/* role=... application=... client=... of this session */
extern void fencing_log_who(StringInfo line);

/* Writes the line, with an SQLSTATE (0 for none). */
extern void fencing_log_write(StringInfo line, int sqlstate);

/* The client's address, NULL if it is not connected by TCP.  Computed once. */
#define CLIENT_ADDRESS_MAX 64
extern const char *fencing_client_address(void);

#endif /* FENCING_LOGLINE_H */
