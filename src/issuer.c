/*-------------------------------------------------------------------------
 *
 * issuer.c
 *		The database's own source of tokens.
 *
 * Tokens are values of one logged sequence, so they rise across all resources
 * and none comes twice, whatever is rolled back, purged or dropped.  They are
 * read while the resource's row in fencing.issued is locked, so that for one
 * resource the order of tokens is the order in which they are handed out.
 *
 * Two things can put the sequence below a number that is in use already: a
 * mark raised with a foreign token, and the promotion of a standby that never
 * saw the last values.  In both cases the sequence itself is moved ahead
 * (after a promotion by 2^40 for each timeline), rather than adding something
 * to what it returns: so its value is always the last token handed out, a
 * dump carries it to a server on another timeline, and it never turns back.
 * Moving needs to be alone with the sequence, since setval() after somebody
 * else's nextval() could lower it; a short lock serializes the two.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "commands/sequence.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/rel.h"

#include "issuer.h"
#include "mark.h"
#include "refuse.h"
#include "store.h"

#define ISSUER_SEQUENCE "token_sequence"
#define TIMELINE_SHIFT 40

/*
 * The sequence is common to all resources, so a mark that somebody's absurd
 * token has raised must not drag it to its end.  A mark above this, or above
 * what the sequence has reached by itself, concerns its own resource alone.
 */
#define FOREIGN_LIMIT (((int64) 1 << 53) - 1)

/* The highest value read of the sequence, and when it was valid. */
static int64 reached = 0;
static uint64 reached_generation = 0;

FENCING_FUNCTION(fencing_next_token);
FENCING_FUNCTION(fencing_next_token_above);

static Datum next_token(FunctionCallInfo fcinfo, int64 above);
static int64 sequence_next(const char *resource, int64 above);
static void move_sequence(Oid seqid, int64 value);
static void flush_sequence(void);

bool
fencing_issuer_reached(int64 token, int64 *last)
{
	/* the sequence may have been dropped with the extension */
	if (reached_generation != fencing_store_generation)
		reached = 0;
	if (token > reached)
	{
		LOCAL_FCINFO(fcinfo, 1);
		Datum value;

		InitFunctionCallInfoData(*fcinfo, NULL, 1, InvalidOid, NULL, NULL);
		fcinfo->args[0].value = ObjectIdGetDatum(
			fencing_relation_oid(ISSUER_SEQUENCE));
		fcinfo->args[0].isnull = false;
		value = pg_sequence_last_value(fcinfo);
		reached = fcinfo->isnull ? 0 : DatumGetInt64(value);
		reached_generation = fencing_store_generation;
	}
	*last = reached;
	return token <= reached;
}

int64
fencing_issue_token(const ResourceName *name, int64 last)
{
	bool own;
	int64 mark = fencing_mark_read(name, &own);
	int64 token = sequence_next(name->data, Max(last, mark));

	flush_sequence();

	/* the client acts on the commit, so it has to be durable */
	ForceSyncCommit();
	return token;
}

int64
fencing_issue_command_token(const char *command, int64 last, bool durable)
{
	int64 token = sequence_next(command, last);

	if (durable)
		flush_sequence();
	return token;
}

/* fencing.next_token(resource) */
Datum
fencing_next_token(PG_FUNCTION_ARGS)
{
	return next_token(fcinfo, 0);
}

/*
 * fencing.next_token(resource, above): for an issuer of somebody else's that
 * takes its tokens from here, so that they cannot come twice, and must not
 * fall behind a counter of its own.
 */
Datum
fencing_next_token_above(PG_FUNCTION_ARGS)
{
	if (PG_ARGISNULL(1) || PG_GETARG_INT64(1) < 0)
		fencing_bad_argument("above", PG_ARGISNULL(1) ? "NULL" : "negative",
							 "Give the number that the token has to be above, 0 for none.");
	return next_token(fcinfo, PG_GETARG_INT64(1));
}

static Datum
next_token(FunctionCallInfo fcinfo, int64 above)
{
	ResourceName name;
	Store store;
	int64 last = 0;
	int64 token;

	fencing_resource_from_arg(PG_ARGISNULL(0) ? (Datum) 0 : PG_GETARG_DATUM(0),
							  PG_ARGISNULL(0), "resource", &name);
	PreventCommandIfReadOnly("fencing.next_token()");
	PreventCommandDuringRecovery("fencing.next_token()");

	fencing_store_open(&store, STORE_ISSUED, RowExclusiveLock);
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (!fencing_store_find(&store, name.data, name.len, &last))
		{
			/* reserve the name; the number follows below */
			(void) fencing_store_insert(&store, name.data, name.len, 0);
			continue;
		}
		if (fencing_store_lock(&store, LockTupleNoKeyExclusive, true, &last) ==
			TM_Ok)
			break;
	}
	token = fencing_issue_token(&name, Max(last, above));
	fencing_store_update(&store, token);
	fencing_store_close(&store);
	PG_RETURN_INT64(token);
}

/*
 * The next value of the sequence, after moving it to where that is above the
 * given number and within the current timeline's range or a later one.
 */
static int64
sequence_next(const char *resource, int64 above)
{
	Oid seqid = fencing_relation_oid(ISSUER_SEQUENCE);
	int64 base = (int64) (GetWALInsertionTimeLine() - 1) << TIMELINE_SHIFT;
	int64 low = ((int64) 1 << TIMELINE_SHIFT) - 1;
	int64 reached_now;
	int64 token;

	/* ends with this function; an error ends it with the transaction */
	LockDatabaseObject(RelationRelationId, seqid, 0, ExclusiveLock);

	(void) fencing_issuer_reached(PG_INT64_MAX, &reached_now);
	if (reached_now < base)
		above = Max(above, base + (reached_now & low));
	if (reached_now == PG_INT64_MAX || above > Max(reached_now, FOREIGN_LIMIT))
		fencing_tokens_exhausted(resource, Max(above, reached_now));
	if (above > reached_now)
		move_sequence(seqid, above);
	token = nextval_internal(seqid, false);

	UnlockDatabaseObject(RelationRelationId, seqid, 0, ExclusiveLock);
	return token;
}

/* setval() asks for rights, and nobody has them but the owner. */
static void
move_sequence(Oid seqid, int64 value)
{
	Relation sequence = relation_open(seqid, AccessShareLock);
	Oid user;
	int security;

	GetUserIdAndSecContext(&user, &security);
	SetUserIdAndSecContext(sequence->rd_rel->relowner,
						   security | SECURITY_LOCAL_USERID_CHANGE);
	DirectFunctionCall2(setval_oid, ObjectIdGetDatum(seqid),
						Int64GetDatum(value));

	/* an error leaves this to the (sub)transaction's abort */
	SetUserIdAndSecContext(user, security);
	relation_close(sequence, NoLock);
}

/*
 * Makes sure that a crash does not take back what nextval() returned, however
 * this transaction ends.  The sequence logs a batch of values at a time, so
 * the record in question may be another transaction's; the page knows it.
 */
static void
flush_sequence(void)
{
	Relation sequence = relation_open(fencing_relation_oid(ISSUER_SEQUENCE),
									  AccessShareLock);
	Buffer buffer = ReadBuffer(sequence, 0);
	XLogRecPtr lsn;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	lsn = PageGetLSN(BufferGetPage(buffer));
	UnlockReleaseBuffer(buffer);
	relation_close(sequence, NoLock);
	XLogFlush(lsn);
}
