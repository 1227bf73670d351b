/*-------------------------------------------------------------------------
 *
 * claim.h
 *		Raising resource marks before anything is read or written.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_CLAIM_H
#define FENCING_CLAIM_H

#include "tokens.h"

/*
 * Presents tokens, sorted by name, and raises the marks of their resources to
 * them.  Locks the marks to the end of the transaction, in the order of the
 * names, and waits for earlier holders; see fencing_mark_accept() for what it
 * may raise besides a refusal.
 */
extern void fencing_claim_tokens(const TokenArg *args, int count);

#endif /* FENCING_CLAIM_H */
