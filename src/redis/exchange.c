/*-------------------------------------------------------------------------
 *
 * exchange.c
 *		One command to each of several nodes, and their answers.
 *
 * The one place where fencing_redis waits.  It waits on the backend's latch and
 * on the sockets together, for absolute moments, so a signal neither goes
 * unheard nor prolongs anything.
 *
 * A call goes from TO_SEND (its connection is looked at, opened, greeted)
 * to SENT, and from there to ANSWERED or FAILED, or back to TO_SEND:
 *
 * - NOSCRIPT: the whole script is sent.
 * - MOVED, ASK: the node that the cluster names is asked.
 * - A connection from an earlier call that the other side has just closed is
 *   opened again, once: servers close idle connections, and that is found out
 *   by using them.  So a command may be carried out twice, and must be of the
 *   kind that bears it.
 *
 * The set of sockets to wait for is kept from call to call.  It is built anew
 * when a connection in it is another one than before.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/latch.h"

#include "../compat.h"
#include "clock.h"
#include "exchange.h"

#define MAX_REDIRECTS 5
#define TICK (2 * USECS_PER_MSEC) /* for what has no socket to wait for */
#define GRACE                                                                 \
	(10 *                                                                     \
	 USECS_PER_MSEC) /* for those behind, and twice the time that it took to decide */
#define EVENTS 8 /* looked at in one go */

#define POSITION_LATCH 0
#define POSITION_POSTMASTER 1
#define POSITION_FIRST 2

/* The sockets that were waited for last, by the number of the call. */
static WaitEventSet *wait_set = NULL;
static int wait_count = 0;
static struct
{
	uint64 generation; /* 0: none */
	int position;
	uint32 events;
} waited[MAX_NODES];

static void run(Call *calls, int ncalls, EnoughFunction enough,
				int64 deadline);
static void step(Call *call, bool readable);
static bool prepare_wire(Call *call);
static void send_call(Call *call);
static void take_reply(Call *call, const redisReply *reply);
static void take_error(Call *call, const redisReply *reply);
static void redirect(Call *call, const char *where, bool asking);
static void fail_call(Call *call, const Wire *wire);
static void leave(Call *call, bool failed);
static bool pending(const Call *call);
static int64 next_moment(const Call *calls, int ncalls, int64 deadline);
static void wait_for_calls(Call *calls, int ncalls, int64 until,
						   bool *readable);
static void build_wait_set(Call *calls, int ncalls);
static void drop_wait_set(void);

void
call_init(Call *call, RedisNode *node, const Command *command,
		  bool (*read)(Call *call, const redisReply *reply))
{
	memset(call, 0, sizeof(*call));
	call->node = node;
	call->target = node;
	call->command = command;
	call->read = read;
}

void
exchange(Call *calls, int ncalls, EnoughFunction enough, int64 deadline)
{
	PG_TRY();
	{
		run(calls, ncalls, enough, deadline);
	}
	PG_CATCH();
	{
		for (int i = 0; i < ncalls; i++)
			leave(&calls[i], true);
		drop_wait_set();
		PG_RE_THROW();
	}
	PG_END_TRY();
	for (int i = 0; i < ncalls; i++)
		leave(&calls[i], calls[i].timed_out);
}

static void
run(Call *calls, int ncalls, EnoughFunction enough, int64 deadline)
{
	bool readable[MAX_NODES] = {0};
	bool graced = false;
	int64 begun = clock_now();
	int64 limit;

	for (;;)
	{
		bool any = false;
		int64 now;

		for (int i = 0; i < ncalls; i++)
		{
			step(&calls[i], readable[i]);
			any = any || pending(&calls[i]);
		}
		if (!any)
			return;
		now = clock_now();
		if (enough != NULL)
		{
			Enough verdict = enough(calls, ncalls);

			if (verdict == ENOUGH_NOW)
				return;
			if (verdict == ENOUGH_SOON && !graced)
			{
				graced = true;
				limit = now + GRACE + 2 * (now - begun);
				if (deadline == 0 || deadline > limit)
					deadline = limit;
			}
		}
		if (deadline != 0 && now >= deadline)
			return;
		wait_for_calls(calls, ncalls, next_moment(calls, ncalls, deadline),
					   readable);
	}
}

/* ---------------------------------------------------------------------------
 * A call
 * ---------------------------------------------------------------------------
 */

static bool
pending(const Call *call)
{
	return call->state == CALL_TO_SEND || call->state == CALL_SENT;
}

/* Goes on with a call as far as possible without waiting. */
static void
step(Call *call, bool readable)
{
	while (pending(call))
	{
		Wire *wire;
		redisReply *reply;

		if (call->state == CALL_TO_SEND)
		{
			if (!prepare_wire(call))
				return;
			send_call(call);
			readable = false;
		}

		wire = call->target->wire;
		if (!readable && clock_now() >= call->deadline)
			readable = true; /* the last look */
		wire_flush(wire);
		reply = wire_receive(wire, readable);
		if (reply != NULL)
		{
			call->answered_at = clock_now();
			take_reply(call, reply);
			freeReplyObject(reply);
			continue;
		}
		if (wire->state == WIRE_FAILED)
		{
			if (wire->eof && wire->fresh == false && !call->opened)
			{
				call->opened = true;
				call->state = CALL_TO_SEND;
				(void) wire_open(call->target);
				continue;
			}
			fail_call(call, wire);
			return;
		}
		if (clock_now() >= call->deadline)
		{
			call->timed_out = true;
			call->state = CALL_FAILED;
			snprintf(call->problem, sizeof(call->problem),
					 "no answer within %d ms",
					 (int) ((call->deadline - call->sent_at) /
							USECS_PER_MSEC));
		}
		return;
	}
}

/* Is there a connection that the call can be sent on? */
static bool
prepare_wire(Call *call)
{
	Wire *wire = call->target->wire;

	if (wire == NULL || (!call->opened && !wire_alive(wire)))
	{
		wire = wire_open(call->target);
		call->opened = true;
	}
	wire_step(wire);
	if (wire->state == WIRE_FAILED)
		fail_call(call, wire);
	return wire->state == WIRE_READY;
}

static void
send_call(Call *call)
{
	Wire *wire = call->target->wire;
	const Bytes *bytes = call->in_full ? &call->command->in_full
									   : &call->command->bytes;

	if (call->asking)
	{
		static const char asking[] = "*1\r\n$6\r\nASKING\r\n";

		call->asking = false;
		(void) wire_send_and_forget(wire, asking, sizeof(asking) - 1);
	}
	call->state = CALL_SENT;
	call->sent = true;
	call->sent_at = clock_now();
	call->deadline = call->sent_at + call->extra_time +
		wire->server->options.command_timeout * USECS_PER_MSEC;
	if (wire->state == WIRE_READY)
		(void) wire_send(wire, bytes->data, bytes->len);
}

static void
take_reply(Call *call, const redisReply *reply)
{
	if (reply->type == REDIS_REPLY_ERROR)
		take_error(call, reply);
	else if (call->read(call, reply))
		call->state = CALL_ANSWERED;
	else
	{
		Wire *wire = call->target->wire;

		wire_fail(wire, "does not answer like a Redis server");
		fail_call(call, wire);
	}
}

static void
take_error(Call *call, const redisReply *reply)
{
	Wire *wire = call->target->wire;
	char text[PROBLEM_SIZE - 20];

	if (strncmp(reply->str, "NOSCRIPT", 8) == 0 && !call->in_full &&
		call->command->in_full.data != NULL)
	{
		call->in_full = true;
		call->state = CALL_TO_SEND;
		call->opened = true;
		return;
	}
	if (strncmp(reply->str, "MOVED ", 6) == 0 ||
		strncmp(reply->str, "ASK ", 4) == 0)
	{
		/* "MOVED slot host:port" */
		const char *where = strrchr(reply->str, ' ') + 1;

		if (call->redirects++ < MAX_REDIRECTS)
		{
			redirect(call, where, *reply->str == 'A');
			return;
		}
	}
	wire_describe_error(reply, wire->server->options.password, call->word,
						sizeof(call->word), text, sizeof(text));
	snprintf(call->problem, sizeof(call->problem), "answered: %s", text);
	call->state = CALL_FAILED;
}

static void
redirect(Call *call, const char *where, bool asking)
{
	RedisNode *target = server_redirect(call->node->server, where,
										call->target);

	if (target == NULL)
	{
		snprintf(call->problem, sizeof(call->problem),
				 "named another node that has no address");
		call->state = CALL_FAILED;
		return;
	}
	call->target = target;
	call->opened = false;
	call->asking = asking;
	call->state = CALL_TO_SEND;
}

static void
fail_call(Call *call, const Wire *wire)
{
	call->state = CALL_FAILED;
	strlcpy(call->problem, wire->problem, sizeof(call->problem));
	strlcpy(call->word, wire->word, sizeof(call->word));
	if (call->target != call->node)
	{
		char problem[PROBLEM_SIZE];

		strlcpy(problem, call->problem, sizeof(problem));
		snprintf(call->problem, sizeof(call->problem), "redirected to %s: %s",
				 call->target->address.name, problem);
	}
}

/*
 * Nobody waits for the call any more.  After an error or when it took too long
 * its connection is given up, but what was sent can still be undone on it: a
 * server does one after the other, late as it may be.
 */
static void
leave(Call *call, bool failed)
{
	Wire *wire = call->target->wire;

	if (wire == NULL)
		return;
	if (!failed)
	{
		if (call->state == CALL_SENT)
		{
			wire_ignore_owed(wire);

			/* nobody will hear it say that it does not know the script */
			if (!call->in_full && call->command->in_full.data != NULL)
				(void) wire_send_and_forget(wire, call->command->in_full.data,
											call->command->in_full.len);
		}
		return;
	}
	if (!pending(call) && !call->timed_out)
		return;
	if (wire->owed && call->undo.data != NULL)
		(void) wire_send_and_forget(wire, call->undo.data, call->undo.len);
	wire_close(wire, wire->server->transaction_leases > 0);
}

/* ---------------------------------------------------------------------------
 * Waiting
 * ---------------------------------------------------------------------------
 */

/* The next moment at which a call has to be looked at, whatever happens. */
static int64
next_moment(const Call *calls, int ncalls, int64 deadline)
{
	int64 moment = deadline;

	for (int i = 0; i < ncalls; i++)
	{
		const Wire *wire = calls[i].target->wire;
		int64 own;

		if (!pending(&calls[i]))
			continue;
		own = calls[i].state == CALL_SENT ? calls[i].deadline : wire->deadline;
		if (wire_events(wire) == 0)
			own = Min(own, clock_now() + TICK);
		if (moment == 0 || own < moment)
			moment = own;
	}
	return moment;
}

static void
wait_for_calls(Call *calls, int ncalls, int64 until, bool *readable)
{
	WaitEvent events[EVENTS];
	int64 left = until - clock_now();
	int n;

	build_wait_set(calls, ncalls);
	n = WaitEventSetWait(wait_set,
						 left <= 0 ? 0 : (long) ((left + 999) / 1000), events,
						 lengthof(events), fencing_redis_wait_event());
	memset(readable, 0, ncalls * sizeof(bool));
	for (int i = 0; i < n; i++)
	{
		int call;

		if (events[i].events & WL_LATCH_SET)
		{
			ResetLatch(MyLatch);
			continue;
		}
		if (!(events[i].events & WL_SOCKET_MASK))
			continue;
		call = (int) (intptr_t) events[i].user_data;
		if (call < ncalls && pending(&calls[call]))
			readable[call] = true;
		else
			drop_wait_set(); /* or it would be told again at once */
		if (wait_set == NULL)
			break;
	}
	CHECK_FOR_INTERRUPTS();
}

/* Makes the set that of the calls, which it mostly is already. */
static void
build_wait_set(Call *calls, int ncalls)
{
	bool fits = wait_set != NULL && wait_count == ncalls;

	for (int i = 0; fits && i < ncalls; i++)
	{
		const Wire *wire = calls[i].target->wire;

		if (pending(&calls[i]) && wire_events(wire) != 0 &&
			waited[i].generation != wire->generation)
			fits = false;
	}
	if (!fits)
	{
		drop_wait_set();
		wait_set = fencing_redis_create_wait_set(POSITION_FIRST + ncalls);
		wait_count = ncalls;
		AddWaitEventToSet(wait_set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch,
						  NULL);
		AddWaitEventToSet(wait_set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET,
						  NULL, NULL);
	}
	for (int i = 0; i < ncalls; i++)
	{
		const Wire *wire = calls[i].target->wire;
		uint32 wanted = pending(&calls[i]) ? wire_events(wire) : 0;

		if (wanted == 0)
			continue;
		if (waited[i].generation != wire->generation)
		{
			waited[i].position = AddWaitEventToSet(wait_set, wanted, wire->fd,
												   NULL,
												   (void *) (intptr_t) i);
			waited[i].generation = wire->generation;
			waited[i].events = wanted;
		}
		else if (waited[i].events != wanted)
		{
			ModifyWaitEvent(wait_set, waited[i].position, wanted, NULL);
			waited[i].events = wanted;
		}
	}
}

static void
drop_wait_set(void)
{
	if (wait_set != NULL)
		FreeWaitEventSet(wait_set);
	wait_set = NULL;
	memset(waited, 0, sizeof(waited));
}

void
exchange_wait(Wire *wire, int64 until)
{
	int64 left = until - clock_now();
	int flags = WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH;
	uint32 events = wire != NULL ? wire_events(wire) : 0;
	int happened;

	if (wire != NULL && events == 0)
		left = Min(left, TICK);
	happened = WaitLatchOrSocket(MyLatch, flags | events,
								 events != 0 ? wire->fd : PGINVALID_SOCKET,
								 left <= 0 ? 0 : (long) ((left + 999) / 1000),
								 fencing_redis_wait_event());
	if (happened & WL_LATCH_SET)
		ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}
