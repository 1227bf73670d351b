/*-------------------------------------------------------------------------
 *
 * recent.h
 *		The last refusals, and what was said of them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_RECENT_H
#define FENCING_RECENT_H

#include "datatype/timestamp.h"

/* What became of the write. */
typedef enum RecentOutcome
{
	RECENT_REFUSED, /* an error */
	RECENT_SKIPPED, /* on_stale => 'skip' */
	RECENT_SHADOWED /* it passed */
} RecentOutcome;

/* What the caller knows; who and when is found out by fencing_recent_add. */
typedef struct RecentRefusal
{
	RecentOutcome outcome;
	int sqlstate;
	Oid relid;			  /* InvalidOid: no table */
	const char *resource; /* NULL: none */
	bool has_mark;
	int64 token; /* 0: none */
	int64 mark;
	const char *raised_by; /* who raised the mark, NULL if not known */
	TimestampTz raised_at; /* ... and when, 0 if not known */
} RecentRefusal;

/*
 * Remembers a refusal, in place of the oldest one if there is no room.  Does
 * nothing where there is no shared memory (yet), or fencing.track is off.
 * Raises nothing.
 */
extern void fencing_recent_add(const RecentRefusal *refusal);

/*
 * Is this the first time in the current minute that it is asked about this
 * table, outcome and the session's application_name?  In all sessions of the
 * database if there is shared memory, else in this one.  Where very many have
 * been asked about in one minute, the answer to others is no.
 */
extern bool fencing_recent_is_first(Oid relid, RecentOutcome outcome);

/* Forgets the refusals of this database. */
extern void fencing_recent_reset(void);

extern void fencing_recent_init(void);

#endif /* FENCING_RECENT_H */
