/*-------------------------------------------------------------------------
 *
 * command.h
 *		Commands as bytes, and the scripts.
 *
 * Everything is allocated in the current memory context.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_REDIS_COMMAND_H
#define FENCING_REDIS_COMMAND_H

#include "lib/stringinfo.h"

typedef struct Bytes
{
	const char *data;
	size_t len;
} Bytes;

/* What is sent, and what instead of it to a server without the script. */
typedef struct Command
{
	Bytes bytes;
	Bytes in_full; /* data NULL where it is no script */
} Command;

typedef enum Script
{
	SCRIPT_ACQUIRE, /* lock, counter; holder, ttl: {0, ms left}, {1 or 2, counter} */
	SCRIPT_RENEW,	/* lock, counter; holder, token, ttl: 1 or 0 */
	SCRIPT_RELEASE, /* lock, counter; holder, token or '': 1 or 0 */
	SCRIPT_RAISE	/* counter; token */
} Script;

#define SCRIPTS (SCRIPT_RAISE + 1)

extern Bytes bytes_of(const char *text);

/* Appends a command of words that have no NUL in them. */
extern void command_append(StringInfo data, int nwords, ...);

/* A command that is no script. */
extern Command command_words(int nwords, ...);

/* A call of a script; the first nkeys arguments are keys. */
extern Command command_script(Script script, int nkeys, int nargs,
							  const Bytes *args);

#endif /* FENCING_REDIS_COMMAND_H */
