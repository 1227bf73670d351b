/*-------------------------------------------------------------------------
 *
 * guard.c
 *		The triggers of a fence.
 *
 * guard (BEFORE INSERT OR UPDATE OR DELETE, each row) decides whether a write
 * may happen.  For a row mark the mark is the token column of the old row,
 * which the server has locked in its newest version before it calls us, so a
 * comparison with it is right at every isolation level and needs no lock of
 * ours.  A resource mark is locked and compared in mark.c.
 *
 * guard_recheck (AFTER INSERT, each row) compares an inserted row with the
 * tombstone of its name once more: the insert may have waited at the unique
 * key for the transaction that left it.  See commit.c for updates that change
 * the name.
 *
 * guard_truncate (BEFORE TRUNCATE) refuses.
 *
 * The order of the steps in guard matters to its cost.  A bulk update by
 * column compares two numbers and returns: no name is made, nothing is
 * allocated.  A name is made when some presented token could be the row's,
 * when a tombstone is involved, and for a refusal.  What such an update does
 * not run is kept out of its way (pg_noinline): between two rows the executor
 * has replaced the instruction cache's content, and each line of ours that has
 * to be fetched again is felt.
 *
 * What goes wrong with a token is a Refusal.  settle() decides what becomes of
 * it: an error, an omitted row (skip), or a line in the log (shadow).  A write
 * that nothing was settled about is counted as accepted.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "commands/trigger.h"
#include "nodes/bitmapset.h"

#include "commit.h"
#include "fence.h"
#include "mark.h"
#include "refuse.h"
#include "rowmove.h"
#include "statement.h"
#include "stats.h"
#include "store.h"
#include "tokens.h"

/* One call of the guard. */
typedef struct Write
{
	TriggerData *trigdata;
	Fence *fence;
	Relation rel;
	TupleDesc desc;
	bool shadow;		   /* of the fence or of fencing.enforcement */
	bool counted;		   /* not as an accepted one */
	ResourceName name;	   /* made only where it is needed */
	ResourceName new_name; /* of a row that changes its name */
	Refusal refusal;
} Write;

/* What becomes of a refused write. */
typedef enum Outcome
{
	OUTCOME_SKIP,
	OUTCOME_PASS
} Outcome;

FENCING_FUNCTION(fencing_guard);
FENCING_FUNCTION(fencing_guard_recheck);
FENCING_FUNCTION(fencing_guard_truncate);

static HeapTuple guard_row_insert(Write *write);
static HeapTuple guard_row_update(Write *write);
static HeapTuple guard_row_key_update(Write *write, HeapTuple result,
									  int64 token, int64 column_token);
static HeapTuple guard_row_delete(Write *write);
static HeapTuple guard_resource(Write *write, HeapTuple result);
static Outcome guard_resource_name(Write *write, const ResourceName *name);
static bool resource_accepted(const Fence *fence);
static Outcome settle(Write *write, const ResourceName *name);
static bool finishes_move(Write *write);
static void make_name(Write *write, HeapTuple row, ResourceName *name);
static const ResourceName *resource_name(Write *write, HeapTuple row);
static int64 presented_for(Write *write, HeapTuple row, bool *named);
static int64 search_presented(Write *write, HeapTuple row, bool *named);
static bool tokens_may_match(Fence *fence);
static int64 column_value(Write *write, HeapTuple row, bool *isnull);
static HeapTuple stamp(Write *write, HeapTuple row, int64 token);
static bool is_set(Write *write, AttrNumber attnum);

/*
 * The BEFORE ROW trigger.  Returns the row to store, or NULL to leave it out.
 */
Datum
fencing_guard(PG_FUNCTION_ARGS)
{
	TriggerData *trigdata = (TriggerData *) fcinfo->context;
	Write write;
	HeapTuple result;

	if (!CALLED_AS_TRIGGER(fcinfo) ||
		!TRIGGER_FIRED_BEFORE(trigdata->tg_event) ||
		!TRIGGER_FIRED_FOR_ROW(trigdata->tg_event))
		fencing_trigger_misuse(FENCING_GUARD_FUNCTION);

	result = TRIGGER_FIRED_BY_UPDATE(trigdata->tg_event)
		? trigdata->tg_newtuple
		: trigdata->tg_trigtuple;
	if (unlikely(fencing_enforcement == ENFORCEMENT_OFF))
	{
		fencing_commit_note_off(trigdata->tg_relation);
		return PointerGetDatum(result);
	}

	write.trigdata = trigdata;
	write.rel = trigdata->tg_relation;
	write.desc = RelationGetDescr(write.rel);
	write.fence = fencing_fence_get(write.rel, trigdata->tg_trigger);
	write.shadow = write.fence->decl.shadow ||
		fencing_enforcement == ENFORCEMENT_SHADOW;
	write.counted = false;

	if (write.fence->decl.mark == MARK_RESOURCE)
		result = guard_resource(&write, result);
	else if (TRIGGER_FIRED_BY_UPDATE(trigdata->tg_event))
		result = guard_row_update(&write);
	else if (TRIGGER_FIRED_BY_INSERT(trigdata->tg_event))
		result = guard_row_insert(&write);
	else
		result = guard_row_delete(&write);
	if (likely(!write.counted))
		fencing_stat_accept(write.fence->counter);
	return PointerGetDatum(result);
}

/* ----------
 * Row marks
 * ----------
 */

/*
 * A new row: its token becomes the first mark, unless a row of that name was
 * deleted and left a higher one.
 */
static pg_noinline HeapTuple
guard_row_insert(Write *write)
{
	Fence *fence = write->fence;
	HeapTuple row = write->trigdata->tg_trigtuple;
	bool isnull;
	bool own;
	int64 column = column_value(write, row, &isnull);
	int64 token;
	int64 mark = 0;
	bool named;

	token = presented_for(write, row, &named);
	if (token == 0 && fence->decl.accept_column)
		token = column;

	if (!named && (fence->decl.tombstones || fence->partition))
	{
		make_name(write, row, &write->name);
		named = true;
	}
	if (fence->partition &&
		fencing_rowmove_is_insert(write->trigdata, &write->name, token))
	{
		write->counted = true; /* with the UPDATE that moves the row */
		return column == token ? row : stamp(write, row, token);
	}
	if (fence->decl.tombstones)
		mark = fencing_mark_read(&write->name, &own);

	if (token == 0 && mark == 0 && column == 0)
		return row; /* nothing is known of this name */

	if (token == 0)
	{
		/*
		 * There is a mark, or the statement writes one into a column that may
		 * not carry it.
		 */
		write->refusal.kind = REFUSAL_MISSING;
		write->refusal.mark = mark;
	}
	else if (fencing_rule(&fence->decl.rule, token, mark, &write->refusal) !=
			 VERDICT_REFUSED)
	{
		fencing_commit_carried = true;
		return column == token ? row : stamp(write, row, token);
	}

	if (!named)
		make_name(write, row, &write->name);
	if (settle(write, &write->name) == OUTCOME_SKIP)
		return NULL;

	/* shadow: the row goes in, but with the mark that it should have had */
	return column == mark ? row : stamp(write, row, mark);
}

static HeapTuple
guard_row_update(Write *write)
{
	Fence *fence = write->fence;
	HeapTuple old = write->trigdata->tg_trigtuple;
	HeapTuple new = write->trigdata->tg_newtuple;
	bool old_isnull, new_isnull;
	int64 mark = column_value(write, old, &old_isnull);
	int64 column = column_value(write, new, &new_isnull);
	int64 column_token = 0;
	int64 token;
	bool has_token;
	bool named;

	/*
	 * What the statement itself gives the column; not what an omitted column
	 * has from before.  NULL is no token.
	 */
	token = presented_for(write, old, &named);
	has_token = token != 0;
	if (fence->decl.accept_column && !new_isnull &&
		is_set(write, fence->token_attnum) &&
		(column != mark ||
		 !fencing_statement_may_omit(write->rel, fence->token_attnum)))
	{
		column_token = column;
		if (!has_token)
		{
			token = column;
			has_token = true;
		}
	}

	if (likely(has_token) &&
		fencing_rule(&fence->decl.rule, token, mark, &write->refusal) !=
			VERDICT_REFUSED)
	{
		fencing_commit_carried = true;
		if (fencing_template_differs(&fence->tmpl, old, new, write->desc))
			return guard_row_key_update(write, new, token, column_token);
		if (unlikely(fence->may_leave))
		{
			if (!named)
				make_name(write, old, &write->name);
			fencing_rowmove_begin(write->trigdata, &write->name, token, false);
		}
		if (column == token && !new_isnull)
			return new;
		return stamp(write, new, token);
	}

	if (!has_token)
	{
		write->refusal.kind = REFUSAL_MISSING;
		write->refusal.mark = mark;
	}
	if (!named)
		make_name(write, old, &write->name);
	if (settle(write, &write->name) == OUTCOME_SKIP)
		return NULL;

	/* shadow: the row is changed, its mark is not */
	if (fencing_template_differs(&fence->tmpl, old, new, write->desc))
		return guard_row_key_update(write, new, mark, column_token);
	if (column == mark && new_isnull == old_isnull)
		return new;
	return stamp(write, new, mark);
}

/*
 * The template's columns change: for the marks this is a delete of the old
 * name, whose token has been accepted, and an insert of the new one.  In
 * shadow mode "token" may be just the mark of a row that should not have been
 * written, or 0.
 */
static pg_noinline HeapTuple
guard_row_key_update(Write *write, HeapTuple result, int64 token,
					 int64 column_token)
{
	Fence *fence = write->fence;
	HeapTuple old = write->trigdata->tg_trigtuple;
	ResourceName *new_name = &write->new_name;
	int64 new_token;
	int64 mark = 0;
	bool own;
	bool isnull;
	int64 column = column_value(write, result, &isnull);

	make_name(write, old, &write->name);
	make_name(write, result, new_name);
	if (fencing_name_cmp(write->name.data, write->name.len, new_name->data,
						 new_name->len) == 0)
	{
		/* other bytes, same text */
		if (fence->partition)
			fencing_rowmove_begin(write->trigdata, new_name, token, false);
		return column == token && !isnull ? result
										  : stamp(write, result, token);
	}

	new_token = fencing_token_for(new_name->data, new_name->len);
	if (new_token == 0)
		new_token = column_token;
	if (fence->decl.tombstones)
		mark = fencing_mark_read(new_name, &own);

	if (new_token != 0 || mark != 0)
	{
		if (new_token == 0)
		{
			write->refusal.kind = REFUSAL_MISSING;
			write->refusal.mark = mark;
		}
		if (new_token == 0 ||
			fencing_rule(&fence->decl.rule, new_token, mark,
						 &write->refusal) == VERDICT_REFUSED)
		{
			if (settle(write, new_name) == OUTCOME_SKIP)
				return NULL;
			new_token = mark;
		}
	}

	if (fence->decl.tombstones)
	{
		if (token > 0)
			fencing_mark_bury(&write->name, token);
		fencing_commit_recheck(write->rel, new_name, new_token,
							   fence->decl.rule.strict, write->shadow,
							   fence->counter);
	}
	if (fence->partition)
		fencing_rowmove_begin(write->trigdata, new_name, new_token,
							  fence->decl.tombstones);
	return column == new_token && !isnull ? result
										  : stamp(write, result, new_token);
}

static pg_noinline HeapTuple
guard_row_delete(Write *write)
{
	Fence *fence = write->fence;
	HeapTuple old = write->trigdata->tg_trigtuple;
	bool isnull;
	int64 mark = column_value(write, old, &isnull);
	int64 token;
	bool named = false;
	bool buried = false;

	if (fence->partition &&
		fencing_rowmove_is_delete(write->trigdata, &token, &buried))
		write->counted = true; /* with the UPDATE that moves the row */
	else
	{
		token = presented_for(write, old, &named);
		if (token == 0)
		{
			write->refusal.kind = REFUSAL_MISSING;
			write->refusal.mark = mark;
		}
		if (token == 0 ||
			fencing_rule(&fence->decl.rule, token, mark, &write->refusal) ==
				VERDICT_REFUSED)
		{
			if (!named)
				make_name(write, old, &write->name);
			named = true;
			if (settle(write, &write->name) == OUTCOME_SKIP)
				return NULL;
			token = mark; /* shadow */
		}
		else
			fencing_commit_carried = true;
	}

	if (fence->decl.tombstones && !buried && token > 0)
	{
		if (!named)
			make_name(write, old, &write->name);
		fencing_mark_bury(&write->name, token);
	}
	return old;
}

/* ----------
 * Resource marks
 * ----------
 */

/*
 * Every name that the write touches: the row's before it and the row's after
 * it, where they differ.
 */
static pg_noinline HeapTuple
guard_resource(Write *write, HeapTuple result)
{
	TriggerData *trigdata = write->trigdata;
	HeapTuple row = trigdata->tg_trigtuple;

	if (guard_resource_name(write, resource_name(write, row)) == OUTCOME_SKIP)
		return NULL;
	if (TRIGGER_FIRED_BY_UPDATE(trigdata->tg_event) &&
		fencing_template_differs(&write->fence->tmpl, row,
								 trigdata->tg_newtuple, write->desc) &&
		guard_resource_name(write,
							resource_name(write, trigdata->tg_newtuple)) ==
			OUTCOME_SKIP)
		return NULL;
	return result;
}

static Outcome
guard_resource_name(Write *write, const ResourceName *name)
{
	int64 token;
	bool own;

	if (likely(resource_accepted(write->fence)))
		return OUTCOME_PASS;
	token = fencing_token_for(name->data, name->len);
	if (likely(token != 0))
	{
		/* a refusal inside needs these */
		write->refusal.counter = write->fence->counter;
		write->refusal.mark_stored = true;
		write->refusal.rel = write->rel;
		write->refusal.resource = name->data;
		write->refusal.column = NULL;
		if (fencing_mark_accept(name, token, &write->fence->decl.rule,
								&write->refusal) != VERDICT_REFUSED)
		{
			fencing_commit_carried = true;
			write->fence->accepted_epoch = fencing_checked_epoch;
			write->fence->accepted_store = fencing_store_generation;
			write->fence->accepted_tokens = fencing_tokens_generation;
			return OUTCOME_PASS;
		}
	}
	else
	{
		write->refusal.kind = REFUSAL_MISSING;
		write->refusal.mark = fencing_mark_read(name, &own);
	}
	return settle(write, name);
}

/*
 * Was the fence's last name accepted, by this transaction with this token, and
 * does that still hold?  Then row after row costs three comparisons.
 */
static inline bool
resource_accepted(const Fence *fence)
{
	return fence->accepted_epoch == fencing_checked_epoch &&
		fence->accepted_store == fencing_store_generation &&
		fence->accepted_tokens == fencing_tokens_generation;
}

/* ----------
 * Shared by both
 * ----------
 */

/*
 * What becomes of a write that the rule refuses for this name: an error, or
 * nothing written (on_stale => 'skip'), or in shadow mode a line in the log.
 *
 * Under another trigger, a foreign key's action among them, skip is an error
 * too: the outer statement counts on the write, and leaving a row out would
 * orphan it.  So it is for the insert that ends the move of a row to another
 * partition, whose delete has been done.
 */
static pg_noinline Outcome
settle(Write *write, const ResourceName *name)
{
	Refusal *refusal = &write->refusal;
	const Declaration *decl = &write->fence->decl;

	refusal->rel = write->rel;
	refusal->resource = name->data;
	refusal->column = decl->token_column;
	refusal->accept_column = decl->accept_column &&
		!TRIGGER_FIRED_BY_DELETE(write->trigdata->tg_event);

	/* all but that of a row that is there already, under its own name */
	refusal->mark_stored = decl->mark == MARK_RESOURCE ||
		TRIGGER_FIRED_BY_INSERT(write->trigdata->tg_event) ||
		name == &write->new_name;

	/* a row that changes its name can be refused for both */
	refusal->counter = write->counted ? NULL : write->fence->counter;
	write->counted = true;

	if (write->shadow)
	{
		fencing_refuse_in_shadow(refusal);
		return OUTCOME_PASS;
	}
	if (decl->skip && !finishes_move(write) &&
		(refusal->kind == REFUSAL_STALE ||
		 refusal->kind == REFUSAL_STALE_EQUAL) &&
		fencing_trigger_depth() <= 1)
	{
		fencing_refuse_by_skip(refusal);
		return OUTCOME_SKIP;
	}
	fencing_refuse(refusal);
}

/* Is this the insert of a row that comes from another partition? */
static bool
finishes_move(Write *write)
{
	return TRIGGER_FIRED_BY_INSERT(write->trigdata->tg_event) &&
		write->fence->partition &&
		(fencing_rowmove_in_progress() || fencing_statement_updates());
}

/* The name of a row's resource, or an error that says why there is none. */
static pg_noinline void
make_name(Write *write, HeapTuple row, ResourceName *name)
{
	const char *column;

	switch (fencing_template_apply(&write->fence->tmpl, row, write->desc, name,
								   &column))
	{
		case NAME_OK:
			break;
		case NAME_NULL_COLUMN:
			fencing_null_key(write->rel, column);
		case NAME_EMPTY:
			fencing_bad_name(write->rel, true);
		case NAME_TOO_LONG:
			fencing_bad_name(write->rel, false);
	}
}

/*
 * The same for resource marks, where row after row tends to have the same
 * name: it is made again only if a column of the template changed.
 */
static const ResourceName *
resource_name(Write *write, HeapTuple row)
{
	Fence *fence = write->fence;

	for (int i = 0; i < fence->tmpl.nparts && fence->integers; i++)
	{
		Datum value;
		bool isnull;

		if (fence->tmpl.parts[i].column == NULL)
			continue;
		value = heap_getattr(row, fence->tmpl.parts[i].attnum, write->desc,
							 &isnull);
		if (isnull || fence->last_values[i] != value)
			fence->last_valid = false;
		fence->last_values[i] = value;
	}
	if (!fence->last_valid || !fence->integers)
	{
		fence->accepted_epoch = 0;
		make_name(write, row, &fence->last_name);
	}
	fence->last_valid = true;
	return &fence->last_name;
}

/*
 * The token presented for a row of a row mark, 0 if none.  *named tells
 * whether write->name was made on the way.
 */
static inline int64
presented_for(Write *write, HeapTuple row, bool *named)
{
	*named = false;
	if (likely(fencing_tokens_count == 0))
		return 0;
	return search_presented(write, row, named);
}

static pg_noinline int64
search_presented(Write *write, HeapTuple row, bool *named)
{
	if (!tokens_may_match(write->fence))
		return 0;
	make_name(write, row, &write->name);
	*named = true;
	return fencing_token_for(write->name.data, write->name.len);
}

/*
 * Does any presented token's name begin as this fence's names do?  If not,
 * the names of its rows need not be made to look for their tokens.
 */
static bool
tokens_may_match(Fence *fence)
{
	if (fence->tokens_generation != fencing_tokens_generation)
	{
		fence->tokens_may_match =
			fencing_tokens_with_prefix(fence->tmpl.parts[0].literal,
									   fence->tmpl.parts[0].literal_len);
		fence->tokens_generation = fencing_tokens_generation;
	}
	return fence->tokens_may_match;
}

/* A row's token column; 0 for NULL. */
static int64
column_value(Write *write, HeapTuple row, bool *isnull)
{
	Datum value = heap_getattr(row, write->fence->token_attnum, write->desc,
							   isnull);

	return *isnull ? 0 : DatumGetInt64(value);
}

/* The row with another number in its token column. */
static pg_noinline HeapTuple
stamp(Write *write, HeapTuple row, int64 token)
{
	int col = write->fence->token_attnum;
	Datum value = Int64GetDatum(token);
	bool isnull = false;

	return heap_modify_tuple_by_cols(row, write->desc, 1, &col, &value,
									 &isnull);
}

/* Does the UPDATE itself set this column? */
static bool
is_set(Write *write, AttrNumber attnum)
{
	return bms_is_member(attnum - FirstLowInvalidHeapAttributeNumber,
						 write->trigdata->tg_updatedcols);
}

/* ----------
 * The other two triggers
 * ----------
 */

Datum
fencing_guard_recheck(PG_FUNCTION_ARGS)
{
	TriggerData *trigdata = (TriggerData *) fcinfo->context;
	const Trigger *guard;
	Write write;
	bool isnull;
	int64 token;

	if (!CALLED_AS_TRIGGER(fcinfo) ||
		!TRIGGER_FIRED_AFTER(trigdata->tg_event) ||
		!TRIGGER_FIRED_FOR_ROW(trigdata->tg_event) ||
		!TRIGGER_FIRED_BY_INSERT(trigdata->tg_event))
		fencing_trigger_misuse(FENCING_RECHECK_FUNCTION);

	if (fencing_enforcement == ENFORCEMENT_OFF)
		return PointerGetDatum(NULL); /* noted by the guard */

	write.trigdata = trigdata;
	write.rel = trigdata->tg_relation;
	write.desc = RelationGetDescr(write.rel);
	guard = fencing_guard_trigger(write.rel);
	if (guard == NULL)
		fencing_broken_fence(write.rel, "Its guard trigger is missing.",
							 "Declare the fence again with fencing.fence, or remove it with fencing.unfence.");
	write.fence = fencing_fence_get(write.rel, guard);
	if (write.fence->decl.mark != MARK_ROW || !write.fence->decl.tombstones)
		return PointerGetDatum(NULL);

	make_name(&write, trigdata->tg_trigtuple, &write.name);
	token = column_value(&write, trigdata->tg_trigtuple, &isnull);
	fencing_recheck(write.rel, &write.name, token,
					write.fence->decl.rule.strict,
					write.fence->decl.shadow ||
						fencing_enforcement == ENFORCEMENT_SHADOW,
					write.fence->counter);
	return PointerGetDatum(NULL);
}

Datum
fencing_guard_truncate(PG_FUNCTION_ARGS)
{
	TriggerData *trigdata = (TriggerData *) fcinfo->context;
	const Trigger *guard;
	StatCounter *counter;

	if (!CALLED_AS_TRIGGER(fcinfo) ||
		!TRIGGER_FIRED_BY_TRUNCATE(trigdata->tg_event))
		fencing_trigger_misuse(FENCING_TRUNCATE_FUNCTION);

	/* a partition that was detached keeps this trigger and is not fenced */
	guard = fencing_guard_trigger(trigdata->tg_relation);
	if (guard == NULL)
		return PointerGetDatum(NULL);

	counter = fencing_stat_counter(
		fencing_fence_relid(trigdata->tg_relation, guard));
	if (fencing_enforcement == ENFORCEMENT_OFF)
		fencing_commit_note_off(trigdata->tg_relation);
	else if (fencing_enforcement == ENFORCEMENT_SHADOW ||
			 fencing_fence_get(trigdata->tg_relation, guard)->decl.shadow)
		fencing_truncate_in_shadow(trigdata->tg_relation, counter);
	else
		fencing_refuse_truncate(trigdata->tg_relation, counter);
	return PointerGetDatum(NULL);
}
