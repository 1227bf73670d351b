/*-------------------------------------------------------------------------
 *
 * waiter.h
 *		Waiting for a lease that somebody else holds.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_REDIS_WAITER_H
#define FENCING_REDIS_WAITER_H

#include "quorum.h"

typedef struct Waiter
{
	Server *server;
	const LeaseKey *key;
	RedisNode *node; /* where it listens; a copy, with a connection of its own */
	bool asked;		 /* to subscribe */
	bool subscribed;
	int nodes_tried;
	int64 nap;		  /* microseconds of the last one, before jitter */
	int64 tries_from; /* for the limit on tries after a release */
	int tries;
} Waiter;

/* Allocates in the current context; sends nothing. */
extern void waiter_init(Waiter *waiter, Server *server, const LeaseKey *key);

/*
 * Returns when it is worth while to try again, and at "until" at the latest.
 * left: microseconds of the lease in the way, -1 if that is not known.
 * Honours interrupts.
 */
extern void waiter_sleep(Waiter *waiter, int64 left, int64 until);

/* Stops listening.  Safe to be called after an error, and twice. */
extern void waiter_end(Waiter *waiter);

#endif /* FENCING_REDIS_WAITER_H */
