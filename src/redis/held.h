/*-------------------------------------------------------------------------
 *
 * held.h
 *		The leases that this session holds, and their release.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_REDIS_HELD_H
#define FENCING_REDIS_HELD_H

#include "access/xact.h"
#include "datatype/timestamp.h"
#include "lib/ilist.h"

#include "quorum.h"

typedef struct Held
{
	dlist_node node;
	uint64 server_id;
	char *server_name;
	LeaseKey key;
	int64 token;
	bool transaction;		/* ends with the transaction, else the session */
	SubTransactionId subid; /* ... with this part of it */
	bool unreleased;		/* over, but the server could not be told yet */
	TimestampTz acquired_at;
	TimestampTz expires_at;
	int64 valid_until; /* by clock_now() */
	Bytes release;	   /* the command, ready to be sent */
	MemoryContext context;
} Held;

extern void held_init(void);

/*
 * A lease that is about to be acquired, with copies of everything.  It counts
 * from held_add() on, which cannot fail; held_free() is for one that was not
 * granted.  held_set_token() prepares its release.
 */
extern Held *held_prepare(const Server *server, const char *resource,
						  const char *holder);
extern void held_set_token(Held *held, int64 token);
extern void held_add(Held *held, Server *server, bool transaction);
extern void held_free(Held *held);

/* It is the same lease as another one that has just been acquired again. */
extern void held_continue(Held *held, const Held *before);

/* Not any more; frees it. */
extern void held_remove(Held *held);

/* NULL if there is none.  holder or token (0) may be left out. */
extern Held *held_find(const Server *server, const char *resource,
					   const char *holder, int64 token);

/* All of them: NULL first, then the last one. */
extern Held *held_next(Held *held);

/* Is it in force, as far as this session knows? */
extern bool held_valid(const Held *held);

/* Tells a server again that could not be told of a release. */
extern void held_release_again(Server *server);

#endif /* FENCING_REDIS_HELD_H */
