/*-------------------------------------------------------------------------
 *
 * held.c
 *		The leases that this session holds, and their release.
 *
 * A lease of the transaction is released when the transaction is over, and not
 * before: the next holder must find what this one has committed.  That is in
 * the COMMIT and ABORT callbacks, where nothing may fail, wait or take long:
 * others queue for the locks that are still held, and an error would bring the
 * whole server down.  So the command has been made when the lease was granted,
 * and one send() puts it into the socket; nobody waits for the reply.
 *
 * What needs time is done where there is some.  Before the commit, connections
 * that are down are opened, so that there is something to send on.  After an
 * interrupt, a connection whose reply was being waited for is kept open to be
 * written to (wire.c).  If nothing helps, the failure is a warning, and the
 * server is told when it is used the next time; until then, and at most to the
 * end of its ttl, the lease is in the way of others.
 *
 * A lease belongs to the subtransaction that acquired it, and passes to its
 * parent, as locks do.  Leases of the session know nothing of transactions:
 * a rollback does not undo them.
 *
 * At the end of the session all are released, by sends alone where the
 * connections are up, else within EXIT_TIME.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "held.h"
#include "refusal.h"
#include "wire.h"

#define EXIT_TIME (800 * USECS_PER_MSEC)
#define RECONNECT_TIME (100 * USECS_PER_MSEC) /* before a commit */

static dlist_head held_leases = DLIST_STATIC_INIT(held_leases);
static int transaction_leases = 0;
static bool exit_registered = false;

static void xact_callback(XactEvent event, void *arg);
static void subxact_callback(SubXactEvent event, SubTransactionId subid,
							 SubTransactionId parent, void *arg);
static void before_commit(void);
static void after_end(void);
static void end_lease(Held *held);
static void at_exit(int code, Datum arg);

void
held_init(void)
{
	RegisterXactCallback(xact_callback, NULL);
	RegisterSubXactCallback(subxact_callback, NULL);
}

Held *
held_prepare(const Server *server, const char *resource, const char *holder)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "fencing_redis lease",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	Held *held = palloc0(sizeof(Held));

	/* a library loaded by the postmaster could not do that at its start */
	if (!exit_registered)
		before_shmem_exit(at_exit, (Datum) 0);
	exit_registered = true;
	held->context = context;
	held->server_id = server->id;
	held->server_name = pstrdup(server->name);
	lease_key_init(&held->key, server, pstrdup(resource), pstrdup(holder));
	MemoryContextSwitchTo(old);
	return held;
}

void
held_set_token(Held *held, int64 token)
{
	MemoryContext old = MemoryContextSwitchTo(held->context);

	held->token = token;
	held->release = lease_key_release(&held->key, token);
	MemoryContextSwitchTo(old);
}

void
held_add(Held *held, Server *server, bool transaction)
{
	held->transaction = transaction;
	held->subid = GetCurrentSubTransactionId();
	if (transaction)
	{
		server->transaction_leases++;
		transaction_leases++;
	}
	MemoryContextSetParent(held->context, TopMemoryContext);
	dlist_push_tail(&held_leases, &held->node);
}

void
held_free(Held *held)
{
	MemoryContextDelete(held->context);
}

/* What was to last longer does, and what came before a savepoint did. */
void
held_continue(Held *held, const Held *before)
{
	held->acquired_at = before->acquired_at;
	if (held->transaction && before->transaction)
		held->subid = before->subid;
	else if (held->transaction)
		end_lease(held);
}

void
held_remove(Held *held)
{
	if (held->transaction)
		end_lease(held);
	dlist_delete(&held->node);
	MemoryContextDelete(held->context);
}

Held *
held_find(const Server *server, const char *resource, const char *holder,
		  int64 token)
{
	Held *held = NULL;

	while ((held = held_next(held)) != NULL)
		if (held->server_id == server->id && !held->unreleased &&
			(token == 0 || held->token == token) &&
			strcmp(held->key.resource, resource) == 0 &&
			(holder == NULL || strcmp(held->key.holder, holder) == 0))
			return held;
	return NULL;
}

Held *
held_next(Held *held)
{
	if (held == NULL)
		return dlist_is_empty(&held_leases)
			? NULL
			: dlist_head_element(Held, node, &held_leases);
	return dlist_has_next(&held_leases, &held->node)
		? dlist_container(Held, node,
						  dlist_next_node(&held_leases, &held->node))
		: NULL;
}

bool
held_valid(const Held *held)
{
	return !held->unreleased && clock_now() < held->valid_until;
}

void
held_release_again(Server *server)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &held_leases)
	{
		Held *held = dlist_container(Held, node, iter.cur);

		/* one that is over is forgotten here, too */
		if (clock_now() >= held->valid_until
				? !held->transaction
				: held->unreleased && held->server_id == server->id &&
					quorum_send_and_forget(server, &held->release) >=
						server_quorum(server))
			held_remove(held);
	}
}

/* ---------------------------------------------------------------------------
 * The end of transactions
 * ---------------------------------------------------------------------------
 */

static void
xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			before_commit();
			break;
		case XACT_EVENT_PRE_PREPARE:
			if (transaction_leases > 0)
			{
				Held *held = NULL;

				while ((held = held_next(held)) != NULL)
					if (held->transaction)
						refuse_prepare(held->key.resource);
			}
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			after_end();
			quorum_flush();
			wire_close_kept();
			server_end_of_transaction();
			break;
		default:
			/* no lease is acquired in a parallel worker */
			break;
	}
}

/* Sees to it that there are connections to release on. */
static void
before_commit(void)
{
	Server *server = NULL;

	if (transaction_leases == 0)
		return;
	while ((server = server_next(server)) != NULL)
		if (server->transaction_leases > 0)
			quorum_connect(server, RECONNECT_TIME);
}

/* Must not raise, wait or allocate. */
static void
after_end(void)
{
	dlist_mutable_iter iter;

	if (transaction_leases == 0)
		return;
	dlist_foreach_modify(iter, &held_leases)
	{
		Held *held = dlist_container(Held, node, iter.cur);
		Server *server;

		if (!held->transaction)
			continue;
		server = server_by_id(held->server_id);
		if (server != NULL &&
			quorum_send_and_forget(server, &held->release) >=
				server_quorum(server))
			held_remove(held);
		else
		{
			end_lease(held);
			held->unreleased = true;
			if (clock_now() < held->valid_until)
				warn_not_released(held->key.resource, held->server_name);
		}
	}
}

/* It is no lease of the transaction any more. */
static void
end_lease(Held *held)
{
	Server *server = server_by_id(held->server_id);

	if (server != NULL)
		server->transaction_leases--;
	held->transaction = false;
	transaction_leases--;
}

static void
subxact_callback(SubXactEvent event, SubTransactionId subid,
				 SubTransactionId parent, void *arg)
{
	dlist_mutable_iter iter;

	if (event != SUBXACT_EVENT_COMMIT_SUB && event != SUBXACT_EVENT_ABORT_SUB)
		return;
	if (transaction_leases == 0)
		return;
	dlist_foreach_modify(iter, &held_leases)
	{
		Held *held = dlist_container(Held, node, iter.cur);
		Server *server;

		if (!held->transaction || held->subid != subid)
			continue;
		if (event == SUBXACT_EVENT_COMMIT_SUB)
		{
			held->subid = parent;
			continue;
		}
		server = server_by_id(held->server_id);
		if (server != NULL &&
			quorum_send_and_forget(server, &held->release) >=
				server_quorum(server))
			held_remove(held);
		else
		{
			end_lease(held);
			held->unreleased = true;
		}
	}
	if (transaction_leases == 0)
		wire_close_kept();
}

/* ---------------------------------------------------------------------------
 * The end of the session
 * ---------------------------------------------------------------------------
 */

/*
 * Before the transaction that may be open is rolled back.  Its own leases wait
 * for that; those of the session need not: what it wrote will not be there.
 */
static void
at_exit(int code, Datum arg)
{
	int64 deadline = clock_now() + EXIT_TIME;
	Held *held = NULL;

	quorum_at_exit();
	while ((held = held_next(held)) != NULL)
	{
		Server *server = server_by_id(held->server_id);

		if (held->transaction || server == NULL ||
			clock_now() >= held->valid_until)
			continue;
		if (quorum_send_and_forget(server, &held->release) >=
			server_quorum(server))
			continue;
		if (clock_now() < deadline)
		{
			quorum_connect(server, deadline - clock_now());
			(void) quorum_send_and_forget(server, &held->release);
		}
	}
}
