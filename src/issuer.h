/*-------------------------------------------------------------------------
 *
 * issuer.h
 *		The database's own source of tokens.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_ISSUER_H
#define FENCING_ISSUER_H

/*
 * Has fencing.next_token reached this number?  *last is the last one handed
 * out as far as it was read (at least that of the answer).  Needs no right of
 * the caller; takes a lock on the sequence's relation.
 */
extern bool fencing_issuer_reached(int64 token, int64 *last);

#endif /* FENCING_ISSUER_H */
