/*-------------------------------------------------------------------------
 *
 * mark.h
 *		The rule that compares a token with a mark, and resource marks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_MARK_H
#define FENCING_MARK_H

#include "access/xact.h"

#include "refuse.h"
#include "resource.h"

/* What a fence adds to "not lower than the mark". */
typedef struct Rule
{
	bool strict;	  /* an equal token is stale too */
	bool issued_only; /* the database's issuer must have reached it */
	int64 max_step;	  /* largest jump above the mark, 0 for any */
} Rule;

typedef enum Verdict
{
	VERDICT_EQUAL, /* accepted, the mark stays */
	VERDICT_RAISE, /* accepted, becomes the mark */
	VERDICT_REFUSED
} Verdict;

/*
 * The rule itself, without locks or side effects.  When it refuses, kind,
 * token, mark and limit of *refusal are filled in.  Reads the issuer's
 * sequence if issued_only and the token is above what was read before.
 */
extern Verdict fencing_rule_in_full(const Rule *rule, int64 token, int64 mark,
									Refusal *refusal);

/* The same, the usual case first. */
static inline Verdict
fencing_rule(const Rule *rule, int64 token, int64 mark, Refusal *refusal)
{
	if (likely(token >= mark && token > 0 && !rule->strict &&
			   !rule->issued_only && rule->max_step == 0))
		return token == mark ? VERDICT_EQUAL : VERDICT_RAISE;
	return fencing_rule_in_full(rule, token, mark, refusal);
}

/*
 * Checks a token for a resource against its mark in fencing.marks and raises
 * the mark if the token is above it.  The mark is locked to the end of the
 * transaction: shared for an equal token, exclusively for a larger one.  Waits
 * for older writers; may raise 40001 above READ COMMITTED, 40P01, 55P03.
 * Never returns VERDICT_EQUAL or VERDICT_RAISE for a token that is lower than
 * any committed mark.  Needs a transaction that may write.
 */
extern Verdict fencing_mark_accept(const ResourceName *name, int64 token,
								   const Rule *rule, Refusal *refusal);

/*
 * Raises a mark to at least this token, whoever holds it: for tombstones of
 * row marks, whose rows have been checked.
 */
extern void fencing_mark_bury(const ResourceName *name, int64 token);

/*
 * The mark of a resource by the newest snapshot, without a lock; 0 if none.
 * With own, tells whether this transaction wrote it.
 */
extern int64 fencing_mark_read(const ResourceName *name, bool *own);

/*
 * Changes whenever something that fencing_mark_accept has accepted in this
 * transaction may not hold any more: as long as it and fencing_store_generation
 * stay the same, so does the answer to the same question.
 */
extern uint64 fencing_checked_epoch;

/*
 * The memory of what this transaction has checked.  A mark written by other
 * means than fencing_mark_accept must be forgotten; the rest is called by the
 * transaction callbacks and raises nothing.
 */
extern void fencing_checked_forget(const ResourceName *name);
extern void fencing_checked_end_of_transaction(void);
extern void fencing_checked_end_of_subtransaction(SubTransactionId subid,
												  SubTransactionId parent,
												  bool committed);

#endif /* FENCING_MARK_H */
