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
 * Before it is raised, a refusal is counted and remembered where its rollback
 * does not reach.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/relcache.h"
#include "utils/timestamp.h"

#include "commit.h"
#include "fencing.h"
#include "logline.h"
#include "recent.h"
#include "refuse.h"
#include "shmem.h"
#include "store.h"

/* A kind of refusal, for everything but the words of its error. */
typedef struct KindOfRefusal
{
	int sqlstate;
	StatNumber number;
	const char *reason; /* in log lines */
} KindOfRefusal;

static const KindOfRefusal kinds[] = {
	[REFUSAL_STALE] = {ERRCODE_FENCING_STALE_TOKEN,		STAT_STALE,		"stale_token"		 },
	[REFUSAL_STALE_EQUAL] = {ERRCODE_FENCING_STALE_TOKEN,		  STAT_STALE,
						 "stale_token"															  },
	[REFUSAL_MISSING] = {ERRCODE_FENCING_MISSING_TOKEN,		STAT_MISSING,
						 "missing_token"															},
	[REFUSAL_STEP] = {ERRCODE_FENCING_TOKEN_OUT_OF_RANGE, STAT_OUT_OF_RANGE,
					   "token_out_of_range"													   },
	[REFUSAL_NEVER_ISSUED] = {ERRCODE_FENCING_TOKEN_OUT_OF_RANGE,
						  STAT_OUT_OF_RANGE,									 "token_out_of_range"},
	[REFUSAL_INVALID] = {ERRCODE_INVALID_PARAMETER_VALUE,	  STAT_OUT_OF_RANGE,
						 "invalid_token"															},
};

static void describe(const Refusal *refusal, RecentOutcome outcome,
					 RecentRefusal *recent);
static void find_raiser(const Refusal *refusal, RecentRefusal *recent);
static void remember_error(int sqlstate, Relation rel);
static void log_in_shadow(const RecentRefusal *recent, Relation rel,
						  const char *reason);
static void report(const Refusal *refusal);
static int table_fields(const Refusal *refusal);
static int way_to_present(const Refusal *refusal);

void
fencing_refuse(const Refusal *refusal)
{
	RecentRefusal recent;

	if (refusal->kind == REFUSAL_STALE || refusal->kind == REFUSAL_STALE_EQUAL)
		fencing_commit_note_stale();
	if (refusal->counter)
		fencing_stat_decide(refusal->counter, kinds[refusal->kind].number);
	if (fencing_track && fencing_shmem_attached())
	{
		describe(refusal, RECENT_REFUSED, &recent);
		fencing_recent_add(&recent);
	}
	report(refusal);
	pg_unreachable();
}

void
fencing_refuse_in_shadow(const Refusal *refusal)
{
	RecentRefusal recent;

	if (refusal->counter)
		fencing_stat_decide(refusal->counter, STAT_SHADOWED);
	if (!fencing_recent_is_first(RelationGetRelid(refusal->rel),
								 RECENT_SHADOWED))
		return;
	describe(refusal, RECENT_SHADOWED, &recent);
	fencing_recent_add(&recent);
	log_in_shadow(&recent, refusal->rel, kinds[refusal->kind].reason);
}

void
fencing_refuse_by_skip(const Refusal *refusal)
{
	RecentRefusal recent;

	if (refusal->counter)
		fencing_stat_decide(refusal->counter, STAT_SKIPPED);
	if (!fencing_track || !fencing_shmem_attached() ||
		!fencing_recent_is_first(RelationGetRelid(refusal->rel),
								 RECENT_SKIPPED))
		return;
	describe(refusal, RECENT_SKIPPED, &recent);
	fencing_recent_add(&recent);
}

/* What is remembered of a refusal. */
static void
describe(const Refusal *refusal, RecentOutcome outcome, RecentRefusal *recent)
{
	memset(recent, 0, sizeof(*recent));
	recent->outcome = outcome;
	recent->sqlstate = kinds[refusal->kind].sqlstate;
	recent->relid = refusal->rel ? RelationGetRelid(refusal->rel) : InvalidOid;
	recent->resource = refusal->resource;
	recent->has_mark = true;
	recent->mark = refusal->mark;
	if (refusal->kind != REFUSAL_MISSING)
		recent->token = refusal->token;
	if (refusal->mark_stored && refusal->mark > 0)
		find_raiser(refusal, recent);
}

/* Who raised a mark, unless it is another one by now. */
static void
find_raiser(const Refusal *refusal, RecentRefusal *recent)
{
	Store store;
	int64 mark;

	fencing_store_open(&store, STORE_MARKS, AccessShareLock);
	if (fencing_store_find(&store, refusal->resource,
						   (int) strlen(refusal->resource), &mark) &&
		mark == refusal->mark)
	{
		bool isnull;
		Datum value;

		value = fencing_store_value(&store, STORE_ATT_UPDATED, &isnull);
		recent->raised_at = DatumGetTimestampTz(value);
		value = fencing_store_value(&store, MARKS_ATT_RAISED_BY, &isnull);
		if (!isnull)
			recent->raised_by = TextDatumGetCString(value);
	}
	fencing_store_close(&store);
}

/* An error that is about no resource. */
static void
remember_error(int sqlstate, Relation rel)
{
	RecentRefusal recent = {0};

	recent.outcome = RECENT_REFUSED;
	recent.sqlstate = sqlstate;
	recent.relid = rel ? RelationGetRelid(rel) : InvalidOid;
	fencing_recent_add(&recent);
}

static void
log_in_shadow(const RecentRefusal *recent, Relation rel, const char *reason)
{
	StringInfoData line;

	fencing_log_begin(&line, "shadow");
	fencing_log_text(&line, "reason", reason);
	fencing_log_table(&line, rel);
	fencing_log_text(&line, "resource", recent->resource);
	if (recent->token != 0)
		fencing_log_number(&line, "token", recent->token);
	if (recent->has_mark)
		fencing_log_number(&line, "mark", recent->mark);
	fencing_log_who(&line);
	fencing_log_text(&line, "raised_by", recent->raised_by);
	if (recent->raised_at != 0)
		fencing_log_text(&line, "raised_at",
						 timestamptz_to_str(recent->raised_at));
	fencing_log_write(&line, recent->sqlstate);
}

/* The one place where a decision about a token becomes an error. */
static void
report(const Refusal *refusal)
{
	switch (refusal->kind)
	{
		case REFUSAL_STALE:
			ereport(ERROR,
					(errcode(ERRCODE_FENCING_STALE_TOKEN),
					 errmsg("stale token for resource \"%s\"",
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
			ereport(ERROR,
					(errcode(ERRCODE_FENCING_STALE_TOKEN),
					 errmsg("stale token for resource \"%s\"",
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
			ereport(ERROR,
					(errcode(ERRCODE_FENCING_MISSING_TOKEN),
					 errmsg("write to fenced table \"%s\" carries no token",
							RelationGetRelationName(refusal->rel)),
					 errdetail("Resource \"%s\": no token, mark " INT64_FORMAT
							   ".",
							   refusal->resource, refusal->mark),
					 way_to_present(refusal), table_fields(refusal)));
			break;
		case REFUSAL_STEP:
			ereport(ERROR,
					(errcode(ERRCODE_FENCING_TOKEN_OUT_OF_RANGE),
					 errmsg("token for resource \"%s\" is too far above the mark",
							refusal->resource),
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
			ereport(ERROR,
					(errcode(ERRCODE_FENCING_TOKEN_OUT_OF_RANGE),
					 errmsg("token for resource \"%s\" was never issued",
							refusal->resource),
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
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("invalid token " INT64_FORMAT
							" for resource \"%s\"",
							refusal->token, refusal->resource),
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
	remember_error(ERRCODE_FENCING_BROKEN_FENCE, rel);
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
fencing_refuse_truncate(Relation rel, StatCounter *counter)
{
	fencing_stat_decide(counter, STAT_MISSING);
	remember_error(ERRCODE_FENCING_MISSING_TOKEN, rel);
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
fencing_truncate_in_shadow(Relation rel, StatCounter *counter)
{
	RecentRefusal recent = {0};

	fencing_stat_decide(counter, STAT_SHADOWED);
	if (!fencing_recent_is_first(RelationGetRelid(rel), RECENT_SHADOWED))
		return;
	recent.outcome = RECENT_SHADOWED;
	recent.sqlstate = ERRCODE_FENCING_MISSING_TOKEN;
	recent.relid = RelationGetRelid(rel);
	fencing_recent_add(&recent);
	log_in_shadow(&recent, rel, "truncate");
}

void
fencing_deadline_passed(TimestampTz deadline, TimestampTz now)
{
	/* timestamptz_to_str has one buffer for all its results */
	char *at = pstrdup(timestamptz_to_str(deadline));

	remember_error(ERRCODE_FENCING_DEADLINE_PASSED, NULL);
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
	remember_error(ERRCODE_FENCING_STALE_TOKEN, NULL);
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
fencing_outdated(const char *what, const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("%s \"%s.%s\" is of an older version than the library",
					what, FENCING_SCHEMA, name),
			 errhint("Run ALTER EXTENSION fencing UPDATE.")));
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
