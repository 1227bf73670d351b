/*-------------------------------------------------------------------------
 *
 * tokens.h
 *		Tokens that the current transaction presents.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_TOKENS_H
#define FENCING_TOKENS_H

#include "datatype/timestamp.h"

#include "resource.h"

/* Changes whenever the set of presented tokens may have changed. */
extern uint64 fencing_tokens_generation;

/* The number of presented tokens; none is the usual case.  Read it only. */
extern int fencing_tokens_count;

/*
 * The token presented for a resource, 0 if none.  No allocation, no lock, no
 * error.
 */
extern int64 fencing_token_for(const char *name, int len);

/*
 * Is any token presented for a resource whose name begins with these bytes?
 * Lets the guard skip making names nobody presented.
 */
extern bool fencing_tokens_with_prefix(const char *prefix, int len);

/* A resource and its token, as an argument of present and claim gave them. */
typedef struct TokenArg
{
	ResourceName name;
	int64 token;
} TokenArg;

/*
 * Reads the arguments (resource, token) or (resources, tokens) of a function
 * into an array sorted by name, without doubles, allocated in
 * CurrentMemoryContext.  Raises 22023 for what is not well formed.
 */
extern TokenArg *fencing_token_args(FunctionCallInfo fcinfo, bool arrays,
									int *count);

/* Reads an argument "token"; raises 22023 if it is NULL or below 1. */
extern int64 fencing_token_arg(FunctionCallInfo fcinfo, int argno);

/* Presents tokens for the rest of the transaction (SET LOCAL). */
extern void fencing_present(const TokenArg *args, int count);

extern void fencing_tokens_init(void);

#endif /* FENCING_TOKENS_H */
