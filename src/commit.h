/*-------------------------------------------------------------------------
 *
 * commit.h
 *		What must hold before a transaction with fenced writes commits.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_COMMIT_H
#define FENCING_COMMIT_H

#include "utils/rel.h"

#include "resource.h"
#include "stats.h"

/*
 * Has this transaction carried a token (in a column, or by a claim)?  Set by
 * the guard, for the deadline; a presented token needs no note.
 */
extern bool fencing_commit_carried;

/* A write is about to be refused as stale, which fencing.stale_aborts asks. */
extern void fencing_commit_note_stale(void);

/*
 * Remembers that the current subtransaction gave a row of "rel" the name of
 * another resource with this token (0 if none), to be compared once more with
 * the mark before the commit.  Copies the name into TopTransactionContext.
 */
extern void fencing_commit_recheck(Relation rel, const ResourceName *name,
								   int64 token, bool strict, bool shadow,
								   StatCounter *counter);

/*
 * The same comparison, now: raises (or in shadow logs) a refusal if another
 * transaction left a mark that the token does not stand against.
 */
extern void fencing_recheck(Relation rel, const ResourceName *name,
							int64 token, bool strict, bool shadow,
							StatCounter *counter);

/* Writes use of fencing.enforcement = off into the log, once a transaction. */
extern void fencing_commit_note_off(Relation rel);

extern void fencing_commit_init(void);

#endif /* FENCING_COMMIT_H */
