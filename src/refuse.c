/*-------------------------------------------------------------------------
 *
 * refuse.c
 *		Every refusal that a user can meet: its SQLSTATE and its words.
 *
 * A refusal ends somebody's work, often at night, so each one says three
 * things: what was refused (primary message), the numbers it was decided on
 * (DETAIL: resource, token, mark), and the way out (HINT).  Clients match on
 * the SQLSTATE; the wording may be improved without a new one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/relcache.h"
#include "utils/timestamp.h"

#include "commit.h"
#include "fencing.h"
#include "refuse.h"

/* Lines that one transaction may write into the log in shadow mode. */
#define SHADOW_LINES 20

static int64 shadow_refusals = 0;

static void report(int elevel, const Refusal *refusal);
static int table_fields(const Refusal *refusal);
static int way_to_present(const Refusal *refusal);

void
fencing_refuse(const Refusal *refusal)
{
	if (refusal->kind == REFUSAL_STALE || refusal->kind == REFUSAL_STALE_EQUAL)
		fencing_commit_note_stale();
	report(ERROR, refusal);
	pg_unreachable();
}

void
fencing_refuse_in_shadow(const Refusal *refusal)
{
	if (shadow_refusals++ < SHADOW_LINES)
		report(LOG, refusal);
}

void
fencing_refuse_log_rest(void)
{
	if (shadow_refusals > SHADOW_LINES)
		ereport(LOG,
				(errmsg("shadow mode: " INT64_FORMAT
						" more writes of the transaction would have been refused",
						shadow_refusals - SHADOW_LINES)));
}

void
fencing_refuse_end_of_transaction(void)
{
	shadow_refusals = 0;
}

/*
 * The one place where a decision about a token becomes text.  elevel is ERROR,
 * or LOG for shadow mode, where the write goes on.
 */
static void
report(int elevel, const Refusal *refusal)
{
	const char *shadow = elevel == LOG ? "shadow mode: " : "";

	switch (refusal->kind)
	{
		case REFUSAL_STALE:
			ereport(elevel,
					(errcode(ERRCODE_FENCING_STALE_TOKEN),
					 errmsg("%sstale token for resource \"%s\"", shadow,
							refusal->resource),
					 errdetail("Resource \"%s\": token " INT64_FORMAT
							   " is lower than mark " INT64_FORMAT ".",
							   refusal->resource, refusal->token,
							   refusal->mark),
					 errhint(
						 "A newer holder has taken over. Do not retry with this token: drop the work, or acquire the resource again and start from a fresh read."),
					 table_fields(refusal)));
			break;
		case REFUSAL_STALE_EQUAL:
			ereport(elevel,
					(errcode(ERRCODE_FENCING_STALE_TOKEN),
					 errmsg("%sstale token for resource \"%s\"", shadow,
							refusal->resource),
					 errdetail("Resource \"%s\": token " INT64_FORMAT
							   " is not above mark " INT64_FORMAT
							   ", and the fence is strict.",
							   refusal->resource, refusal->token,
							   refusal->mark),
					 errhint(
						 "A strict fence accepts each token once. Take a new token for each write."),
					 table_fields(refusal)));
			break;
		case REFUSAL_MISSING:
			ereport(elevel,
					(errcode(ERRCODE_FENCING_MISSING_TOKEN),
					 errmsg("%swrite to fenced table \"%s\" carries no token",
							shadow, RelationGetRelationName(refusal->rel)),
					 errdetail("Resource \"%s\": no token, mark " INT64_FORMAT
							   ".",
							   refusal->resource, refusal->mark),
					 way_to_present(refusal), table_fields(refusal)));
			break;
		case REFUSAL_STEP:
			ereport(elevel,
					(errcode(ERRCODE_FENCING_TOKEN_OUT_OF_RANGE),
					 errmsg("%stoken for resource \"%s\" is too far above the mark",
							shadow, refusal->resource),
					 errdetail("Resource \"%s\": token " INT64_FORMAT
							   ", mark " INT64_FORMAT
							   ", max_step " INT64_FORMAT ".",
							   refusal->resource, refusal->token,
							   refusal->mark, refusal->limit),
					 errhint(
						 "Check where the token comes from. If it is right, declare the fence with a larger max_step."),
					 table_fields(refusal)));
			break;
		case REFUSAL_NEVER_ISSUED:
			ereport(elevel,
					(errcode(ERRCODE_FENCING_TOKEN_OUT_OF_RANGE),
					 errmsg("%stoken for resource \"%s\" was never issued",
							shadow, refusal->resource),
					 errdetail("Resource \"%s\": token " INT64_FORMAT
							   ", mark " INT64_FORMAT
							   ", last token issued by this database " INT64_FORMAT
							   ".",
							   refusal->resource, refusal->token,
							   refusal->mark, refusal->limit),
					 errhint(
						 "The fence accepts tokens of fencing.next_token only (issuer => 'database')."),
					 table_fields(refusal)));
			break;
		case REFUSAL_INVALID:
			ereport(elevel,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("%sinvalid token " INT64_FORMAT
							" for resource \"%s\"",
							shadow, refusal->token, refusal->resource),
					 errdetail("Resource \"%s\": token " INT64_FORMAT
							   ", mark " INT64_FORMAT ".",
							   refusal->resource, refusal->token,
							   refusal->mark),
					 errhint("Tokens begin at 1."), table_fields(refusal)));
			break;
	}
}

/* The error fields for table, schema and, for a row mark, column. */
static int
table_fields(const Refusal *refusal)
{
	if (refusal->rel == NULL)
		return 0;
	if (refusal->column != NULL)
		return errtablecolname(refusal->rel, refusal->column);
	return errtable(refusal->rel);
}

static int
way_to_present(const Refusal *refusal)
{
	const char *literal = quote_literal_cstr(refusal->resource);

	if (refusal->column != NULL && refusal->accept_column)
		return errhint("Call fencing.present(%s, token) in the same transaction, or set column \"%s\" to the token in the statement.",
					   literal, refusal->column);
	return errhint("Call fencing.present(%s, token) in the same transaction.",
				   literal);
}

void
fencing_broken_fence(Relation rel, const char *problem, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_FENCING_BROKEN_FENCE),
			 errmsg("fence of table \"%s\" does not fit the table",
					RelationGetRelationName(rel)),
			 errdetail("%s", problem), errhint("%s", hint), errtable(rel)));
}

void
fencing_null_key(Relation rel, const char *column)
{
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("column \"%s\" of fenced table \"%s\" is null", column,
					RelationGetRelationName(rel)),
			 errdetail("The column is part of the name of the row's resource."),
			 errhint(
				 "Give the column a value, or declare the fence with a template that does not use it."),
			 errtablecolname(rel, column)));
}

void
fencing_bad_name(Relation rel, bool empty)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 empty
				 ? errmsg("resource name of a row of fenced table \"%s\" is empty",
						  RelationGetRelationName(rel))
				 : errmsg("resource name of a row of fenced table \"%s\" is too long",
						  RelationGetRelationName(rel)),
			 errdetail("A resource name has 1 to 512 bytes."),
			 errhint(
				 "Declare the fence with a template of shorter columns, or with text before the column."),
			 errtable(rel)));
}

void
fencing_refuse_truncate(Relation rel)
{
	ereport(ERROR,
			(errcode(ERRCODE_FENCING_MISSING_TOKEN),
			 errmsg("cannot truncate fenced table \"%s\"",
					RelationGetRelationName(rel)),
			 errdetail(
				 "TRUNCATE carries no token, and would forget the marks of all rows."),
			 errhint(
				 "Use DELETE with the tokens of the rows. A superuser can set fencing.enforcement to off for the transaction."),
			 errtable(rel)));
}

void
fencing_truncate_in_shadow(Relation rel)
{
	ereport(LOG,
			(errcode(ERRCODE_FENCING_MISSING_TOKEN),
			 errmsg("shadow mode: cannot truncate fenced table \"%s\"",
					RelationGetRelationName(rel)),
			 errtable(rel)));
}

void
fencing_deadline_passed(TimestampTz deadline, TimestampTz now)
{
	/* timestamptz_to_str has one buffer for all its results */
	char *at = pstrdup(timestamptz_to_str(deadline));

	ereport(ERROR,
			(errcode(ERRCODE_FENCING_DEADLINE_PASSED),
			 errmsg("transaction cannot commit after its deadline"),
			 errdetail("Deadline %s, now %s.", at, timestamptz_to_str(now)),
			 errhint(
				 "The lease behind this work may have ended. Acquire the resource again, read again, and repeat the work.")));
}

void
fencing_stale_aborted(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_FENCING_STALE_TOKEN),
			 errmsg(
				 "transaction cannot commit: a write in it was refused as stale"),
			 errdetail("The error was caught, and fencing.stale_aborts is on."),
			 errhint("Roll back: another holder owns the resource.")));
}

void
fencing_serialization_failure(const char *resource)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access to resource \"%s\"", resource),
			 errdetail(
				 "An earlier holder's transaction ended after this transaction's snapshot was taken."),
			 errhint(
				 "Retry the transaction, and claim the resource in its first statement.")));
}

void
fencing_lease_busy(const char *resource, int64 token, const char *holder,
				   TimestampTz expires_at, const char *limit)
{
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("lease on resource \"%s\" is busy", resource),
			 token != 0 && expires_at > GetCurrentTimestamp()
				 ? errdetail("Resource \"%s\": token " INT64_FORMAT
							 ", holder \"%s\", until %s.",
							 resource, token, holder,
							 timestamptz_to_str(expires_at))
				 : errdetail(
					   "Another session is first in line for it, or a running transaction is changing it."),
			 limit == NULL
				 ? errhint(
					   "Try again later, or wait for it with the argument \"wait\".")
				 : errhint("\"%s\" has ended the wait. Try again later, or wait longer.",
						   limit)));
}

void
fencing_lease_not_held(const char *resource, int64 token, int64 current,
					   TimestampTz expires_at)
{
	ereport(WARNING,
			(errcode(ERRCODE_FENCING_LEASE_NOT_HELD),
			 errmsg("lease on resource \"%s\" is not held with token " INT64_FORMAT,
					resource, token),
			 current == 0 ? errdetail("There is no lease, or it was released.")
				 : current == token
				 ? errdetail("The lease ended at %s.",
							 timestamptz_to_str(expires_at))
				 : errdetail("The last lease has token " INT64_FORMAT ".",
							 current),
			 errhint(
				 "Stop the work that relies on the lease. Acquire the resource again and start from a fresh read.")));
}

void
fencing_command_mismatch(const char *scope, const char *key, const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_FENCING_COMMAND_MISMATCH),
			 errmsg("command \"%s\" of scope \"%s\" is known with another %s",
					key, scope, what),
			 errhint(
				 "A key stands for one request. Use a new key for a new request.")));
}

void
fencing_command_in_progress(const char *scope, const char *key, bool own)
{
	ereport(ERROR,
			(errcode(ERRCODE_FENCING_COMMAND_IN_PROGRESS),
			 errmsg("command \"%s\" of scope \"%s\" is in progress", key,
					scope),
			 own ? errdetail(
					   "This transaction has begun it and not finished it.")
				 : errdetail("Another transaction is handling it."),
			 own ? errhint(
					   "Call fencing.finish_command before beginning it again.")
				 : errhint(
					   "Try again later, or wait for the outcome with nowait => false.")));
}

void
fencing_command_stale(const char *scope, const char *key, int64 token,
					  int64 current)
{
	ereport(ERROR,
			(errcode(ERRCODE_FENCING_STALE_TOKEN),
			 errmsg("stale token for command \"%s\" of scope \"%s\"", key,
					scope),
			 errdetail("Command \"%s\": token " INT64_FORMAT
					   " is not the current one, " INT64_FORMAT ".",
					   key, token, current),
			 errhint(
				 "Another worker has taken the command over. Drop the work; fencing.find_command tells the outcome.")));
}

void
fencing_command_unknown(const char *scope, const char *key)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("command \"%s\" of scope \"%s\" does not exist", key,
					scope),
			 errhint(
				 "It was never begun, its beginning was rolled back, or it was purged. Begin it with fencing.begin_command.")));
}

void
fencing_command_unfinished(const char *scope, const char *key)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("command \"%s\" of scope \"%s\" was begun and not finished",
					key, scope),
			 errdetail(
				 "After a commit nobody could tell whether its effect is there."),
			 errhint(
				 "Call fencing.finish_command in the same transaction, or begin the command with the argument takeover if it is finished in a later one.")));
}

void
fencing_tokens_exhausted(const char *resource, int64 last)
{
	ereport(ERROR,
			(errcode(ERRCODE_FENCING_TOKEN_OUT_OF_RANGE),
			 errmsg("no token is left for resource \"%s\"", resource),
			 errdetail("Resource \"%s\": the next token would have to be above " INT64_FORMAT
					   ".",
					   resource, last),
			 errhint(
				 "If a wrong token raised the mark, an administrator can lower it with fencing.set_mark.")));
}

void
fencing_bad_argument(const char *argument, const char *what, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("argument \"%s\" is %s", argument, what),
			 errhint("%s", hint)));
}

void
fencing_bad_token(int64 token)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid token " INT64_FORMAT, token),
			 errhint("Tokens begin at 1.")));
}

void
fencing_trigger_misuse(const char *function)
{
	ereport(ERROR,
			(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
			 errmsg("function \"%s.%s\" was not fired as the trigger that fencing.fence makes",
					FENCING_SCHEMA, function),
			 errhint("Declare fences with fencing.fence.")));
}
