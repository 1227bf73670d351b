/*-------------------------------------------------------------------------
 *
 * server.h
 *		A foreign server as the current user may use it, and its connections.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_REDIS_SERVER_H
#define FENCING_REDIS_SERVER_H

#include "lib/ilist.h"
#include "nodes/pg_list.h"

#include "option.h"

struct Wire;

#define RUN_ID_LENGTH 40

/* One Redis server process. */
typedef struct RedisNode
{
	struct Server *server;
	Address address;
	struct Wire *wire;				/* its connection, NULL if there is none */
	char run_id[RUN_ID_LENGTH + 1]; /* "" as long as it is not known */
	bool redirect; /* not of the option: the cluster named it */
} RedisNode;

typedef struct Server
{
	slist_node link;
	uint64 id; /* never used a second time in a session */
	Oid serverid;
	Oid userid;
	uint32 server_hash;	 /* of the catalogs' rows, for invalidation */
	uint32 mapping_hash; /* ... */
	bool stale;			 /* the definition changed: do not use it again */
	char *name;
	Options options;
	int nnodes; /* those of the option */
	RedisNode *nodes;
	List *redirects;		/* of RedisNode * */
	int transaction_leases; /* held to the end of the transaction */
	MemoryContext context;
} Server;

extern void server_init(void);

/*
 * The server of that name for the current user, from the catalogs or, while
 * they have not changed, from the last time.  Raises 42704 where the server
 * or the user mapping does not exist, 42501 without USAGE, 42809 for a server
 * of another kind, 2F003 if the user must have a password.  Sends nothing.
 * Valid to the end of the transaction.
 */
extern Server *server_get(const char *name);

/* NULL if it has gone, with its connections.  No catalog access. */
extern Server *server_by_id(uint64 id);

/* The node that the cluster names as "host:port"; NULL if that is no address. */
extern RedisNode *server_redirect(Server *server, const char *host_port,
								  const RedisNode *from);

/* Every server in the cache: server = NULL first, then the last one. */
extern Server *server_next(const Server *server);

/* How many nodes must agree. */
static inline int
server_quorum(const Server *server)
{
	return server->nnodes / 2 + 1;
}

/*
 * Closes the connections of servers whose definition has changed; at the end
 * of a transaction.  Does not fail.
 */
extern void server_end_of_transaction(void);

/* Closes the connections of a server. */
extern void server_disconnect(Server *server);

#endif /* FENCING_REDIS_SERVER_H */
