/*-------------------------------------------------------------------------
 *
 * server.c
 *		A foreign server as the current user may use it, and its connections.
 *
 * A Server is what the catalogs say of a foreign server and of one user's
 * mapping, in a memory context of its own, with a connection for each node.
 * One session has few of them, in a list.
 *
 * When the catalogs change, an invalidation marks it stale, and nothing else:
 * that can come at any time.  A stale one is not given out any more; the next
 * call reads the catalogs and gets a new one.  It is closed and freed at the
 * end of the transaction, because leases that end with the transaction are
 * released on its connections.
 *
 * The right to use a server is checked at each call, since it may have been
 * withdrawn, and the user may be another one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "../compat.h"
#include "refusal.h"
#include "server.h"
#include "wire.h"

#define MAX_REDIRECT_NODES 64

static slist_head servers = SLIST_STATIC_INIT(servers);
static uint64 last_id = 0;

static Server *read_server(Oid serverid, Oid userid);
static void invalidate(Datum arg, FENCING_CACHE_ID cacheid, uint32 hashvalue);
static void free_server(Server *server);

void
server_init(void)
{
	CacheRegisterSyscacheCallback(FOREIGNSERVEROID, invalidate, (Datum) 0);
	CacheRegisterSyscacheCallback(USERMAPPINGOID, invalidate, (Datum) 0);
}

Server *
server_get(const char *name)
{
	Oid serverid = get_foreign_server_oid(name, false);
	Oid userid = GetUserId();
	AclResult acl = fencing_server_usage(serverid);
	Server *server = NULL;

	if (acl != ACLCHECK_OK)
		aclcheck_error(acl, OBJECT_FOREIGN_SERVER, name);
	while ((server = server_next(server)) != NULL)
		if (server->serverid == serverid && server->userid == userid &&
			!server->stale)
			break;
	if (server == NULL)
		server = read_server(serverid, userid);

	/* whether somebody is a superuser may change, too */
	if (!superuser_arg(userid) && server->options.password == NULL &&
		server->options.password_required)
		refuse_no_password(name);
	return server;
}

/* From the catalogs, into the list. */
static Server *
read_server(Oid serverid, Oid userid)
{
	ForeignServer *foreign = GetForeignServer(serverid);
	ForeignDataWrapper *wrapper = GetForeignDataWrapper(foreign->fdwid);
	UserMapping *mapping;
	MemoryContext context;
	MemoryContext old;
	Server *server;

	if (!OidIsValid(wrapper->fdwvalidator) ||
		get_func_namespace(wrapper->fdwvalidator) !=
			get_namespace_oid("fencing_redis", true))
		refuse_server_kind(foreign->servername);
	mapping = GetUserMapping(userid, serverid);

	/* the current context's, until nothing can fail any more */
	context = AllocSetContextCreate(CurrentMemoryContext,
									"fencing_redis server",
									ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(context);
	server = palloc0(sizeof(Server));
	server->context = context;
	server->serverid = serverid;
	server->userid = userid;
	server->name = pstrdup(foreign->servername);
	server->server_hash = GetSysCacheHashValue1(FOREIGNSERVEROID,
												ObjectIdGetDatum(serverid));
	server->mapping_hash = GetSysCacheHashValue1(USERMAPPINGOID,
												 ObjectIdGetDatum(
													 mapping->umid));
	option_read(foreign->options, mapping->options, &server->options);

	server->nnodes = server->options.naddresses;
	server->nodes = palloc0(server->nnodes * sizeof(RedisNode));
	for (int i = 0; i < server->nnodes; i++)
	{
		server->nodes[i].server = server;
		server->nodes[i].address = server->options.addresses[i];
	}
	MemoryContextSwitchTo(old);

	server->id = ++last_id;
	MemoryContextSetParent(context, TopMemoryContext);
	slist_push_head(&servers, &server->link);
	return server;
}

Server *
server_by_id(uint64 id)
{
	Server *server = NULL;

	while ((server = server_next(server)) != NULL)
		if (server->id == id)
			break;
	return server;
}

Server *
server_next(const Server *server)
{
	slist_node *next = server == NULL ? servers.head.next : server->link.next;

	return next == NULL ? NULL : slist_container(Server, link, next);
}

RedisNode *
server_redirect(Server *server, const char *host_port, const RedisNode *from)
{
	MemoryContext old;
	Address address;
	const char *problem;
	const char *colon = strrchr(host_port, ':');
	char full[300];
	RedisNode *node = NULL;
	ListCell *cell;
	bool good;

	if (colon == NULL || strlen(host_port) > 255)
		return NULL;
	/* it becomes part of messages, and a server may send anything */
	for (const char *p = host_port; *p != '\0'; p++)
		if ((unsigned char) *p <= ' ' || (unsigned char) *p > '~')
			return NULL;
	if (colon == host_port) /* the host stays the same */
	{
		/* ... which one that is reached by a path does not tell */
		if (from->address.host == NULL)
			return NULL;
		snprintf(full, sizeof(full),
				 strchr(from->address.host, ':') ? "[%s]%s" : "%s%s",
				 from->address.host, host_port);
	}
	else if (memchr(host_port, ':', colon - host_port) != NULL &&
			 *host_port != '[')
		snprintf(full, sizeof(full), "[%.*s]%s", (int) (colon - host_port),
				 host_port, colon);
	else
		strlcpy(full, host_port, sizeof(full));

	old = MemoryContextSwitchTo(server->context);
	good = option_address(full, full + strlen(full), &address, &problem) &&
		address.path == NULL;
	if (good)
	{
		for (int i = 0; node == NULL && i < server->nnodes; i++)
			if (strcmp(server->nodes[i].address.name, address.name) == 0)
				node = &server->nodes[i];
		foreach(cell, server->redirects)
		{
			RedisNode *known = lfirst(cell);

			if (node == NULL && strcmp(known->address.name, address.name) == 0)
				node = known;
		}
		if (node == NULL &&
			list_length(server->redirects) < MAX_REDIRECT_NODES)
		{
			node = palloc0(sizeof(RedisNode));
			node->server = server;
			node->address = address;
			node->redirect = true;
			server->redirects = lappend(server->redirects, node);
		}
		else
		{
			pfree(address.host);
			pfree(address.name);
		}
	}
	MemoryContextSwitchTo(old);
	return node;
}

void
server_disconnect(Server *server)
{
	ListCell *cell;

	for (int i = 0; i < server->nnodes; i++)
		if (server->nodes[i].wire != NULL)
			wire_close(server->nodes[i].wire, server->transaction_leases > 0);
	foreach(cell, server->redirects)
	{
		RedisNode *node = lfirst(cell);

		if (node->wire != NULL)
			wire_close(node->wire, server->transaction_leases > 0);
	}
}

void
server_end_of_transaction(void)
{
	slist_mutable_iter iter;

	slist_foreach_modify(iter, &servers)
	{
		Server *server = slist_container(Server, link, iter.cur);

		if (server->stale)
		{
			slist_delete_current(&iter);
			free_server(server);
		}
	}
}

static void
free_server(Server *server)
{
	server->transaction_leases = 0;
	server_disconnect(server);
	if (server->options.password != NULL)
		explicit_bzero(server->options.password,
					   strlen(server->options.password));
	MemoryContextDelete(server->context);
}

/* A server or a user mapping has changed; 0: any of them may have. */
static void
invalidate(Datum arg, FENCING_CACHE_ID cacheid, uint32 hashvalue)
{
	Server *server = NULL;

	while ((server = server_next(server)) != NULL)
		if (hashvalue == 0 ||
			hashvalue ==
				(cacheid == FOREIGNSERVEROID ? server->server_hash
											 : server->mapping_hash))
			server->stale = true;
}
