/*-------------------------------------------------------------------------
 *
 * claim.c
 *		SQL functions that raise, lower and compact resource marks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "commit.h"
#include "logline.h"
#include "mark.h"
#include "refuse.h"
#include "stats.h"
#include "store.h"
#include "tokens.h"

/*
 * Did the token of mark m come from this database's issuer?  (A mark of 0 has
 * none.)  The row of fencing.issued that says so stays as long as the mark.
 */
#define ISSUED_HERE                                                           \
	"(m.token OPERATOR(pg_catalog.=) 0"                                       \
	" OR EXISTS (SELECT FROM fencing.issued i"                                \
	"            WHERE i.resource OPERATOR(pg_catalog.=) m.resource"          \
	"              AND i.token OPERATOR(pg_catalog.>=) m.token))"

FENCING_FUNCTION(fencing_claim_one);
FENCING_FUNCTION(fencing_claim_many);
FENCING_FUNCTION(fencing_set_mark);
FENCING_FUNCTION(fencing_compact);

static Datum claim(FunctionCallInfo fcinfo, bool arrays);
static void refuse_foreign_marks(void);

/* fencing.claim(resource, token, deadline) */
Datum
fencing_claim_one(PG_FUNCTION_ARGS)
{
	return claim(fcinfo, false);
}

/* fencing.claim(resources, tokens, deadline) */
Datum
fencing_claim_many(PG_FUNCTION_ARGS)
{
	return claim(fcinfo, true);
}

/*
 * Presents the tokens and raises the marks, in the order of the names, so that
 * two claims of the same resources do not wait for each other in a circle.
 */
static Datum
claim(FunctionCallInfo fcinfo, bool arrays)
{
	static const Rule plain_rule = {0};
	int count;
	TokenArg *args = fencing_token_args(fcinfo, arrays, &count);
	StatCounter *counter;

	PreventCommandIfReadOnly("fencing.claim()");
	PreventCommandDuringRecovery("fencing.claim()");
	counter = fencing_stat_counter(STAT_CLAIMS);

	for (int i = 0; i < count; i++)
	{
		Refusal refusal = {0};

		refusal.resource = args[i].name.data;
		refusal.mark_stored = true;
		refusal.counter = counter;
		if (fencing_mark_accept(&args[i].name, args[i].token, &plain_rule,
								&refusal) == VERDICT_REFUSED)
			fencing_refuse(&refusal);
		fencing_stat_accept(counter);
	}
	fencing_commit_carried |= count > 0;
	fencing_present(args, count, fcinfo, 2);
	PG_RETURN_VOID();
}

/*
 * fencing.set_mark(resource, token, reason): an administrator lowers a mark
 * that a wrong token raised.  Raising is what claim is for.  Returns the mark
 * as it was.
 */
Datum
fencing_set_mark(PG_FUNCTION_ARGS)
{
	ResourceName name;
	Store store;
	int64 token;
	int64 mark;
	char *reason;
	bool own;
	StringInfoData line;

	fencing_resource_from_arg(PG_ARGISNULL(0) ? (Datum) 0 : PG_GETARG_DATUM(0),
							  PG_ARGISNULL(0), "resource", &name);
	if (PG_ARGISNULL(1))
		fencing_bad_argument("token", "NULL",
							 "Give the number that the mark shall have, 0 for none.");
	token = PG_GETARG_INT64(1);
	if (token < 0)
		fencing_bad_argument("token", "negative", "A mark is 0 or more.");
	reason = PG_ARGISNULL(2) ? "" : text_to_cstring(PG_GETARG_TEXT_PP(2));
	if (reason[strspn(reason, " \t\r\n")] == '\0')
		fencing_bad_argument("reason", PG_ARGISNULL(2) ? "NULL" : "empty",
							 "Say why the mark is set; it is written to the server log.");
	PreventCommandIfReadOnly("fencing.set_mark()");
	PreventCommandDuringRecovery("fencing.set_mark()");

	fencing_store_open(&store, STORE_MARKS, RowExclusiveLock);
	while (!fencing_store_find(&store, name.data, name.len, &mark) ||
		   fencing_store_lock(&store, LockTupleNoKeyExclusive, true, &mark) !=
			   TM_Ok)
	{
		CHECK_FOR_INTERRUPTS();

		/* a compacted mark is known by the floor, and gets a row again */
		mark = fencing_mark_read(&name, &own);
		if (mark == 0)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_OBJECT),
					 errmsg("resource \"%s\" has no mark", name.data),
					 errhint(
						 "View fencing.marks lists the marks that there are.")));
		(void) fencing_store_insert(&store, name.data, name.len, mark);
	}
	if (token > mark)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("mark of resource \"%s\" cannot be raised with fencing.set_mark",
						name.data),
				 errdetail("Resource \"%s\": token " INT64_FORMAT
						   ", mark " INT64_FORMAT ".",
						   name.data, token, mark),
				 errhint("fencing.claim raises a mark.")));
	if (token < mark)
		fencing_store_update(&store, token);
	fencing_store_close(&store);
	fencing_checked_forget(&name);

	fencing_log_begin(&line, "set_mark");
	fencing_log_text(&line, "resource", name.data);
	fencing_log_number(&line, "token", token);
	fencing_log_number(&line, "mark", mark);
	fencing_log_who(&line);
	fencing_log_text(&line, "reason", reason);
	fencing_log_write(&line, 0);
	PG_RETURN_INT64(mark);
}

/*
 * fencing.compact(before): replaces marks that were last raised longer ago
 * than "before" by the floor.  Returns how many.
 *
 * Marks that a transaction holds are left alone (SKIP LOCKED), so compaction
 * waits for no writer, and what a running transaction remembers as checked
 * stays true.  The floor is raised and the rows are deleted in one
 * transaction; see mark.c for how a first use meets that.
 */
Datum
fencing_compact(PG_FUNCTION_ARGS)
{
	Interval zero = {0};
	Interval *before;
	Oid argtypes[1] = {INTERVALOID};
	Datum args[1];
	bool isnull;
	int64 compacted;

	if (PG_ARGISNULL(0))
		fencing_bad_argument("before", "NULL",
							 "Give the age from which marks are replaced.");
	before = PG_GETARG_INTERVAL_P(0);
	if (DatumGetInt32(DirectFunctionCall2(interval_cmp,
										  IntervalPGetDatum(before),
										  IntervalPGetDatum(&zero))) < 0)
		fencing_bad_argument("before", "negative",
							 "Give the age from which marks are replaced.");
	args[0] = PG_GETARG_DATUM(0);
	PreventCommandIfReadOnly("fencing.compact()");
	PreventCommandDuringRecovery("fencing.compact()");

	SPI_connect();

	/* one compaction at a time; writers do not mind this lock */
	SPI_execute("LOCK TABLE fencing.marks IN SHARE UPDATE EXCLUSIVE MODE",
				false, 0);
	refuse_foreign_marks();

	if (SPI_execute_with_args("WITH old AS MATERIALIZED ("
							  "  SELECT m.resource, m.token FROM fencing.marks m"
							  "  WHERE m.resource OPERATOR(pg_catalog.<>) ''"
							  "    AND " ISSUED_HERE
							  "    AND m.updated_at OPERATOR(pg_catalog.<)"
							  "        (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) $1)"
							  "  FOR UPDATE SKIP LOCKED),"
							  " floor AS ("
							  "  INSERT INTO fencing.marks AS f (resource, token, updated_at)"
							  "  SELECT '', pg_catalog.max(old.token), pg_catalog.clock_timestamp()"
							  "  FROM old HAVING pg_catalog.count(*) OPERATOR(pg_catalog.>) 0"
							  "  ON CONFLICT (resource) DO UPDATE"
							  "  SET token = GREATEST(f.token, excluded.token),"
							  "      updated_at = excluded.updated_at),"
							  " gone AS ("
							  "  DELETE FROM fencing.marks m USING old"
							  "  WHERE m.resource OPERATOR(pg_catalog.=) old.resource"
							  "  RETURNING m.resource)"
							  " SELECT pg_catalog.count(*) FROM gone",
							  1, argtypes, args, NULL, false,
							  0) != SPI_OK_SELECT)
		elog(ERROR, "compacting the marks failed");
	compacted = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0],
											SPI_tuptable->tupdesc, 1,
											&isnull));

	/*
	 * What was issued below the floor and has no mark tells nothing any more.
	 * A row that somebody is taking a token from is left for the next time.
	 */
	if (SPI_execute("DELETE FROM fencing.issued WHERE resource OPERATOR(pg_catalog.=) ANY ("
					"  SELECT i.resource FROM fencing.issued i"
					"  WHERE i.token OPERATOR(pg_catalog.<) (SELECT f.token"
					"        FROM fencing.marks f WHERE f.resource OPERATOR(pg_catalog.=) '')"
					"    AND NOT EXISTS (SELECT FROM fencing.marks m"
					"        WHERE m.resource OPERATOR(pg_catalog.=) i.resource)"
					"  FOR UPDATE OF i SKIP LOCKED)",
					false, 0) != SPI_OK_DELETE)
		elog(ERROR, "compacting the issued tokens failed");
	SPI_finish();
	PG_RETURN_INT64(compacted);
}

/*
 * The floor stands for every resource without a mark of its own, those to come
 * included.  Only the database's issuer is sure to give them tokens above it;
 * a counter of somebody else would be locked out.
 */
static void
refuse_foreign_marks(void)
{
	StringInfoData names;

	SPI_execute("SELECT m.resource, m.token FROM fencing.marks m"
				" WHERE m.resource OPERATOR(pg_catalog.<>) ''"
				"   AND " ISSUED_HERE
				" IS NOT TRUE ORDER BY m.resource LIMIT 6",
				false, 0);
	if (SPI_processed == 0)
		return;
	initStringInfo(&names);
	for (uint64 i = 0; i < Min(SPI_processed, 5); i++)
		appendStringInfo(&names, "%s\"%s\" (%s)", i > 0 ? ", " : "",
						 SPI_getvalue(SPI_tuptable->vals[i],
									  SPI_tuptable->tupdesc, 1),
						 SPI_getvalue(SPI_tuptable->vals[i],
									  SPI_tuptable->tupdesc, 2));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg(
				 "marks cannot be compacted: some tokens did not come from this database"),
			 errdetail("Not issued by fencing.next_token: %s%s.", names.data,
					   SPI_processed > 5 ? ", and more" : ""),
			 errhint(
				 "The floor would lock out resources whose tokens come from elsewhere.")));
}
