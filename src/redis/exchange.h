/*-------------------------------------------------------------------------
 *
 * exchange.h
 *		One command to each of several nodes, and their answers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_REDIS_EXCHANGE_H
#define FENCING_REDIS_EXCHANGE_H

#include "command.h"
#include "wire.h"

typedef enum CallState
{
	CALL_TO_SEND, /* its connection may not be ready yet */
	CALL_SENT,
	CALL_ANSWERED, /* "code" and "number" are what read() made of it */
	CALL_FAILED	   /* "problem" is a clause that says why */
} CallState;

typedef struct Call
{
	RedisNode *node;		/* to be asked */
	const Command *command; /* with this */
	Bytes undo;				/* sent after it if its reply is not waited for */
	int64 extra_time;		/* microseconds beyond command_timeout */

	/*
	 * Reads an answer that is no error, without allocating or raising
	 * anything.  false: it is not of the kind that was expected.
	 */
	bool (*read)(struct Call *call, const redisReply *reply);

	/* for exchange.c */
	CallState state;
	RedisNode *target; /* the one asked, after a redirection another one */
	int redirects;
	bool asking;  /* the redirection is for this one time */
	bool opened;  /* its connection was opened for it */
	bool in_full; /* the server did not know the script */
	int64 deadline;

	/* results */
	bool sent;		/* it may have reached the node */
	bool timed_out; /* failed, and may be carried out yet */
	int64 sent_at;
	int64 answered_at;
	int code;
	int64 number;
	void *result;  /* for read(), from the caller */
	char word[24]; /* of an error that the server answered with, else "" */
	char problem[PROBLEM_SIZE];
} Call;

/* Sets up a call; the rest is zero. */
extern void call_init(Call *call, RedisNode *node, const Command *command,
					  bool (*read)(Call *call, const redisReply *reply));

/* May the exchange end?  Asked after each answer. */
typedef enum Enough
{
	ENOUGH_NOT,
	ENOUGH_SOON, /* give the others a moment more */
	ENOUGH_NOW
} Enough;

typedef Enough (*EnoughFunction)(const Call *calls, int ncalls);

/*
 * Makes the calls, all at once, and returns when each has an answer or has
 * failed, when "enough" says so, or at "deadline" (0: none but those of
 * connections and commands).  A call that is not waited for any more is left
 * in the state it is in.
 *
 * Honours interrupts.  Raises nothing else but out of memory.  An error leaves
 * no connection behind whose reply is owed; what was sent is undone there.
 */
extern void exchange(Call *calls, int ncalls, EnoughFunction enough,
					 int64 deadline);

/* Waits on the latch and, if it is not NULL, a connection; honours interrupts. */
extern void exchange_wait(Wire *wire, int64 until);

#endif /* FENCING_REDIS_EXCHANGE_H */
