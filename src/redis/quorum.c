/*-------------------------------------------------------------------------
 *
 * quorum.c
 *		What the nodes of a server decide together about one lease.
 *
 * Redlock, of which a single node is the case n = 1.  Each node has a vote,
 * and floor(n/2) + 1 of those configured must agree, however many of them
 * answer.  They are asked at the same time, so that one which does not answer
 * costs nothing; once enough have agreed, the others get a moment more.
 *
 * - The lease counts from before the first node is asked, by a clock that is
 *   not set back.  With several nodes, whose clocks may run apart, ttl/100 +
 *   2 ms are taken off.  If nothing is left, there is no lease.
 * - A lease that was not granted is taken back from every node that may have
 *   set it: on the same connection where there is one, which needs no waiting
 *   and works for a node that is only slow; else on a new one, within
 *   CLEAN_UP_TIME.  A node that cannot be told keeps it to the end of its ttl
 *   at most.
 * - "busy" needs a quorum of nodes that answered.  With fewer, nobody knows
 *   whether it is busy, and that is another error.
 * - A renewal never sets what is not there: a node restarted empty stays
 *   without the lease until the next one.  Otherwise a quorum could be made of
 *   nodes which have forgotten that somebody else was granted it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "clock.h"
#include "exchange.h"
#include "quorum.h"
#include "refusal.h"

#define CLEAN_UP_TIME (250 * USECS_PER_MSEC)
#define DRIFT_FIXED (2 * USECS_PER_MSEC)

/* Answers to an acquire. */
#define CODE_BUSY 0
#define CODE_GRANTED 1
#define CODE_AGAIN 2
#define CODE_UNREPLICATED 3 /* granted, but on too few replicas */

/* What is being acquired, for the end of the process. */
static Server *acquiring = NULL;
static Bytes acquiring_undo;

/* Is there something that quorum_flush() has to send? */
static bool quorum_unsent = false;

static bool read_acquire(Call *call, const redisReply *reply);
static bool read_integer(Call *call, const redisReply *reply);
static bool read_anything(Call *call, const redisReply *reply);
static Enough enough_grants(const Call *calls, int ncalls);
static Enough enough_answers(const Call *calls, int ncalls);
static void count(const Call *calls, int ncalls, int *yes, int *no,
				  int *pending);
static void ask_for_replicas(Server *server, Call *calls);
static void take_back(Server *server, const LeaseKey *key, Call *calls);
static void add_if_down(RedisNode *node, const Command *command, Call *calls,
						int *ncalls);
static void raise_later(Wire *wire, const Command *command);
static int64 valid_until(const Server *server, int64 begun, int64 ttl_ms);
static void explain(const Server *server, const Call *calls, Verdict *verdict);
static char *make_key(const Server *server, const char *prefix,
					  const char *resource);

/* ---------------------------------------------------------------------------
 * Keys
 * ---------------------------------------------------------------------------
 */

void
lease_key_init(LeaseKey *key, const Server *server, char *resource,
			   char *holder)
{
	const char *lock_prefix = server->options.lock_prefix;
	const char *token_prefix = server->options.token_prefix;
	char *lock = make_key(server, lock_prefix, resource);
	char *counter = make_key(server, token_prefix, resource);
	Bytes args[4];

	/* an empty prefix leaves room for names that look like the other's keys */
	if ((*lock_prefix == '\0' &&
		 strncmp(lock, token_prefix, strlen(token_prefix)) == 0) ||
		(*token_prefix == '\0' &&
		 strncmp(counter, lock_prefix, strlen(lock_prefix)) == 0))
		refuse_argument("resource", "the name of another resource's key",
						"One of the server's prefixes is empty, and the name begins with the other.");

	key->resource = resource;
	key->holder = holder;
	key->lock = bytes_of(lock);
	key->counter = bytes_of(counter);
	args[0] = key->lock;
	args[1] = key->counter;
	args[2] = bytes_of(holder);
	args[3] = bytes_of("");
	key->undo = command_script(SCRIPT_RELEASE, 2, 4, args).in_full;
}

Bytes
lease_key_release(const LeaseKey *key, int64 token)
{
	char number[32];
	Bytes args[] = {key->lock, key->counter, bytes_of(key->holder), {0}};

	snprintf(number, sizeof(number), INT64_FORMAT, token);
	args[3] = bytes_of(number);
	return command_script(SCRIPT_RELEASE, 2, 4, args).in_full;
}

/*
 * In a cluster, what stands between the first { and the next } decides about
 * the node.  Nothing between them means that all of the key does, so a name
 * that begins with a brace has a tag of its own in front.
 */
static char *
make_key(const Server *server, const char *prefix, const char *resource)
{
	if (!server->options.hash_tag)
		return psprintf("%s%s", prefix, resource);
	if (*resource == '}')
		return psprintf("%s{#}%s", prefix, resource);
	return psprintf("%s{%s}", prefix, resource);
}

/* ---------------------------------------------------------------------------
 * Acquire
 * ---------------------------------------------------------------------------
 */

void
quorum_acquire(Server *server, const LeaseKey *key, int64 ttl_ms,
			   Verdict *verdict)
{
	Call calls[MAX_NODES];
	Command command;
	char ttl[32];
	Bytes args[] = {key->lock, key->counter, bytes_of(key->holder), {0}};
	int64 begun = clock_now();
	int yes;
	int no;
	int pending;
	int again = 0;

	memset(verdict, 0, sizeof(*verdict));
	verdict->left = -1;
	snprintf(ttl, sizeof(ttl), INT64_FORMAT, ttl_ms);
	args[3] = bytes_of(ttl);
	command = command_script(SCRIPT_ACQUIRE, 2, 4, args);
	for (int i = 0; i < server->nnodes; i++)
	{
		call_init(&calls[i], &server->nodes[i], &command, read_acquire);
		calls[i].undo = key->undo;
	}

	acquiring = server;
	acquiring_undo = key->undo;
	PG_TRY();
	{
		exchange(calls, server->nnodes, enough_grants,
				 begun + ttl_ms * USECS_PER_MSEC +
					 server->options.connect_timeout * USECS_PER_MSEC);
		if (server->options.replicas > 0)
			ask_for_replicas(server, calls);
		count(calls, server->nnodes, &yes, &no, &pending);
		for (int i = 0; i < server->nnodes; i++)
		{
			if (calls[i].state != CALL_ANSWERED)
				continue;
			if (calls[i].code == CODE_BUSY)
			{
				if (calls[i].number >= 0 &&
					(verdict->left < 0 ||
					 verdict->left > calls[i].number * USECS_PER_MSEC))
					verdict->left = calls[i].number * USECS_PER_MSEC;
				continue;
			}
			again += calls[i].code == CODE_AGAIN ? 1 : 0;
			verdict->counter = Max(verdict->counter, calls[i].number);
		}
		verdict->again = again >= server_quorum(server);
		verdict->valid_until = valid_until(server, begun, ttl_ms);

		if (yes >= server_quorum(server))
			verdict->decision = clock_now() < verdict->valid_until
				? DECISION_YES
				: DECISION_TOO_LATE;
		else if (no > 0 && yes + no >= server_quorum(server))
			verdict->decision = DECISION_NO;
		else
			verdict->decision = DECISION_UNKNOWN;
		if (verdict->decision != DECISION_YES)
		{
			explain(server, calls, verdict);
			take_back(server, key, calls);
		}
	}
	PG_CATCH();
	{
		acquiring = NULL;
		for (int i = 0; i < server->nnodes; i++)
			if (calls[i].state == CALL_ANSWERED &&
				calls[i].code != CODE_BUSY && calls[i].code != CODE_AGAIN &&
				calls[i].target->wire != NULL)
				(void) wire_send_and_forget(calls[i].target->wire,
											key->undo.data, key->undo.len);
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (verdict->decision != DECISION_YES || verdict->again)
		acquiring = NULL;
}

void
quorum_settled(void)
{
	acquiring = NULL;
}

/*
 * A session that ends before it has noted what it may have been granted: that
 * is taken back.
 */
void
quorum_at_exit(void)
{
	if (acquiring != NULL)
		(void) quorum_send_and_forget(acquiring, &acquiring_undo);
	acquiring = NULL;
}

/* {0, ms left}, or {1 or 2, the counter as a string} */
static bool
read_acquire(Call *call, const redisReply *reply)
{
	const redisReply *code;
	const redisReply *value;
	char *end;

	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2)
		return false;
	code = reply->element[0];
	value = reply->element[1];
	if (code->type != REDIS_REPLY_INTEGER || code->integer < CODE_BUSY ||
		code->integer > CODE_AGAIN)
		return false;
	call->code = (int) code->integer;
	if (call->code == CODE_BUSY)
	{
		if (value->type != REDIS_REPLY_INTEGER)
			return false;
		/* milliseconds, which become microseconds */
		call->number = Min(value->integer, PG_INT64_MAX / USECS_PER_MSEC);
		return true;
	}
	if (value->type != REDIS_REPLY_STRING || value->len == 0 ||
		value->len > 20)
		return false;
	errno = 0;
	call->number = strtoll(value->str, &end, 10);
	return errno == 0 && end == value->str + value->len;
}

static bool
read_integer(Call *call, const redisReply *reply)
{
	call->code = reply->integer != 0;
	call->number = reply->integer;
	return reply->type == REDIS_REPLY_INTEGER;
}

static bool
read_anything(Call *call, const redisReply *reply)
{
	return true;
}

/* Yes and no among the answers.  Those that failed are neither. */
static void
count(const Call *calls, int ncalls, int *yes, int *no, int *pending)
{
	*yes = *no = *pending = 0;
	for (int i = 0; i < ncalls; i++)
	{
		if (calls[i].state != CALL_ANSWERED)
			*pending += calls[i].state == CALL_FAILED ? 0 : 1;
		else if (calls[i].code == CODE_GRANTED || calls[i].code == CODE_AGAIN)
			(*yes)++;
		else if (calls[i].code == CODE_BUSY)
			(*no)++;
	}
}

static Enough
enough_grants(const Call *calls, int ncalls)
{
	int quorum = server_quorum(calls[0].node->server);
	int yes;
	int no;
	int pending;

	count(calls, ncalls, &yes, &no, &pending);
	if (yes >= quorum)
		return ENOUGH_SOON;
	/* it will not be granted; is it known why? */
	if (yes + pending < quorum &&
		(yes + no >= quorum || yes + no + pending < quorum))
		return ENOUGH_SOON;
	return ENOUGH_NOT;
}

static Enough
enough_answers(const Call *calls, int ncalls)
{
	int quorum = server_quorum(calls[0].node->server);
	int yes;
	int no;
	int pending;

	count(calls, ncalls, &yes, &no, &pending);
	return yes >= quorum || no >= quorum ? ENOUGH_SOON : ENOUGH_NOT;
}

/* A grant counts where enough replicas have it, too. */
static void
ask_for_replicas(Server *server, Call *calls)
{
	Call waits[MAX_NODES];
	int from[MAX_NODES];
	int nwaits = 0;
	char replicas[16];
	char timeout[16];
	Command command;

	snprintf(replicas, sizeof(replicas), "%d", server->options.replicas);
	snprintf(timeout, sizeof(timeout), "%d", server->options.replica_timeout);
	command = command_words(3, "WAIT", replicas, timeout);
	for (int i = 0; i < server->nnodes; i++)
	{
		if (calls[i].state != CALL_ANSWERED || calls[i].code == CODE_BUSY)
			continue;
		from[nwaits] = i;
		call_init(&waits[nwaits], calls[i].target, &command, read_integer);
		waits[nwaits].undo = calls[i].undo;
		waits[nwaits++].extra_time = server->options.replica_timeout *
			USECS_PER_MSEC;
	}
	if (nwaits == 0)
		return;
	exchange(waits, nwaits, NULL, 0);
	for (int i = 0; i < nwaits; i++)
	{
		Call *call = &calls[from[i]];

		if (waits[i].state == CALL_ANSWERED &&
			waits[i].number >= server->options.replicas)
			continue;
		call->code = CODE_UNREPLICATED;
		if (waits[i].state == CALL_ANSWERED)
		{
			strlcpy(call->word, "NOREPLICAS", sizeof(call->word));
			snprintf(call->problem, sizeof(call->problem),
					 "only " INT64_FORMAT
					 " of %d replicas have the lease within %d ms",
					 waits[i].number, server->options.replicas,
					 server->options.replica_timeout);
		}
		else
		{
			strlcpy(call->word, waits[i].word, sizeof(call->word));
			strlcpy(call->problem, waits[i].problem, sizeof(call->problem));
		}
	}
}

/*
 * Removes the value from every node that may have it.  Not where the holder
 * had it before: then this was a renewal that failed, and takes nothing away.
 */
static void
take_back(Server *server, const LeaseKey *key, Call *calls)
{
	Call undos[MAX_NODES];
	Command command = {0};
	int nundos = 0;

	for (int i = 0; i < server->nnodes; i++)
		if (calls[i].state == CALL_ANSWERED && calls[i].code == CODE_AGAIN)
			return;

	command.bytes = key->undo;
	for (int i = 0; i < server->nnodes; i++)
	{
		Call *call = &calls[i];
		Wire *wire = call->target->wire;

		/* timed out: exchange() has sent it */
		if (!call->sent || call->timed_out ||
			(call->state == CALL_ANSWERED && call->code == CODE_BUSY) ||
			(call->state == CALL_FAILED && *call->word != '\0'))
			continue;
		if (wire != NULL &&
			wire_send_and_forget(wire, key->undo.data, key->undo.len))
			continue;
		call_init(&undos[nundos++], call->target, &command, read_anything);
	}
	if (nundos > 0)
		exchange(undos, nundos, NULL, clock_now() + CLEAN_UP_TIME);
}

static int64
valid_until(const Server *server, int64 begun, int64 ttl_ms)
{
	int64 ttl = ttl_ms * USECS_PER_MSEC;

	if (server->nnodes > 1)
		ttl -= ttl / 100 + DRIFT_FIXED;
	return begun + ttl;
}

/* ---------------------------------------------------------------------------
 * Renew, release, raise
 * ---------------------------------------------------------------------------
 */

void
quorum_renew(Server *server, const LeaseKey *key, int64 token, int64 ttl_ms,
			 Verdict *verdict)
{
	Call calls[MAX_NODES];
	Command command;
	char number[32];
	char ttl[32];
	Bytes args[] = {key->lock, key->counter, bytes_of(key->holder), {0}, {0}};
	int64 begun = clock_now();
	int yes;
	int no;
	int pending;

	memset(verdict, 0, sizeof(*verdict));
	snprintf(number, sizeof(number), INT64_FORMAT, token);
	snprintf(ttl, sizeof(ttl), INT64_FORMAT, ttl_ms);
	args[3] = bytes_of(number);
	args[4] = bytes_of(ttl);
	command = command_script(SCRIPT_RENEW, 2, 5, args);
	for (int i = 0; i < server->nnodes; i++)
		call_init(&calls[i], &server->nodes[i], &command, read_integer);
	exchange(calls, server->nnodes, enough_answers, 0);

	count(calls, server->nnodes, &yes, &no, &pending);
	verdict->valid_until = valid_until(server, begun, ttl_ms);
	if (yes >= server_quorum(server))
		verdict->decision = clock_now() < verdict->valid_until
			? DECISION_YES
			: DECISION_TOO_LATE;
	else if (server->nnodes - no < server_quorum(server) ||
			 (no > 0 && yes + no == server->nnodes))
	{
		Bytes release = lease_key_release(key, token);

		/* what is left of it is in everybody's way */
		verdict->decision = DECISION_NO;
		if (yes > 0)
			(void) quorum_send_and_forget(server, &release);
	}
	else
	{
		verdict->decision = DECISION_UNKNOWN;
		explain(server, calls, verdict);
	}
}

void
quorum_release(Server *server, const LeaseKey *key, int64 token,
			   Verdict *verdict)
{
	Call calls[MAX_NODES];
	Command command;
	char number[32];
	Bytes args[] = {key->lock, key->counter, bytes_of(key->holder), {0}};
	int yes;
	int no;
	int pending;

	memset(verdict, 0, sizeof(*verdict));
	snprintf(number, sizeof(number), INT64_FORMAT, token);
	args[3] = bytes_of(number);
	command = command_script(SCRIPT_RELEASE, 2, 4, args);
	for (int i = 0; i < server->nnodes; i++)
	{
		call_init(&calls[i], &server->nodes[i], &command, read_integer);
		calls[i].undo = command.in_full;
	}
	exchange(calls, server->nnodes, enough_answers, 0);

	count(calls, server->nnodes, &yes, &no, &pending);
	if (yes >= server_quorum(server))
		verdict->decision = DECISION_YES;
	else if (server->nnodes - no < server_quorum(server) ||
			 yes + no == server->nnodes)
		verdict->decision = DECISION_NO;
	else
	{
		verdict->decision = DECISION_UNKNOWN;
		explain(server, calls, verdict);
	}
}

void
quorum_raise(Server *server, const LeaseKey *key, int64 token)
{
	char number[32];
	Bytes args[] = {key->counter, {0}};
	Command command;
	ListCell *cell;

	snprintf(number, sizeof(number), INT64_FORMAT, token);
	args[1] = bytes_of(number);
	command = command_script(SCRIPT_RAISE, 1, 2, args);
	for (int i = 0; i < server->nnodes; i++)
		raise_later(server->nodes[i].wire, &command);
	foreach(cell, server->redirects)
		raise_later(((RedisNode *) lfirst(cell))->wire, &command);
}

static void
raise_later(Wire *wire, const Command *command)
{
	const Bytes *bytes;

	if (wire == NULL)
		return;
	bytes = wire->knows_raise ? &command->bytes : &command->in_full;
	wire->knows_raise = true;
	wire_send_later(wire, bytes->data, bytes->len);
	quorum_unsent = true;
}

void
quorum_flush(void)
{
	Server *server = NULL;

	if (!quorum_unsent)
		return;
	quorum_unsent = false;
	while ((server = server_next(server)) != NULL)
	{
		ListCell *cell;

		for (int i = 0; i < server->nnodes; i++)
			if (server->nodes[i].wire != NULL)
				wire_flush(server->nodes[i].wire);
		foreach(cell, server->redirects)
		{
			Wire *wire = ((RedisNode *) lfirst(cell))->wire;

			if (wire != NULL)
				wire_flush(wire);
		}
	}
}

int
quorum_send_and_forget(Server *server, const Bytes *command)
{
	slist_iter iter;
	ListCell *cell;
	int told = 0;

	for (int i = 0; i < server->nnodes; i++)
	{
		Wire *wire = server->nodes[i].wire;

		if (wire != NULL &&
			wire_send_and_forget(wire, command->data, command->len))
			told++;
	}
	/* in a cluster it is one of these that has the key */
	foreach(cell, server->redirects)
	{
		Wire *wire = ((RedisNode *) lfirst(cell))->wire;

		if (wire != NULL)
			(void) wire_send_and_forget(wire, command->data, command->len);
	}
	slist_foreach(iter, &wire_kept)
	{
		Wire *wire = slist_container(Wire, link, iter.cur);

		if (wire->server == server &&
			wire_send_and_forget(wire, command->data, command->len) &&
			wire->node->wire == NULL)
			told++;
	}
	return told;
}

/* A call that opens the node's connection, if it needs one. */
static void
add_if_down(RedisNode *node, const Command *command, Call *calls, int *ncalls)
{
	Wire *wire = node->wire;

	if (*ncalls < MAX_NODES &&
		(wire == NULL || wire->state != WIRE_READY || !wire_alive(wire)))
		call_init(&calls[(*ncalls)++], node, command, read_anything);
}

void
quorum_connect(Server *server, int64 microseconds)
{
	Call calls[MAX_NODES];
	Command command = command_words(1, "PING");
	ListCell *cell;
	int ncalls = 0;

	for (int i = 0; i < server->nnodes; i++)
		add_if_down(&server->nodes[i], &command, calls, &ncalls);
	/* in a cluster it is one of these that has the key */
	foreach(cell, server->redirects)
		add_if_down(lfirst(cell), &command, calls, &ncalls);
	if (ncalls > 0)
		exchange(calls, ncalls, NULL, clock_now() + microseconds);
}

/* What each node that did not do it has to say. */
static void
explain(const Server *server, const Call *calls, Verdict *verdict)
{
	StringInfoData text;

	initStringInfo(&text);
	for (int i = 0; i < server->nnodes; i++)
	{
		const Call *call = &calls[i];
		const char *problem = call->problem;

		if (call->state == CALL_ANSWERED && call->code != CODE_UNREPLICATED)
			continue;
		if (call->state == CALL_TO_SEND)
			problem = "no connection in time";
		else if (call->state == CALL_SENT)
			problem = "no answer in time";
		if (*verdict->word == '\0')
			strlcpy(verdict->word, call->word, sizeof(verdict->word));
		appendStringInfo(&text, "%sNode %s: %s", text.len > 0 ? "; " : "",
						 call->node->address.name, problem);
	}
	appendStringInfoChar(&text, '.');
	verdict->problem = text.data;
}
