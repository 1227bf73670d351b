/*-------------------------------------------------------------------------
 *
 * status.c
 *		What can be seen: leases, connections, the state of the nodes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/int.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "../compat.h"
#include "clock.h"
#include "exchange.h"
#include "fencing_redis.h"
#include "held.h"
#include "wire.h"

/* What INFO and TIME say, copied without allocating. */
typedef struct NodeReport
{
	char role[16];
	char version[32];
	char policy[32];
	bool limited; /* there is a maxmemory */
	int64 clock;  /* microseconds since 1970 */
} NodeReport;

FENCING_FUNCTION(fencing_redis_held);
FENCING_FUNCTION(fencing_redis_connections);
FENCING_FUNCTION(fencing_redis_disconnect);
FENCING_FUNCTION(fencing_redis_ping);

static void put_connection(ReturnSetInfo *rsinfo, const Server *server,
						   const RedisNode *node);
static bool read_pong(Call *call, const redisReply *reply);
static bool read_info(Call *call, const redisReply *reply);
static bool read_time(Call *call, const redisReply *reply);
static void copy_field(const char *info, const char *name, char *to,
					   size_t size);
static Datum interval_datum(int64 microseconds);
static const char *warning(const NodeReport *report, int64 drift);

/* fencing_redis.held() */
Datum
fencing_redis_held(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Held *held = NULL;

	InitMaterializedSRF(fcinfo, 0);
	while ((held = held_next(held)) != NULL)
	{
		Datum values[7];
		bool nulls[7] = {0};

		if (!held_valid(held))
			continue;
		values[0] = CStringGetTextDatum(held->server_name);
		values[1] = CStringGetTextDatum(held->key.resource);
		values[2] = Int64GetDatum(held->token);
		values[3] = CStringGetTextDatum(held->key.holder);
		values[4] = CStringGetTextDatum(held->transaction ? "transaction"
														  : "session");
		values[5] = TimestampTzGetDatum(held->acquired_at);
		values[6] = TimestampTzGetDatum(held->expires_at);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values,
							 nulls);
	}
	return (Datum) 0;
}

/* fencing_redis.connections() */
Datum
fencing_redis_connections(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Server *server = NULL;

	InitMaterializedSRF(fcinfo, 0);
	while ((server = server_next(server)) != NULL)
	{
		ListCell *cell;

		for (int i = 0; i < server->nnodes; i++)
			put_connection(rsinfo, server, &server->nodes[i]);
		foreach(cell, server->redirects)
			put_connection(rsinfo, server, lfirst(cell));
	}
	return (Datum) 0;
}

static void
put_connection(ReturnSetInfo *rsinfo, const Server *server,
			   const RedisNode *node)
{
	static const char *const states[] = {
		[WIRE_RESOLVING] = "connecting", [WIRE_CONNECTING] = "connecting",
		[WIRE_GREETING] = "connecting",	 [WIRE_READY] = "ready",
		[WIRE_FAILED] = "failed",
	};
	Wire *wire = node->wire;
	const char *state = "closed";
	Datum values[5];
	bool nulls[5] = {0};

	if (wire != NULL)
		state = server->stale ? "to be closed"
			: wire->state == WIRE_READY && !wire_alive(wire)
			? "failed"
			: states[wire->state];
	values[0] = CStringGetTextDatum(server->name);
	values[1] = CStringGetTextDatum(
		GetUserNameFromId(server->userid, true)
			? GetUserNameFromId(server->userid, true)
			: "");
	values[2] = CStringGetTextDatum(node->address.name);
	values[3] = CStringGetTextDatum(state);
	nulls[4] = wire == NULL || wire->state != WIRE_FAILED;
	values[4] = nulls[4] ? (Datum) 0 : CStringGetTextDatum(wire->problem);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* fencing_redis.disconnect(server): how many connections were closed */
Datum
fencing_redis_disconnect(PG_FUNCTION_ARGS)
{
	Server *server = NULL;
	int closed = 0;

	while ((server = server_next(server)) != NULL)
	{
		ListCell *cell;

		if (!PG_ARGISNULL(0) &&
			strcmp(NameStr(*PG_GETARG_NAME(0)), server->name) != 0)
			continue;
		for (int i = 0; i < server->nnodes; i++)
			closed += server->nodes[i].wire != NULL ? 1 : 0;
		foreach(cell, server->redirects)
			closed += ((RedisNode *) lfirst(cell))->wire != NULL ? 1 : 0;
		server_disconnect(server);
	}
	PG_RETURN_INT32(closed);
}

/* fencing_redis.ping(server) */
Datum
fencing_redis_ping(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Server *server = arg_server(fcinfo, 0);
	NodeReport reports[MAX_NODES] = {0};
	Call pings[MAX_NODES];
	Call infos[MAX_NODES];
	Call times[MAX_NODES];
	Command ping = command_words(1, "PING");
	Command info = command_words(1, "INFO");
	Command time = command_words(1, "TIME");

	for (int i = 0; i < server->nnodes; i++)
	{
		call_init(&pings[i], &server->nodes[i], &ping, read_pong);
		call_init(&infos[i], &server->nodes[i], &info, read_info);
		call_init(&times[i], &server->nodes[i], &time, read_time);
		infos[i].result = times[i].result = &reports[i];
	}
	exchange(pings, server->nnodes, NULL, 0);
	for (int i = 0; i < server->nnodes; i++)
	{
		/* no second wait for those that do not answer */
		if (pings[i].state != CALL_ANSWERED)
			infos[i].state = times[i].state = CALL_FAILED;
	}
	exchange(infos, server->nnodes, NULL, 0);
	exchange(times, server->nnodes, NULL, 0);

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < server->nnodes; i++)
	{
		NodeReport *report = &reports[i];
		int64 drift = 0;
		Datum values[9];
		bool nulls[9] = {0};
		const char *text;

		values[0] = CStringGetTextDatum(server->nodes[i].address.name);
		values[1] = BoolGetDatum(pings[i].state == CALL_ANSWERED);
		nulls[2] = *report->role == '\0';
		values[2] = CStringGetTextDatum(report->role);
		nulls[3] = *report->version == '\0';
		values[3] = CStringGetTextDatum(report->version);
		nulls[4] = pings[i].state != CALL_ANSWERED;
		values[4] = interval_datum(pings[i].answered_at - pings[i].sent_at);
		nulls[5] = *report->policy == '\0';
		values[5] = CStringGetTextDatum(report->policy);
		nulls[6] = times[i].state != CALL_ANSWERED;
		if (!nulls[6])
		{
			/* what the node's clock said in the middle of the round trip */
			int64 middle = GetCurrentTimestamp() - clock_now() +
				(times[i].sent_at + times[i].answered_at) / 2;
			int64 epoch = (int64) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) *
				USECS_PER_DAY;

			drift = report->clock - epoch - middle;
		}
		values[6] = interval_datum(drift);
		nulls[7] = pings[i].state == CALL_ANSWERED;
		values[7] = CStringGetTextDatum(pings[i].problem);
		text = infos[i].state == CALL_ANSWERED ? warning(report, drift)
			: pings[i].state == CALL_ANSWERED  ? infos[i].problem
											   : NULL;
		nulls[8] = text == NULL;
		values[8] = text == NULL ? (Datum) 0 : CStringGetTextDatum(text);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values,
							 nulls);
	}
	return (Datum) 0;
}

static const char *
warning(const NodeReport *report, int64 drift)
{
	if (strcmp(report->role, "master") != 0)
		return "not a primary: it grants nothing";
	if (*report->policy != '\0' && strcmp(report->policy, "noeviction") != 0)
		return report->limited
			? "maxmemory-policy is not noeviction: leases and counters can be evicted"
			: "maxmemory-policy is not noeviction: with a maxmemory, leases and counters could be evicted";
	if (drift > USECS_PER_SEC || drift < -USECS_PER_SEC)
		return "its clock differs from this server's by more than a second";
	return NULL;
}

static bool
read_pong(Call *call, const redisReply *reply)
{
	return reply->type == REDIS_REPLY_STATUS;
}

static bool
read_info(Call *call, const redisReply *reply)
{
	NodeReport *report = call->result;
	char limit[24];

	if (reply->type != REDIS_REPLY_STRING)
		return false;
	copy_field(reply->str, "\nrole:", report->role, sizeof(report->role));
	copy_field(reply->str, "\nredis_version:", report->version,
			   sizeof(report->version));
	if (strstr(reply->str, "\nvalkey_version:") != NULL)
	{
		strlcpy(report->version, "valkey ", sizeof(report->version));
		copy_field(reply->str, "\nvalkey_version:", report->version + 7,
				   sizeof(report->version) - 7);
	}
	copy_field(reply->str, "\nmaxmemory_policy:", report->policy,
			   sizeof(report->policy));
	copy_field(reply->str, "\nmaxmemory:", limit, sizeof(limit));
	report->limited = *limit != '\0' && strcmp(limit, "0") != 0;
	return true;
}

static bool
read_time(Call *call, const redisReply *reply)
{
	NodeReport *report = call->result;
	int64 seconds;

	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
		reply->element[0]->type != REDIS_REPLY_STRING ||
		reply->element[1]->type != REDIS_REPLY_STRING)
		return false;
	seconds = strtoll(reply->element[0]->str, NULL, 10);
	return !pg_mul_s64_overflow(seconds, USECS_PER_SEC, &report->clock) &&
		!pg_add_s64_overflow(report->clock,
							 strtoll(reply->element[1]->str, NULL, 10),
							 &report->clock);
}

/* The value of a line "name:value" of INFO, "" if there is none. */
static void
copy_field(const char *info, const char *name, char *to, size_t size)
{
	const char *value = strstr(info, name);
	size_t len;

	*to = '\0';
	if (value == NULL)
		return;
	value += strlen(name);
	len = strcspn(value, "\r\n");
	strlcpy(to, value, Min(len + 1, size));
	for (char *p = to; *p != '\0'; p++)
		if ((unsigned char) *p < ' ' || (unsigned char) *p > '~')
			*p = '?';
}

static Datum
interval_datum(int64 microseconds)
{
	Interval *interval = palloc0(sizeof(Interval));

	interval->time = microseconds;
	return IntervalPGetDatum(interval);
}
