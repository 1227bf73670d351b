/*-------------------------------------------------------------------------
 *
 * lease.c
 *		The SQL functions for leases from Redis.
 *
 * Arguments, rights and the kind of transaction are looked at before anything
 * is sent.
 *
 * A token is the greatest of three numbers: the counter that was incremented
 * with the grant, the caller's floor, and a new token of fencing.next_token(),
 * taken after the grant.  The second form of next_token() gives just that
 * number, and remembers it, so that no number comes twice when the counter is
 * lost.  Numbers above 2^53 are another matter: the database would not go there
 * for one resource's sake, so the counter alone is used as long as it is above
 * the mark.  Where the counter is lower than the token it is raised.
 *
 * next_token() locks the resource's row to the end of the transaction.  Who
 * acquired the same resource before, in a transaction that is still open, is
 * waited for, as long as the caller wanted to wait (a little in any case) and
 * never longer than the lease itself lasts.
 *
 * From the grant until the session has noted the lease, an error takes the
 * grant back.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "parser/parse_func.h"
#include "storage/proc.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "../compat.h"
#include "clock.h"
#include "fencing_redis.h"
#include "held.h"
#include "quorum.h"
#include "refusal.h"
#include "waiter.h"

#define HOLDER_RANDOM_BYTES 16
#define LARGEST_COMMON_TOKEN (INT64CONST(1) << 53)
#define SHORTEST_LOCK_WAIT 100 /* ms, for another transaction's token */

/* What a caller asks for. */
typedef struct Request
{
	Server *server;
	char *resource;
	char *holder;
	int64 ttl_ms;
	int64 wait_until;		/* by clock_now() */
	const char *wait_limit; /* what the wait is limited by, NULL for nothing */
	bool transaction;
	int64 floor;
} Request;

/* fencing.next_token(text, bigint), as long as the catalogs stay the same */
static FmgrInfo next_token;
static Oid next_token_schema = InvalidOid;
static bool next_token_known = false;

FENCING_FUNCTION(fencing_redis_acquire);
FENCING_FUNCTION(fencing_redis_try_acquire);
FENCING_FUNCTION(fencing_redis_renew);
FENCING_FUNCTION(fencing_redis_release);

static void prevent_read_only(const char *function);
static void read_request(FunctionCallInfo fcinfo, int argno, int64 wait_ms,
						 int64 ttl_ms, Request *request);
static Held *acquire(const Request *request, Verdict *verdict);
static Held *settle(const Request *request, Held *held, Held *known,
					const Verdict *verdict);
static bool ask(const Request *request, const LeaseKey *key, Waiter *waiter,
				Verdict *verdict);
static int64 new_token(const Request *request, const Verdict *verdict);
static int64 next_token_within(const char *resource, int64 above,
							   int limit_ms);
static int64 call_next_token(const char *resource, int64 above);
static void forget_functions(Datum arg, FENCING_CACHE_ID cacheid,
							 uint32 hashvalue);
static int64 call_int8(SPIPlanPtr *plan, const char *sql,
					   const char *resource);
static void present(const Held *held);
static void set_times(Held *held, const Verdict *verdict);
static Datum lease_datum(FunctionCallInfo fcinfo, const Held *held);
static int64 arg_token(FunctionCallInfo fcinfo, int argno);
static Held *lease_to_change(FunctionCallInfo fcinfo, int server_argno,
							 Server **server, int64 token, bool *known);

/* ---------------------------------------------------------------------------
 * The functions
 * ---------------------------------------------------------------------------
 */

/* fencing_redis.acquire(resource, ttl, wait, holder, server, scope, floor) */
Datum
fencing_redis_acquire(PG_FUNCTION_ARGS)
{
	Request request;
	Verdict verdict;
	Held *held;
	int64 ttl_ms;

	prevent_read_only("fencing_redis.acquire()");
	ttl_ms = arg_milliseconds(fcinfo, 1, "ttl", false);
	read_request(fcinfo, 3, arg_milliseconds(fcinfo, 2, "wait", true), ttl_ms,
				 &request);
	held = acquire(&request, &verdict);
	if (held == NULL)
		refuse_busy(request.resource, request.server->name,
					verdict.left < 0 ? -1 : verdict.left / USECS_PER_MSEC,
					request.wait_limit);
	return lease_datum(fcinfo, held);
}

/* fencing_redis.try_acquire(resource, ttl, holder, server, scope, floor) */
Datum
fencing_redis_try_acquire(PG_FUNCTION_ARGS)
{
	Request request;
	Verdict verdict;
	Held *held;
	int64 ttl_ms;

	prevent_read_only("fencing_redis.try_acquire()");
	ttl_ms = arg_milliseconds(fcinfo, 1, "ttl", false);
	read_request(fcinfo, 2, 0, ttl_ms, &request);
	held = acquire(&request, &verdict);
	if (held == NULL)
		PG_RETURN_NULL();
	return lease_datum(fcinfo, held);
}

/* fencing_redis.renew(resource, token, ttl, server, holder) */
Datum
fencing_redis_renew(PG_FUNCTION_ARGS)
{
	Server *server;
	Verdict verdict;
	Held *held;
	int64 token;
	int64 ttl_ms;
	bool known;

	prevent_read_only("fencing_redis.renew()");
	token = arg_token(fcinfo, 1);
	ttl_ms = arg_milliseconds(fcinfo, 2, "ttl", false);
	held = lease_to_change(fcinfo, 3, &server, token, &known);
	if (held == NULL)
		PG_RETURN_NULL();

	quorum_renew(server, &held->key, token, ttl_ms, &verdict);
	switch (verdict.decision)
	{
		case DECISION_YES:
			break;
		case DECISION_NO:
			warn_not_held(held->key.resource, server->name, token, false);
			if (known)
				held_remove(held);
			PG_RETURN_NULL();
		case DECISION_TOO_LATE:
			refuse_too_late(held->key.resource, server->name, ttl_ms);
		case DECISION_UNKNOWN:
			refuse_unavailable("renew", held->key.resource, server->name,
							   verdict.problem, verdict.word);
	}
	set_times(held, &verdict);
	return lease_datum(fcinfo, held);
}

/* fencing_redis.release(resource, token, server, holder) */
Datum
fencing_redis_release(PG_FUNCTION_ARGS)
{
	Server *server;
	Verdict verdict;
	Held *held;
	int64 token;
	bool known;

	prevent_read_only("fencing_redis.release()");
	token = arg_token(fcinfo, 1);
	held = lease_to_change(fcinfo, 2, &server, token, &known);
	if (held == NULL)
		PG_RETURN_BOOL(false);

	quorum_release(server, &held->key, token, &verdict);
	if (verdict.decision == DECISION_UNKNOWN)
		refuse_unavailable("release", held->key.resource, server->name,
						   verdict.problem, verdict.word);
	if (verdict.decision == DECISION_NO)
		warn_not_held(held->key.resource, server->name, token, false);
	if (known)
		held_remove(held);
	PG_RETURN_BOOL(verdict.decision == DECISION_YES);
}

/* ---------------------------------------------------------------------------
 * Arguments
 * ---------------------------------------------------------------------------
 */

static void
prevent_read_only(const char *function)
{
	PreventCommandIfReadOnly(function);
	PreventCommandDuringRecovery(function);
}

/* resource, which is the first, and from argno on holder, server, scope, floor */
static void
read_request(FunctionCallInfo fcinfo, int argno, int64 wait_ms, int64 ttl_ms,
			 Request *request)
{
	const char *scope;

	memset(request, 0, sizeof(*request));
	request->resource = arg_name(fcinfo, 0, "resource", false);
	request->holder = arg_name(fcinfo, argno, "holder", true);
	request->ttl_ms = ttl_ms;

	scope = PG_ARGISNULL(argno + 2)
		? ""
		: text_to_cstring(PG_GETARG_TEXT_PP(argno + 2));
	if (strcmp(scope, "transaction") == 0)
		request->transaction = true;
	else if (strcmp(scope, "session") != 0)
		refuse_argument("scope", *scope == '\0' ? "NULL or empty" : "unknown",
						"Give 'session' or 'transaction'.");
	if (PG_ARGISNULL(argno + 3) || PG_GETARG_INT64(argno + 3) < 0)
		refuse_argument("floor", PG_ARGISNULL(argno + 3) ? "NULL" : "negative",
						"Give the lowest token that will do, 0 for any.");
	request->floor = PG_GETARG_INT64(argno + 3);

	request->server = arg_server(fcinfo, argno + 1);
	if (request->server->nnodes > 1 && ttl_ms - ttl_ms / 100 - 2 <= 0)
		refuse_argument("ttl", "too short",
						"With several nodes, 2 ms and a hundredth are taken off for the drift of their clocks.");

	if (request->holder == NULL)
	{
		char bytes[HOLDER_RANDOM_BYTES];

		if (!pg_strong_random(bytes, sizeof(bytes)))
			ereport(ERROR,
					(errcode(ERRCODE_INTERNAL_ERROR),
					 errmsg("could not generate random values")));
		request->holder = palloc(2 * sizeof(bytes) + 1);
		request
			->holder[hex_encode(bytes, sizeof(bytes), request->holder)] = '\0';
	}

	if (wait_ms > 0)
		request->wait_limit = "wait";
	if (wait_ms > 0 && LockTimeout > 0 && LockTimeout < wait_ms)
	{
		request->wait_limit = "lock_timeout";
		wait_ms = LockTimeout;
	}
	request->wait_until = clock_now() + wait_ms * USECS_PER_MSEC;
}

static int64
arg_token(FunctionCallInfo fcinfo, int argno)
{
	if (PG_ARGISNULL(argno) || PG_GETARG_INT64(argno) < 1)
		refuse_argument("token", PG_ARGISNULL(argno) ? "NULL" : "lower than 1",
						"Give the token of the lease.");
	return PG_GETARG_INT64(argno);
}

/*
 * The lease that is to be renewed or released: one of this session, or, if the
 * caller knows the holder, one that another session acquired (then it is not
 * known here, and freed with the current context).  NULL after a warning.
 */
static Held *
lease_to_change(FunctionCallInfo fcinfo, int server_argno, Server **server,
				int64 token, bool *known)
{
	char *resource = arg_name(fcinfo, 0, "resource", false);
	char *holder = arg_name(fcinfo, server_argno + 1, "holder", true);
	Held *held;

	*server = arg_server(fcinfo, server_argno);
	held_release_again(*server);
	held = held_find(*server, resource, holder, token);
	*known = held != NULL;
	if (held == NULL && holder != NULL)
	{
		held = held_prepare(*server, resource, holder);
		held->token = token;
		held->acquired_at = DT_NOBEGIN;
	}
	if (held == NULL)
		warn_not_held(resource, (*server)->name, token, true);
	return held;
}

/* ---------------------------------------------------------------------------
 * Getting a lease
 * ---------------------------------------------------------------------------
 */

/* The lease, noted as held; NULL if it is busy. */
static Held *
acquire(const Request *request, Verdict *verdict)
{
	Server *server = request->server;
	Held *volatile held;
	Held *known;
	Held *volatile result = NULL;
	volatile bool granted = false;
	Waiter waiter;

	held_release_again(server);
	known = held_find(server, request->resource, request->holder, 0);
	held = held_prepare(server, request->resource, request->holder);
	waiter_init(&waiter, server, &held->key);
	PG_TRY();
	{
		granted = ask(request, &held->key, &waiter, verdict);
		waiter_end(&waiter);
		if (granted)
			result = settle(request, held, known, verdict);
		quorum_settled();
	}
	PG_CATCH();
	{
		quorum_settled();
		waiter_end(&waiter);
		if (granted && !verdict->again && result == NULL)
			(void) quorum_send_and_forget(server, &held->key.undo);
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (result != held)
		held_free(held);
	return result;
}

/* Asks until the lease is granted (true), or the wait is over (false). */
static bool
ask(const Request *request, const LeaseKey *key, Waiter *waiter,
	Verdict *verdict)
{
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		quorum_acquire(request->server, key, request->ttl_ms, verdict);
		switch (verdict->decision)
		{
			case DECISION_YES:
				return true;
			case DECISION_NO:
				break;
			case DECISION_TOO_LATE:
				refuse_too_late(request->resource, request->server->name,
								request->ttl_ms);
			case DECISION_UNKNOWN:
				refuse_unavailable("grant", request->resource,
								   request->server->name, verdict->problem,
								   verdict->word);
		}
		if (clock_now() >= request->wait_until)
			return false;
		waiter_sleep(waiter, verdict->left, request->wait_until);
	}
}

/*
 * Makes a grant a lease: its token, its times, its place among the leases of
 * this session.
 */
static Held *
settle(const Request *request, Held *held, Held *known, const Verdict *verdict)
{
	static SPIPlanPtr issued_plan = NULL;
	Server *server = request->server;
	int64 token = 0;

	if (verdict->again)
	{
		/* a token that was handed out from here is the last one issued */
		if (known != NULL)
			token = known->token;
		else if (verdict->counter >=
				 call_int8(&issued_plan,
						   "SELECT COALESCE((SELECT i.token FROM fencing.issued AS i WHERE i.resource OPERATOR(pg_catalog.=) $1), 0)",
						   request->resource))
			token = verdict->counter;
	}
	if (token < Max(request->floor, 1))
		token = new_token(request, verdict);
	if (clock_now() >= verdict->valid_until)
		refuse_too_late(request->resource, server->name, request->ttl_ms);

	held_set_token(held, token);
	held->acquired_at = GetCurrentTimestamp();
	set_times(held, verdict);
	if (token > verdict->counter || server->nnodes > 1)
		quorum_raise(server, &held->key, token);

	held_add(held, server, request->transaction);
	if (known != NULL)
	{
		if (verdict->again)
			held_continue(held, known);
		held_remove(known);
	}
	if (request->transaction)
		present(held);
	return held;
}

static int64
new_token(const Request *request, const Verdict *verdict)
{
	static SPIPlanPtr mark_plan = NULL;
	int64 least = Max(verdict->counter, request->floor);
	int64 limit;

	if (least > LARGEST_COMMON_TOKEN &&
		least > call_int8(&mark_plan, "SELECT fencing.mark($1)",
						  request->resource))
		return least;

	/* milliseconds to wait for another transaction's token */
	limit = Max((request->wait_until - clock_now()) / USECS_PER_MSEC,
				SHORTEST_LOCK_WAIT);
	limit = Min(limit,
				(verdict->valid_until - clock_now()) / USECS_PER_MSEC + 1);
	return next_token_within(request->resource, Max(least - 1, 0),
							 (int) Max(Min(limit, INT_MAX), 1));
}

/*
 * lock_timeout for one call, and not worth the while of a nest of settings,
 * which takes longer than the call does.
 */
static int64
next_token_within(const char *resource, int64 above, int limit_ms)
{
	int lock_timeout = LockTimeout;
	volatile int64 token = 0;

	PG_TRY();
	{
		if (LockTimeout <= 0 || LockTimeout > limit_ms)
			LockTimeout = limit_ms;
		token = call_next_token(resource, above);
	}
	PG_FINALLY();
	{
		LockTimeout = lock_timeout;
	}
	PG_END_TRY();
	return token;
}

/*
 * fencing.next_token(resource, above), as SQL would call it, but without a
 * statement around it: that would take as long again.
 */
static int64
call_next_token(const char *resource, int64 above)
{
	static const Oid types[] = {TEXTOID, INT8OID};

	if (!next_token_known)
	{
		List *name = list_make1(makeString("fencing"));
		Oid function;

		name = lappend(name, makeString("next_token"));
		function = LookupFuncName(name, lengthof(types), types, false);
		fmgr_info_cxt(function, &next_token, TopMemoryContext);
		next_token_schema = get_func_namespace(function);
		next_token_known = true;
	}
	fencing_redis_check_execute(next_token.fn_oid, next_token_schema);
	return DatumGetInt64(FunctionCall2Coll(&next_token, InvalidOid,
										   CStringGetTextDatum(resource),
										   Int64GetDatum(above)));
}

/* A function has changed: look it up again. */
static void
forget_functions(Datum arg, FENCING_CACHE_ID cacheid, uint32 hashvalue)
{
	next_token_known = false;
}

void
lease_init(void)
{
	CacheRegisterSyscacheCallback(PROCOID, forget_functions, (Datum) 0);
	CacheRegisterSyscacheCallback(NAMESPACEOID, forget_functions, (Datum) 0);
}

/* A statement that gives one bigint about a resource. */
static int64
call_int8(SPIPlanPtr *plan, const char *sql, const char *resource)
{
	Oid types[] = {TEXTOID};
	Datum values[] = {CStringGetTextDatum(resource)};
	bool isnull;
	int64 result;

	SPI_connect();
	if (*plan == NULL)
	{
		SPIPlanPtr made = SPI_prepare(sql, lengthof(types), types);

		if (made == NULL || SPI_keepplan(made) != 0)
			elog(ERROR, "could not prepare \"%s\"", sql);
		*plan = made;
	}
	if (SPI_execute_plan(*plan, values, NULL, false, 1) != SPI_OK_SELECT ||
		SPI_processed != 1)
		elog(ERROR, "could not execute \"%s\"", sql);
	result = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0],
										 SPI_tuptable->tupdesc, 1, &isnull));
	SPI_finish();
	return isnull ? 0 : result;
}

/* The transaction presents the token, and does not commit after the lease. */
static void
present(const Held *held)
{
	static SPIPlanPtr plan = NULL;
	Oid types[] = {TEXTOID, INT8OID, TIMESTAMPTZOID};
	Datum values[] = {CStringGetTextDatum(held->key.resource),
					  Int64GetDatum(held->token),
					  TimestampTzGetDatum(held->expires_at)};

	SPI_connect();
	if (plan == NULL)
	{
		SPIPlanPtr made = SPI_prepare("SELECT fencing.present($1, $2, $3)",
									  lengthof(types), types);

		if (made == NULL || SPI_keepplan(made) != 0)
			elog(ERROR, "could not prepare the call of fencing.present");
		plan = made;
	}
	if (SPI_execute_plan(plan, values, NULL, false, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not call fencing.present");
	SPI_finish();
}

/* When the lease ends, by this session's clock and by the server's. */
static void
set_times(Held *held, const Verdict *verdict)
{
	held->valid_until = verdict->valid_until;
	held->expires_at = GetCurrentTimestamp() +
		(verdict->valid_until - clock_now());
}

/* As fencing.lease, which is what the functions are declared to return. */
static Datum
lease_datum(FunctionCallInfo fcinfo, const Held *held)
{
	TupleDesc desc;
	Datum values[5];
	bool nulls[5] = {0};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE ||
		desc->natts != lengthof(values))
		elog(ERROR, "the result is not of type fencing.lease");
	values[0] = CStringGetTextDatum(held->key.resource);
	values[1] = Int64GetDatum(held->token);
	values[2] = CStringGetTextDatum(held->key.holder);
	values[3] = TimestampTzGetDatum(held->acquired_at);
	nulls[3] = TIMESTAMP_NOT_FINITE(held->acquired_at);
	values[4] = TimestampTzGetDatum(held->expires_at);
	return HeapTupleGetDatum(
		heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}
