/*-------------------------------------------------------------------------
 *
 * rowmove.h
 *		Recognizing the three trigger firings of a row that changes partition.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_ROWMOVE_H
#define FENCING_ROWMOVE_H

#include "commands/trigger.h"

#include "resource.h"

/*
 * After an UPDATE of a partition's row was accepted: it may turn out to be a
 * move.  The name is the one that the row will have; buried tells whether a
 * tombstone for its old name has been written.
 */
extern void fencing_rowmove_begin(const TriggerData *trigdata,
								  const ResourceName *name, int64 token,
								  bool buried);

/*
 * Is this DELETE the second firing of the move begun last?  If so, *token and
 * *buried are what was said then.
 */
extern bool fencing_rowmove_is_delete(const TriggerData *trigdata,
									  int64 *token, bool *buried);

/* Is this INSERT, of this name and token, the third? */
extern bool fencing_rowmove_is_insert(const TriggerData *trigdata,
									  const ResourceName *name, int64 token);

/* Has the second been seen, and the third is to come? */
extern bool fencing_rowmove_in_progress(void);

/* Forgets a move: its (sub)transaction is over, or rolled back. */
extern void fencing_rowmove_forget(void);

/* Under how many triggers does this one run?  1: of the client's statement. */
extern int fencing_trigger_depth(void);

#endif /* FENCING_ROWMOVE_H */
