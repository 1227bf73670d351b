/*-------------------------------------------------------------------------
 *
 * statement.c
 *		What the trigger data does not tell about the running statement.
 *
 * Whether an UPDATE carries a token in the column is read from the set of
 * updated columns in the trigger data.  For MERGE that set is the union over
 * its WHEN clauses: with
 *
 *		WHEN MATCHED AND a THEN UPDATE SET v = 1, fence_token = 7
 *		WHEN MATCHED THEN UPDATE SET v = 2
 *
 * the second clause would seem to set the column, to the value it already
 * has, and would pass as the holder of the current mark.  So the plan of the
 * running statement is looked at.  Hooks around ExecutorRun and
 * ExecutorFinish keep track of it.  In the one statement during which the
 * library is loaded, they were not there yet: then the portal knows the
 * client's statement, and the error context the text of one that a procedural
 * language runs.  A statement of a function in language SQL is seen by
 * neither; session_preload_libraries closes that gap.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/execdesc.h"
#include "executor/executor.h"
#include "nodes/pg_list.h"
#include "nodes/plannodes.h"
#include "nodes/primnodes.h"
#include "parser/parsetree.h"
#include "tcop/pquery.h"
#include "utils/portal.h"

#include "compat.h"
#include "statement.h"

static ExecutorRun_hook_type previous_run = NULL;
static ExecutorFinish_hook_type previous_finish = NULL;

/* The statement that is running, innermost of all. */
static QueryDesc *running = NULL;

static bool plan_omits(const PlannedStmt *stmt, Plan *plan, Oid relid,
					   AttrNumber attnum);

static bool context_mentions_merge(void);

static void
run_hook(FENCING_RUN_PARAMETERS)
{
	QueryDesc *outer = running;

	running = queryDesc;
	PG_TRY();
	{
		if (previous_run)
			previous_run(FENCING_RUN_ARGUMENTS);
		else
			standard_ExecutorRun(FENCING_RUN_ARGUMENTS);
	}
	PG_FINALLY();
	{
		running = outer;
	}
	PG_END_TRY();
}

/* What a query does not read of its CTEs is run when it finishes. */
static void
finish_hook(QueryDesc *queryDesc)
{
	QueryDesc *outer = running;

	running = queryDesc;
	PG_TRY();
	{
		if (previous_finish)
			previous_finish(queryDesc);
		else
			standard_ExecutorFinish(queryDesc);
	}
	PG_FINALLY();
	{
		running = outer;
	}
	PG_END_TRY();
}

void
fencing_statement_init(void)
{
	previous_finish = ExecutorFinish_hook;
	ExecutorFinish_hook = finish_hook;
	previous_run = ExecutorRun_hook;
	ExecutorRun_hook = run_hook;
}

static bool
statement_omits(const PlannedStmt *stmt, Oid relid, AttrNumber attnum)
{
	ListCell *lc;

	/* a MERGE is the statement itself, or since 17 one of its CTEs */
	if (likely(stmt->commandType != CMD_MERGE && !stmt->hasModifyingCTE))
		return false;
	if (plan_omits(stmt, stmt->planTree, relid, attnum))
		return true;
	foreach(lc, stmt->subplans)
		if (plan_omits(stmt, lfirst(lc), relid, attnum))
			return true;
	return false;
}

bool
fencing_statement_may_omit(Relation rel, AttrNumber attnum)
{
	ListCell *lc;

	if (likely(running != NULL))
		return statement_omits(running->plannedstmt, RelationGetRelid(rel),
							   attnum);
	if (ActivePortal == NULL)
		return false;
	foreach(lc, ActivePortal->stmts)
		if (statement_omits(lfirst_node(PlannedStmt, lc),
							RelationGetRelid(rel), attnum))
			return true;
	return context_mentions_merge();
}

/*
 * Does the error context, where SPI shows the text of its statement, contain
 * the word MERGE?  Somewhere in it is enough: when in doubt, refuse.
 */
static bool
context_mentions_merge(void)
{
	char *context = GetErrorContextStack();
	bool found = false;

	for (const char *c = context; c && *c && !found; c++)
		found = pg_strncasecmp(c, "merge", 5) == 0;
	return found;
}

bool
fencing_statement_updates(void)
{
	return running &&
		(running->operation == CMD_UPDATE || running->operation == CMD_MERGE);
}

/* ModifyTable nodes stand at the top of the statement's plan or a CTE's. */
static bool
plan_omits(const PlannedStmt *stmt, Plan *plan, Oid relid, AttrNumber attnum)
{
	ModifyTable *modify = (ModifyTable *) plan;
	ListCell *lc;

	if (plan == NULL || !IsA(plan, ModifyTable) ||
		modify->operation != CMD_MERGE)
		return false;
	for (int i = 0; i < list_length(modify->resultRelations); i++)
	{
		Index rti = list_nth_int(modify->resultRelations, i);

		if (rt_fetch(rti, stmt->rtable)->relid != relid)
			continue;
		foreach(lc, (List *) list_nth(modify->mergeActionLists, i))
		{
			MergeAction *action = lfirst_node(MergeAction, lc);

			if (action->commandType == CMD_UPDATE &&
				!list_member_int(action->updateColnos, attnum))
				return true;
		}
	}
	return false;
}
