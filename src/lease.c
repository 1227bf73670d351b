/*-------------------------------------------------------------------------
 *
 * lease.c
 *		Leases whose tokens come from this database.
 *
 * A lease is the second half of a resource's row in fencing.issued: its token,
 * who holds it, until when.  It is held from the grant until it is released,
 * revoked, or its time is over by the server's clock; a lapsed one stays in
 * its row, in force for nobody, until the next grant takes the row.  Nothing
 * about a lease is kept in a session: whoever knows resource and token may
 * renew and release it, from any connection.
 *
 * - A busy lease is found busy without touching it.  fencing_store_peek()
 *   shows the row's last committed state and whether a running transaction is
 *   changing it; such a row is treated as busy, since what comes of it is not
 *   known.  So a caller that gives up has written nothing and locks nothing,
 *   and its transaction goes on.
 * - A grant locks exactly the version of the row that was found free or
 *   lapsed, without waiting (fencing_store_lock_peeked).  If that fails,
 *   somebody was faster, and it looks again.  A row lock is therefore never
 *   taken on somebody else's lease, which would keep the holder from renewing
 *   it.
 * - Only the first in the resource's queue may take a lease from nobody (see
 *   queue.c); a newcomer does not overtake those who wait.  A holder that
 *   acquires again what it holds does not queue: those who wait, wait for it.
 * - All of it looks at the newest committed state, whatever the isolation
 *   level of the transaction.
 * - The times are read when they are needed, never the transaction's start.
 *   An expiry counts from the grant, however long the wait for it was.
 * - Tokens are taken while the row is locked, or, for a resource without a
 *   row, by the only session that is about to add it.
 *
 * A dump carries the rows, because of their tokens.  "origin" says which
 * database granted the lease, and in a restored copy it is no lease.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "common/hashfn.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include "duration.h"
#include "issuer.h"
#include "mark.h"
#include "queue.h"
#include "refuse.h"
#include "stats.h"
#include "store.h"
#include "tokens.h"

#define HOLDER_MAX 512		   /* bytes */
#define HOLDER_RANDOM_BYTES 16 /* of a holder that gave no name */

/* A row's lease, or the one to be written into it. */
typedef struct Lease
{
	int64 token; /* 0: none was granted since the last release */
	char holder[HOLDER_MAX + 1];
	TimestampTz acquired_at;
	TimestampTz expires_at;
} Lease;

/* What a caller asks for. */
typedef struct Request
{
	ResourceName name;
	int64 ttl; /* microseconds */
	char holder[HOLDER_MAX + 1];
} Request;

/* The outcome of one look at a lease. */
typedef enum Attempt
{
	ATTEMPT_GRANTED,
	ATTEMPT_BUSY,	 /* somebody holds it */
	ATTEMPT_CHANGES, /* a running transaction changes the row */
	ATTEMPT_LOCKED,	 /* a running transaction has locked the row */
	ATTEMPT_FREE,	 /* to be had by the first in the queue */
	ATTEMPT_AGAIN	 /* it changed just now */
} Attempt;

FENCING_FUNCTION(fencing_acquire);
FENCING_FUNCTION(fencing_try_acquire);
FENCING_FUNCTION(fencing_renew);
FENCING_FUNCTION(fencing_release);
FENCING_FUNCTION(fencing_revoke);
FENCING_FUNCTION(fencing_lease_origin);

static void read_request(FunctionCallInfo fcinfo, int holder_argno,
						 Request *request);
static Attempt attempt(Store *store, const Request *request, bool may_take,
					   Lease *lease, InFlight *in_flight);
static bool acquire(const Request *request, int64 wait, Lease *lease,
					WaitLimit *limit);
static bool lock_held(Store *store, const ResourceName *name, int64 token,
					  Lease *lease);
static void lease_of_row(Store *store, Lease *lease);
static bool in_force(const Lease *lease);
static void write_lease(Store *store, const Request *request, Lease *lease,
						bool new_token, bool new_row);
static Datum lease_datum(FunctionCallInfo fcinfo, const ResourceName *name,
						 const Lease *lease);
static int64 origin(void);
static void prevent_read_only(const char *function);

/* ---------------------------------------------------------------------------
 * The functions
 * ---------------------------------------------------------------------------
 */

/* fencing.acquire(resource, ttl, wait, holder) */
Datum
fencing_acquire(PG_FUNCTION_ARGS)
{
	Request request;
	Lease lease;
	WaitLimit limit;
	int64 wait;

	prevent_read_only("fencing.acquire()");
	read_request(fcinfo, 3, &request);
	wait = fencing_duration_arg(fcinfo, 2, "wait", true);
	if (!acquire(&request, wait, &lease, &limit))
		fencing_lease_busy(request.name.data, lease.token, lease.holder,
						   lease.expires_at,
						   limit == LIMIT_LOCK_TIMEOUT ? "lock_timeout"
							   : wait > 0			   ? "wait"
													   : NULL);
	return lease_datum(fcinfo, &request.name, &lease);
}

/* fencing.try_acquire(resource, ttl, holder): NULL when busy */
Datum
fencing_try_acquire(PG_FUNCTION_ARGS)
{
	Request request;
	Lease lease;
	WaitLimit limit;

	prevent_read_only("fencing.try_acquire()");
	read_request(fcinfo, 2, &request);
	if (!acquire(&request, 0, &lease, &limit))
		PG_RETURN_NULL();
	return lease_datum(fcinfo, &request.name, &lease);
}

/* fencing.renew(resource, token, ttl): NULL when not held any more */
Datum
fencing_renew(PG_FUNCTION_ARGS)
{
	ResourceName name;
	Store store;
	Lease lease;
	int64 token;
	int64 ttl;
	bool held;

	prevent_read_only("fencing.renew()");
	fencing_resource_from_arg(PG_ARGISNULL(0) ? (Datum) 0 : PG_GETARG_DATUM(0),
							  PG_ARGISNULL(0), "resource", &name);
	token = fencing_token_arg(fcinfo, 1);
	ttl = fencing_duration_arg(fcinfo, 2, "ttl", false);

	fencing_store_open(&store, STORE_ISSUED, RowExclusiveLock);
	held = lock_held(&store, &name, token, &lease);
	if (held)
	{
		int cols[] = {STORE_ATT_UPDATED, ISSUED_ATT_EXPIRES};
		TimestampTz now = GetCurrentTimestamp();
		Datum values[] = {TimestampTzGetDatum(now),
						  TimestampTzGetDatum(now + ttl)};
		bool nulls[] = {false, false};

		fencing_store_modify(&store, lengthof(cols), cols, values, nulls);
		lease.expires_at = now + ttl;

		/* a crash must not shorten what the holder relies on */
		ForceSyncCommit();
	}
	fencing_store_close(&store);
	if (held)
		return lease_datum(fcinfo, &name, &lease);
	fencing_stat_lease(LEASE_LOST, 0);
	fencing_lease_not_held(name.data, token, lease.token, lease.expires_at);
	PG_RETURN_NULL();
}

/* fencing.release(resource, token): false when not held */
Datum
fencing_release(PG_FUNCTION_ARGS)
{
	ResourceName name;
	Store store;
	Lease lease;
	int64 token;
	bool held;

	prevent_read_only("fencing.release()");
	fencing_resource_from_arg(PG_ARGISNULL(0) ? (Datum) 0 : PG_GETARG_DATUM(0),
							  PG_ARGISNULL(0), "resource", &name);
	token = fencing_token_arg(fcinfo, 1);

	fencing_store_open(&store, STORE_ISSUED, RowExclusiveLock);
	held = lock_held(&store, &name, token, &lease);
	if (held)
	{
		int cols[] = {STORE_ATT_UPDATED, ISSUED_ATT_LEASE_TOKEN};
		Datum values[] = {TimestampTzGetDatum(GetCurrentTimestamp()),
						  (Datum) 0};
		bool nulls[] = {false, true};

		/* the rest stays, for who wants to know who had it last */
		fencing_store_modify(&store, lengthof(cols), cols, values, nulls);
		fencing_queue_wake_at_commit(&name);
	}
	fencing_store_close(&store);
	if (!held)
	{
		fencing_stat_lease(LEASE_LOST, 0);
		fencing_lease_not_held(name.data, token, lease.token,
							   lease.expires_at);
	}
	PG_RETURN_BOOL(held);
}

/*
 * fencing.revoke(resource): ends the lease, whoever holds it, and raises the
 * mark above its token.  Returns the new mark.
 *
 * The mark first, then the lease: a holder writes under the mark, and then
 * releases the lease in the same transaction.  In the other order the two
 * would wait for each other.  A lease granted in between has a newer token
 * than the one that the mark was raised to, so another round is needed.
 */
Datum
fencing_revoke(PG_FUNCTION_ARGS)
{
	static const Rule plain_rule = {0};
	ResourceName name;
	Store store;
	Lease lease;
	int64 last;
	int64 token = 0;
	bool fenced = false;

	prevent_read_only("fencing.revoke()");
	fencing_resource_from_arg(PG_ARGISNULL(0) ? (Datum) 0 : PG_GETARG_DATUM(0),
							  PG_ARGISNULL(0), "resource", &name);

	fencing_store_open(&store, STORE_ISSUED, RowExclusiveLock);
	while (!fenced)
	{
		int cols[] = {STORE_ATT_TOKEN, STORE_ATT_UPDATED,
					  ISSUED_ATT_LEASE_TOKEN};
		Datum values[lengthof(cols)] = {0};
		bool nulls[] = {false, false, true};
		Refusal refusal = {0};

		CHECK_FOR_INTERRUPTS();
		token = fencing_issue_token(&name, token);
		if (fencing_mark_accept(&name, token, &plain_rule, &refusal) ==
			VERDICT_REFUSED)
			continue;
		if (!fencing_store_find(&store, name.data, name.len, &last))
		{
			fenced = fencing_store_insert(&store, name.data, name.len, token);
			continue;
		}
		if (fencing_store_lock(&store, LockTupleNoKeyExclusive, true, &last) !=
			TM_Ok)
			continue;
		lease_of_row(&store, &lease);
		if (lease.token > token)
			continue;
		values[0] = Int64GetDatum(Max(last, token));
		values[1] = TimestampTzGetDatum(GetCurrentTimestamp());
		fencing_store_modify(&store, lengthof(cols), cols, values, nulls);
		fenced = true;
	}
	fencing_store_close(&store);
	fencing_queue_wake_at_commit(&name);
	PG_RETURN_INT64(token);
}

/* fencing.lease_origin(): the leases of this value are in force here */
Datum
fencing_lease_origin(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(origin());
}

/* ---------------------------------------------------------------------------
 * Getting a lease
 * ---------------------------------------------------------------------------
 */

/* Arguments resource, ttl, and holder at its place. */
static void
read_request(FunctionCallInfo fcinfo, int holder_argno, Request *request)
{
	fencing_resource_from_arg(PG_ARGISNULL(0) ? (Datum) 0 : PG_GETARG_DATUM(0),
							  PG_ARGISNULL(0), "resource", &request->name);
	request->ttl = fencing_duration_arg(fcinfo, 1, "ttl", false);
	if (!PG_ARGISNULL(holder_argno))
	{
		text *holder = PG_GETARG_TEXT_PP(holder_argno);

		int len = VARSIZE_ANY_EXHDR(holder);

		if (len == 0 || len > HOLDER_MAX)
			fencing_bad_argument("holder", len == 0 ? "empty" : "too long",
								 "Give a name of 1 to 512 bytes, or NULL for one that is made up.");
		text_to_cstring_buffer(holder, request->holder,
							   sizeof(request->holder));
	}
	else
	{
		char bytes[HOLDER_RANDOM_BYTES];

		if (!pg_strong_random(bytes, sizeof(bytes)))
			ereport(ERROR,
					(errcode(ERRCODE_INTERNAL_ERROR),
					 errmsg("could not generate random values")));
		request
			->holder[hex_encode(bytes, sizeof(bytes), request->holder)] = '\0';
	}
}

/*
 * Tries until the lease is granted (true) or the wait is over (false).  Then
 * *lease is the one that is in the way, as far as it is known.
 */
static bool
acquire(const Request *request, int64 wait, Lease *lease, WaitLimit *limit)
{
	Store store;
	Queue queue;
	InFlight in_flight;
	bool go_on = true;
	bool granted = false;

	*lease = (Lease){0};
	*limit = LIMIT_WAIT; /* also of no wait at all */
	fencing_store_open(&store, STORE_ISSUED, RowExclusiveLock);
	fencing_queue_init(&queue, &request->name, wait);
	while (go_on && !granted)
	{
		CHECK_FOR_INTERRUPTS();
		switch (attempt(&store, request, queue.first, lease, &in_flight))
		{
			case ATTEMPT_GRANTED:
				granted = true;
				break;
			case ATTEMPT_AGAIN:
				break;
			case ATTEMPT_FREE:
				go_on = fencing_queue_enter(&queue, limit);
				break;
			case ATTEMPT_BUSY:
				if (queue.first)
					go_on = fencing_queue_sleep_until(&queue,
													  lease->expires_at,
													  limit);
				else
					go_on = wait > 0 && fencing_queue_enter(&queue, limit);
				break;
			case ATTEMPT_CHANGES:
				if (queue.first)
					go_on = fencing_queue_wait_for(&queue, &store, &in_flight,
												   limit);
				else
					go_on = wait > 0 && fencing_queue_enter(&queue, limit);
				break;
			case ATTEMPT_LOCKED:
				if (queue.first || wait == 0)
					go_on = fencing_queue_nap(&queue, limit);
				else
					go_on = fencing_queue_enter(&queue, limit);
				break;
		}
	}
	fencing_queue_leave(&queue);
	fencing_store_close(&store);
	fencing_stat_lease(granted ? LEASE_ACQUIRED : LEASE_BUSY,
					   (uint64) fencing_queue_waited(&queue));
	return granted;
}

/* One look, and the grant if it can be had. */
static Attempt
attempt(Store *store, const Request *request, bool may_take, Lease *lease,
		InFlight *in_flight)
{
	bool isnull;
	bool locked;
	int64 last;

	if (!fencing_store_peek(store, request->name.data, request->name.len,
							in_flight))
	{
		if (!may_take)
			return ATTEMPT_FREE;
		lease->token = fencing_issue_token(&request->name, 0);
		write_lease(store, request, lease, true, true);
		return lease->token != 0 ? ATTEMPT_GRANTED : ATTEMPT_AGAIN;
	}
	lease_of_row(store, lease);
	if (TransactionIdIsValid(in_flight->xid))
		return ATTEMPT_CHANGES;
	if (in_force(lease))
	{
		if (strcmp(lease->holder, request->holder) != 0)
			return ATTEMPT_BUSY;
		if (!fencing_store_lock_peeked(store, &locked))
			return locked ? ATTEMPT_LOCKED : ATTEMPT_AGAIN;
		write_lease(store, request, lease, false, false);
		return ATTEMPT_GRANTED;
	}
	if (!may_take)
		return ATTEMPT_FREE;
	if (!fencing_store_lock_peeked(store, &locked))
		return locked ? ATTEMPT_LOCKED : ATTEMPT_AGAIN;
	if (lease->token != 0)
		fencing_stat_lease(LEASE_EXPIRED, 0);
	last = DatumGetInt64(fencing_store_value(store, STORE_ATT_TOKEN, &isnull));
	lease->token = fencing_issue_token(&request->name, last);
	write_lease(store, request, lease, true, false);
	return ATTEMPT_GRANTED;
}

/*
 * Writes a lease with lease->token into the row that is locked, or into a new
 * one; the rest of *lease is filled in.  Where the new row is there already,
 * lease->token becomes 0.
 */
static void
write_lease(Store *store, const Request *request, Lease *lease, bool new_token,
			bool new_row)
{
	Datum values[ISSUED_NATTS];
	bool nulls[ISSUED_NATTS] = {false};
	int cols[ISSUED_NATTS];
	bool has_application = application_name != NULL &&
		application_name[0] != '\0';

	/* the clock runs from here: everything that could wait is done */
	TimestampTz now = GetCurrentTimestamp();

	if (new_token)
		lease->acquired_at = now;
	lease->expires_at = now + request->ttl;
	strlcpy(lease->holder, request->holder, sizeof(lease->holder));

	values[STORE_ATT_RESOURCE - 1] = PointerGetDatum(
		cstring_to_text_with_len(request->name.data, request->name.len));
	values[STORE_ATT_TOKEN - 1] = Int64GetDatum(lease->token);
	values[STORE_ATT_UPDATED - 1] = TimestampTzGetDatum(now);
	values[ISSUED_ATT_LEASE_TOKEN - 1] = Int64GetDatum(lease->token);
	values[ISSUED_ATT_HOLDER - 1] = CStringGetTextDatum(lease->holder);
	values[ISSUED_ATT_ACQUIRED - 1] = TimestampTzGetDatum(lease->acquired_at);
	values[ISSUED_ATT_EXPIRES - 1] = TimestampTzGetDatum(lease->expires_at);
	values[ISSUED_ATT_PID - 1] = Int32GetDatum(MyProcPid);
	values[ISSUED_ATT_APPLICATION - 1] = has_application
		? CStringGetTextDatum(application_name)
		: (Datum) 0;
	nulls[ISSUED_ATT_APPLICATION - 1] = !has_application;
	values[ISSUED_ATT_ORIGIN - 1] = Int64GetDatum(origin());

	/* again what was held: the token in hand must not become the last one */
	if (new_row)
	{
		if (!fencing_store_insert_row(store, values, nulls))
			lease->token = 0;
	}
	else
	{
		int first = new_token ? STORE_ATT_TOKEN : STORE_ATT_UPDATED;

		for (int att = first; att <= ISSUED_NATTS; att++)
			cols[att - first] = att;
		fencing_store_modify(store, ISSUED_NATTS - first + 1, cols,
							 values + first - 1, nulls + first - 1);
	}

	/* the client acts on the commit, so it has to be durable */
	ForceSyncCommit();
}

/* ---------------------------------------------------------------------------
 * Keeping and ending one
 * ---------------------------------------------------------------------------
 */

/*
 * Locks the row of a lease that is held with this token, and fills in *lease.
 * Waits for a transaction that is changing it.  Returns false, with nothing
 * locked, if the lease is not held or another's; *lease is that one then
 * (token 0: there is none).
 */
static bool
lock_held(Store *store, const ResourceName *name, int64 token, Lease *lease)
{
	InFlight in_flight;
	Queue patience; /* for lock_timeout alone; nobody queues here */
	WaitLimit limit;
	bool locked;

	fencing_queue_init(&patience, name, PG_INT64_MAX);
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		*lease = (Lease){0};
		if (!fencing_store_peek(store, name->data, name->len, &in_flight))
			return false;
		if (TransactionIdIsValid(in_flight.xid))
			fencing_store_wait(store, &in_flight);
		else
		{
			lease_of_row(store, lease);
			if (lease->token != token || !in_force(lease))
				return false;

			if (fencing_store_lock_peeked(store, &locked))
				return in_force(lease);
			if (locked && !fencing_queue_nap(&patience, &limit))
				fencing_lease_busy(name->data, lease->token, lease->holder,
								   lease->expires_at, "lock_timeout");
		}
	}
}

static void
lease_of_row(Store *store, Lease *lease)
{
	bool isnull;
	Datum value;

	*lease = (Lease){0};
	value = fencing_store_value(store, ISSUED_ATT_ORIGIN, &isnull);
	if (isnull || DatumGetInt64(value) != origin())
		return;
	value = fencing_store_value(store, ISSUED_ATT_LEASE_TOKEN, &isnull);
	if (isnull)
		return;
	lease->token = DatumGetInt64(value);
	value = fencing_store_value(store, ISSUED_ATT_HOLDER, &isnull);
	if (!isnull)
		text_to_cstring_buffer(DatumGetTextPP(value), lease->holder,
							   sizeof(lease->holder));
	value = fencing_store_value(store, ISSUED_ATT_ACQUIRED, &isnull);
	lease->acquired_at = isnull ? DT_NOBEGIN : DatumGetTimestampTz(value);
	value = fencing_store_value(store, ISSUED_ATT_EXPIRES, &isnull);
	lease->expires_at = isnull ? DT_NOBEGIN : DatumGetTimestampTz(value);
}

/* Does anybody hold it at this moment? */
static bool
in_force(const Lease *lease)
{
	return lease->token != 0 && GetCurrentTimestamp() < lease->expires_at;
}

/* ---------------------------------------------------------------------------
 * Small things
 * ---------------------------------------------------------------------------
 */

static Datum
lease_datum(FunctionCallInfo fcinfo, const ResourceName *name,
			const Lease *lease)
{
	TupleDesc desc;
	Datum values[5];
	bool nulls[5] = {false};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE ||
		desc->natts != lengthof(values))
		elog(ERROR, "a lease is not what it should be");
	values[0] = PointerGetDatum(
		cstring_to_text_with_len(name->data, name->len));
	values[1] = Int64GetDatum(lease->token);
	values[2] = CStringGetTextDatum(lease->holder);
	values[3] = TimestampTzGetDatum(lease->acquired_at);
	values[4] = TimestampTzGetDatum(lease->expires_at);
	return HeapTupleGetDatum(
		heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

/*
 * A number for this database of this cluster.  A physical standby has the
 * same, so a promotion keeps the leases; a copy of the database has another.
 */
static int64
origin(void)
{
	return (int64) hash_combine64(GetSystemIdentifier(),
								  hash_bytes_uint32_extended(MyDatabaseId, 0));
}

static void
prevent_read_only(const char *function)
{
	PreventCommandIfReadOnly(function);
	PreventCommandDuringRecovery(function);
}
