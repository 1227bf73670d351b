/*-------------------------------------------------------------------------
 *
 * issuer.h
 *		The database's own source of tokens.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_ISSUER_H
#define FENCING_ISSUER_H

#include "resource.h"

/*
 * Has fencing.next_token reached this number?  *last is the last one handed
 * out as far as it was read (at least that of the answer).  Needs no right of
 * the caller; takes a lock on the sequence's relation.
 */
extern bool fencing_issuer_reached(int64 token, int64 *last);

/*
 * Takes the next token for a resource: larger than every one handed out
 * before, than "last", and than the resource's mark.  The caller keeps others
 * from taking one for the same resource until its transaction ends, and writes
 * it to fencing.issued.  It is never handed out again, however this
 * transaction ends or the server does; the commit will be synchronous.  Takes
 * a lock on the sequence, and gives it back.  Raises ZF006 if there is none.
 */
extern int64 fencing_issue_token(const ResourceName *name, int64 last);

/*
 * The same for a command: there is no mark to look at, no row to write, and
 * nobody waits for a synchronous commit.  The caller keeps others from taking
 * one for the same command.  What is not "durable" may be handed out again
 * after a crash that took back the transaction as well.
 */
extern int64 fencing_issue_command_token(const char *command, int64 last,
										 bool durable);

#endif /* FENCING_ISSUER_H */
