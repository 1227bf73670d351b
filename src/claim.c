/*-------------------------------------------------------------------------
 *
 * claim.c
 *		SQL functions that raise and lower resource marks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "claim.h"
#include "commit.h"
#include "deadline.h"
#include "logline.h"
#include "mark.h"
#include "refuse.h"
#include "stats.h"
#include "store.h"

FENCING_FUNCTION(fencing_claim_one);
FENCING_FUNCTION(fencing_claim_many);
FENCING_FUNCTION(fencing_set_mark);

static Datum claim(FunctionCallInfo fcinfo, bool arrays);

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

static Datum
claim(FunctionCallInfo fcinfo, bool arrays)
{
	int count;
	TokenArg *args = fencing_token_args(fcinfo, arrays, &count);

	PreventCommandIfReadOnly("fencing.claim()");
	PreventCommandDuringRecovery("fencing.claim()");

	/* after the marks, which may have had to wait */
	fencing_claim_tokens(args, count);
	fencing_deadline_arg(fcinfo, 2);
	PG_RETURN_VOID();
}

/*
 * In the order of the names, so that two claims of the same resources do not
 * wait for each other in a circle.
 */
void
fencing_claim_tokens(const TokenArg *args, int count)
{
	static const Rule plain_rule = {0};
	StatCounter *counter = fencing_stat_counter(STAT_CLAIMS);

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
	fencing_present(args, count);
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
