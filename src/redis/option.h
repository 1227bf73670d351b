/*-------------------------------------------------------------------------
 *
 * option.h
 *		Options of servers and user mappings.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_REDIS_OPTION_H
#define FENCING_REDIS_OPTION_H

#include "nodes/pg_list.h"

#define MAX_NODES 31
#define DEFAULT_PORT 6379

/* Where a node listens. */
typedef struct Address
{
	char *name; /* as messages call it: "host:port", or the path */
	char *host; /* a name or an address; NULL if path is set */
	char *path; /* of a socket */
	int port;
} Address;

typedef struct Options
{
	int naddresses;
	Address addresses[MAX_NODES];
	int database;
	int connect_timeout; /* ms */
	int command_timeout; /* ms */
	char *lock_prefix;
	char *token_prefix;
	bool hash_tag;
	int replicas;		 /* that must have a grant; 0: do not ask */
	int replica_timeout; /* ms */
	bool tls;
	char *tls_ca; /* file names; NULL for the default or none */
	char *tls_cert;
	char *tls_key;
	/* of the user mapping */
	char *user;		/* NULL: the default user */
	char *password; /* NULL: none */
	bool password_required;
} Options;

/*
 * Reads the options (lists of DefElem) of a server and of a user mapping into
 * *options, all of it allocated in the current context.  Raises 22023, or
 * HV00D for a name that is unknown.  Takes no lock, reads no catalog.
 */
extern void option_read(List *server, List *mapping, Options *options);

/*
 * Reads one address from text, which ends at "end".  false if it is none; then
 * *problem is a clause that says why.  Allocates in the current context.
 */
extern bool option_address(const char *text, const char *end, Address *address,
						   const char **problem);

#endif /* FENCING_REDIS_OPTION_H */
