/*-------------------------------------------------------------------------
 *
 * quorum.h
 *		What the nodes of a server decide together about one lease.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_REDIS_QUORUM_H
#define FENCING_REDIS_QUORUM_H

#include "command.h"
#include "server.h"

#define NAME_MAX_BYTES 512 /* of resources and holders */

/* A lease as Redis knows it. */
typedef struct LeaseKey
{
	char *resource;
	char *holder; /* value of the lock */
	Bytes lock;	  /* keys */
	Bytes counter;
	Bytes undo; /* command that releases it whatever its token */
} LeaseKey;

typedef enum Decision
{
	DECISION_YES,
	DECISION_NO, /* held by somebody else; or not held by this holder */
	DECISION_TOO_LATE,
	DECISION_UNKNOWN /* too few nodes have an answer: "problem" */
} Decision;

typedef struct Verdict
{
	Decision decision;
	bool again;		   /* the holder had it already */
	int64 counter;	   /* the highest one, at least 0 */
	int64 left;		   /* microseconds of somebody else's, -1 unknown */
	int64 valid_until; /* by clock_now() */
	char *problem;
	char word[24];
} Verdict;

/*
 * The keys of a resource on a server, and the command that takes a grant back.
 * Raises 22023 if they would be those of another resource.  Allocates in the
 * current context.
 */
extern void lease_key_init(LeaseKey *key, const Server *server, char *resource,
						   char *holder);

/* The command that releases a lease, in full. */
extern Bytes lease_key_release(const LeaseKey *key, int64 token);

/*
 * Each asks all nodes, and honours interrupts.  Whatever else than a yes or an
 * error comes of an acquire, the holder's value is taken back from every node.
 */
extern void quorum_acquire(Server *server, const LeaseKey *key, int64 ttl_ms,
						   Verdict *verdict);
extern void quorum_renew(Server *server, const LeaseKey *key, int64 token,
						 int64 ttl_ms, Verdict *verdict);
extern void quorum_release(Server *server, const LeaseKey *key, int64 token,
						   Verdict *verdict);

/*
 * After a yes: the lease is noted, or was given up.  Until then the end of the
 * session takes it back.  The key must live as long.
 */
extern void quorum_settled(void);

/*
 * Raises the counters to the token, without waiting: together with the next
 * command, or by quorum_flush() at the end of the transaction.
 */
extern void quorum_raise(Server *server, const LeaseKey *key, int64 token);

/* Sends what was left for later.  Does not wait, allocate or raise anything. */
extern void quorum_flush(void);

/*
 * Sends a command to every node with a connection, without waiting, without
 * allocating, without raising anything.  How many could be told; a connection
 * that was given up after an interrupt counts.
 */
extern int quorum_send_and_forget(Server *server, const Bytes *command);

/* At the end of the process: takes back what was being acquired. */
extern void quorum_at_exit(void);

/* Opens the connections that are down, if they can be within that time. */
extern void quorum_connect(Server *server, int64 microseconds);

#endif /* FENCING_REDIS_QUORUM_H */
