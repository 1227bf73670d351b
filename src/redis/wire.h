/*-------------------------------------------------------------------------
 *
 * wire.h
 *		One connection to one Redis server, never waiting.
 *
 * No function here blocks.  Only wire_open() allocates in a memory context;
 * none but it can raise an error.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_REDIS_WIRE_H
#define FENCING_REDIS_WIRE_H

#include <hiredis/hiredis.h>

#include "resolve.h"
#include "server.h"

#define PROBLEM_SIZE 320

typedef enum WireState
{
	WIRE_RESOLVING,
	WIRE_CONNECTING,
	WIRE_GREETING, /* login, database */
	WIRE_READY,
	WIRE_FAILED /* "problem" says why */
} WireState;

/* Replies that a greeting waits for. */
typedef enum Greeting
{
	GREETING_AUTH,
	GREETING_SELECT,
	GREETING_INFO
} Greeting;

#define MAX_GREETINGS 3

typedef struct Wire
{
	slist_node link; /* of those that are only to be written to */
	RedisNode *node;
	Server *server;
	WireState state;
	uint64 generation; /* no other connection of the session has it */
	int fd;			   /* -1 if none */
	Resolver *resolver;
	struct addrinfo *addresses;
	struct addrinfo *address; /* the one being tried */
	redisContext *redis;
	void *tls;		/* the session's SSL *, owned by redis */
	int64 deadline; /* to be ready by */
	Greeting greetings[MAX_GREETINGS];
	int ngreetings;
	int greeted;
	int ignored;		 /* replies to come that nobody waits for */
	int64 ignored_since; /* when the oldest of them was asked for */
	bool owed;			 /* a call waits for a reply */
	bool fresh;			 /* has not answered a call yet */
	bool knows_raise;	 /* SCRIPT_RAISE was sent in full */
	bool eof;			 /* failed because the other side closed it */
	bool answered;		 /* failed because of what the other side said */
	char word[24];		 /* then: the first word of its error */
	char problem[PROBLEM_SIZE];
} Wire;

extern bool wire_has_tls(void);

/* Begins to connect; the result is node->wire, whatever becomes of it. */
extern Wire *wire_open(RedisNode *node);

/*
 * Goes on as far as possible without waiting, up to WIRE_READY.  WIRE_FAILED
 * after the deadline.
 */
extern void wire_step(Wire *wire);

/* What to wait for, as WL_SOCKET_ flags; 0: look again in a moment. */
extern uint32 wire_events(const Wire *wire);

/*
 * Is this connection fit for another call?  One that was closed by the other
 * side, or has something to say that nobody asked for, is not.
 */
extern bool wire_alive(Wire *wire);

/* Sends a command, whose reply is then owed.  false: failed. */
extern bool wire_send(Wire *wire, const char *data, size_t len);

/* Goes on writing what is left of a command. */
extern void wire_flush(Wire *wire);

/*
 * The next reply that is not to be ignored, to be freed with freeReplyObject;
 * NULL if it is not there yet, or if the connection failed.  read: ask the
 * socket, else only what was read before.
 */
extern redisReply *wire_receive(Wire *wire, bool read);

/*
 * Sends a command, and nobody waits for its reply.  Neither allocates nor
 * raises anything (with TLS, allocates by malloc).  false: could not be sent.
 */
extern bool wire_send_and_forget(Wire *wire, const char *data, size_t len);

/*
 * The same together with what is sent next, or by wire_flush(): each message
 * that a server is sent alone wakes it up once more.
 */
extern void wire_send_later(Wire *wire, const char *data, size_t len);

/* Nobody waits for the reply that is owed; the connection stays good. */
extern void wire_ignore_owed(Wire *wire);

/* (clang does not know the attribute by the name that the server was built with) */
extern void wire_fail(Wire *wire, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* An error reply as a problem: its text, safe to be shown. */
extern void wire_describe_error(const redisReply *reply, const char *secret,
								char *word, size_t word_size, char *text,
								size_t text_size);

/*
 * Takes the connection from its node.  With keep, it stays open for
 * wire_send_and_forget() until the end of the transaction; nothing is read
 * from it any more.
 */
extern void wire_close(Wire *wire, bool keep);

/* Those kept open; and the closing of all of them. */
extern slist_head wire_kept;
extern void wire_close_kept(void);

#endif /* FENCING_REDIS_WIRE_H */
