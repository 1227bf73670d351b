/*-------------------------------------------------------------------------
 *
 * rowmove.c
 *		Recognizing the three trigger firings of a row that changes partition.
 *
 * An UPDATE that moves a row to another partition fires the BEFORE triggers
 * of UPDATE and DELETE on the old partition and of INSERT on the new one.
 * The token is checked by the first.  The second carries none (a DELETE has
 * no column to carry it in) and must not be refused for that, and the third
 * must not be taken for a new row.  The trigger data does not tell that they
 * belong together, so it is concluded:
 *
 * - The DELETE comes from the same ModifyTable node as the UPDATE, so it is
 *   given the same slot for the old row, the row is the same version of the
 *   same relation, the statement has the same command number (each statement
 *   that writes has its own), and it runs under as many triggers.
 * - The INSERT follows under the same command number and trigger depth.  Its
 *   name and token must be those that the UPDATE was checked for; then taking
 *   it for the third firing cannot let anything through that was not checked.
 *
 * What is compared repeats in the next execution of a plan, in another
 * transaction; so a move is forgotten with its transaction or savepoint.
 *
 * One move is remembered at a time.  A trigger that fires between the three
 * and itself moves a row makes us forget the outer one, whose DELETE is then
 * checked like any other: it errs on the side of a refusal.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/itemptr.h"
#include "utils/fmgrprotos.h"
#include "utils/snapmgr.h"

#include "rowmove.h"

typedef enum MoveState
{
	MOVE_NONE,
	MOVE_UPDATED, /* the first firing has been seen */
	MOVE_DELETED  /* and the second */
} MoveState;

static struct
{
	MoveState state;
	Oid relid;			  /* old partition */
	ItemPointerData tid;  /* the row's old version */
	TupleTableSlot *slot; /* where the executor keeps it; not followed */
	CommandId command;
	int depth;
	int64 token;
	bool buried;
	ResourceName name; /* new name */
} move;

static CommandId
statement_command(void)
{
	return GetActiveSnapshot()->curcid;
}

int
fencing_trigger_depth(void)
{
	return DatumGetInt32(DirectFunctionCall1(pg_trigger_depth, (Datum) 0));
}

void
fencing_rowmove_begin(const TriggerData *trigdata, const ResourceName *name,
					  int64 token, bool buried)
{
	move.state = MOVE_UPDATED;
	move.relid = RelationGetRelid(trigdata->tg_relation);
	move.tid = trigdata->tg_trigtuple->t_self;
	move.slot = trigdata->tg_trigslot;
	move.command = statement_command();
	move.depth = fencing_trigger_depth();
	move.token = token;
	move.buried = buried;
	move.name.len = name->len;
	memcpy(move.name.data, name->data, name->len + 1);
}

bool
fencing_rowmove_is_delete(const TriggerData *trigdata, int64 *token,
						  bool *buried)
{
	if (move.state != MOVE_UPDATED ||
		move.relid != RelationGetRelid(trigdata->tg_relation) ||
		!ItemPointerEquals(&move.tid, &trigdata->tg_trigtuple->t_self) ||
		move.slot != trigdata->tg_trigslot ||
		move.command != statement_command() ||
		move.depth != fencing_trigger_depth())
		return false;
	move.state = MOVE_DELETED;
	*token = move.token;
	*buried = move.buried;
	return true;
}

bool
fencing_rowmove_is_insert(const TriggerData *trigdata,
						  const ResourceName *name, int64 token)
{
	if (!fencing_rowmove_in_progress() ||
		!trigdata->tg_relation->rd_rel->relispartition ||
		move.token != token || move.name.len != name->len ||
		memcmp(move.name.data, name->data, name->len) != 0)
		return false;
	move.state = MOVE_NONE;
	return true;
}

bool
fencing_rowmove_in_progress(void)
{
	return move.state == MOVE_DELETED && move.command == statement_command() &&
		move.depth == fencing_trigger_depth();
}

void
fencing_rowmove_forget(void)
{
	move.state = MOVE_NONE;
}
