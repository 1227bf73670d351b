/*-------------------------------------------------------------------------
 *
 * waiter.c
 *		Waiting for a lease that somebody else holds.
 *
 * Who releases a lease with this module says so on the channel that has the
 * lock's name, and says how many are listening.  So a waiter listens, on a
 * connection of its own, to the first node that lets it.  It has to look again
 * after it began to listen, or it would miss a release in between.
 *
 * Not all of those who listen may try at once: with many of them that would
 * be a crowd that keeps Redis busy with saying no.  With up to CROWD of them
 * each tries; of more, each tries with such a chance that about CROWD do, in a
 * random order.  Once in a while nobody does; then the naps below find it.
 *
 * Other clients release without a word, and leases end by themselves.  So a
 * waiter looks from time to time: after naps that grow to LONGEST_NAP, each of
 * a random length, and just after the lease in the way has run out.  A node's
 * refusal to let anybody listen costs speed alone.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "miscadmin.h"

#include "clock.h"
#include "exchange.h"
#include "waiter.h"

#define SHORTEST_NAP (20 * USECS_PER_MSEC)
#define LONGEST_NAP (250 * USECS_PER_MSEC)
#define AFTER_EXPIRY (10 * USECS_PER_MSEC) /* random, up to */
#define CROWD 3
#define CROWD_SPREAD (1 * USECS_PER_MSEC)
#define TRIES_PER_SECOND 10 /* after a release */

static void listen_to_next_node(Waiter *waiter);
static bool hear(Waiter *waiter, int *listeners);
static bool may_try(Waiter *waiter, int64 now);
static int64 random_up_to(int64 limit);

void
waiter_init(Waiter *waiter, Server *server, const LeaseKey *key)
{
	memset(waiter, 0, sizeof(*waiter));
	waiter->server = server;
	waiter->key = key;
	waiter->nap = SHORTEST_NAP;
}

void
waiter_sleep(Waiter *waiter, int64 left, int64 until)
{
	int64 now = clock_now();
	int64 wake = now + waiter->nap / 2 + random_up_to(waiter->nap);
	bool was_subscribed = waiter->subscribed;

	waiter->nap = Min(waiter->nap * 2, LONGEST_NAP);
	if (left >= 0)
		wake = Min(wake, now + left + random_up_to(AFTER_EXPIRY));
	wake = Min(wake, until);
	if (waiter->node == NULL)
		listen_to_next_node(waiter);

	while ((now = clock_now()) < wake)
	{
		int listeners;
		Wire *wire = waiter->node != NULL ? waiter->node->wire : NULL;

		if (wire != NULL && hear(waiter, &listeners) && may_try(waiter, now))
		{
			if (listeners <= 1)
				return;
			if (listeners <= CROWD || random_up_to(listeners) < CROWD)
				wake = Min(wake, now + random_up_to(CROWD_SPREAD));
		}
		if (waiter->subscribed && !was_subscribed)
			return;
		exchange_wait(waiter->node != NULL ? waiter->node->wire : NULL, wake);
	}
}

/* The nodes are tried in turn, beginning with a random one. */
static void
listen_to_next_node(Waiter *waiter)
{
	Server *server = waiter->server;
	RedisNode *node;

	if (waiter->nodes_tried >= server->nnodes)
		return;
	if (waiter->nodes_tried == 0)
		waiter->tries = 0;
	node = palloc0(sizeof(RedisNode));
	*node = server->nodes[(waiter->nodes_tried +
						   (waiter->key->lock.len + (size_t) MyProcPid)) %
						  server->nnodes];
	waiter->nodes_tried++;
	node->wire = NULL;
	node->redirect = true; /* it has no vote */
	waiter->node = node;
	(void) wire_open(node);
}

/*
 * Goes on with listening.  true: somebody has released the lease, and there
 * are so many to hear of it.
 */
static bool
hear(Waiter *waiter, int *listeners)
{
	Wire *wire = waiter->node->wire;
	redisReply *reply;
	bool heard = false;

	wire_step(wire);
	if (wire->state == WIRE_READY && !waiter->asked)
	{
		StringInfoData data;

		waiter->asked = true;
		initStringInfo(&data);
		command_append(&data, 2, "SUBSCRIBE", waiter->key->lock.data);
		(void) wire_send(wire, data.data, data.len);
		pfree(data.data);
	}
	if (wire->state == WIRE_READY)
	{
		wire_flush(wire);
		while (!heard && (reply = wire_receive(wire, true)) != NULL)
		{
			if (reply->type == REDIS_REPLY_ERROR)
				wire_fail(wire, "does not let anybody listen");
			else if (reply->type == REDIS_REPLY_ARRAY &&
					 reply->elements == 3 &&
					 reply->element[0]->type == REDIS_REPLY_STRING &&
					 reply->element[2]->type == REDIS_REPLY_STRING)
			{
				heard = true;
				*listeners = Max(atoi(reply->element[2]->str), 1);
			}
			else
				waiter->subscribed = true;
			freeReplyObject(reply);
		}
	}
	if (wire->state == WIRE_FAILED)
	{
		waiter_end(waiter);
		listen_to_next_node(waiter);
	}
	return heard;
}

/* So that frequent releases do not make a waiter busy. */
static bool
may_try(Waiter *waiter, int64 now)
{
	if (now - waiter->tries_from > USECS_PER_SEC)
	{
		waiter->tries_from = now;
		waiter->tries = 0;
	}
	return waiter->tries++ < TRIES_PER_SECOND;
}

void
waiter_end(Waiter *waiter)
{
	if (waiter->node != NULL && waiter->node->wire != NULL)
		wire_close(waiter->node->wire, false);
	waiter->node = NULL;
	waiter->asked = false;
	waiter->subscribed = false;
}

static int64
random_up_to(int64 limit)
{
	return (int64) pg_prng_uint64_range(&pg_global_prng_state, 0,
										(uint64) limit - 1);
}
