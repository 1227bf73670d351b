/*-------------------------------------------------------------------------
 *
 * store.c
 *		Access to the tables that keep one number for each resource.
 *
 * A fenced write reads and locks a mark, so this is the hot path of resource
 * marks, and it goes to table and index directly: no plan, no SPI, no
 * executor, no rights to switch.  An index scan under the newest snapshot
 * finds the row, table_tuple_lock() follows its versions to the newest one
 * and locks it, and the caller compares numbers after that, in C.  No WHERE
 * clause is evaluated against a version that is about to be replaced.
 *
 * A new row is added the way INSERT ... ON CONFLICT does it: speculatively,
 * so that of two transactions adding one name the second waits for the first
 * and then finds its row, instead of failing with a unique violation.
 *
 * Every write ends with CommandCounterIncrement(): the next access in this
 * transaction must see it, and heap_lock_tuple() rightly refuses to lock a
 * version that its own command wrote.  The statement whose trigger called us
 * keeps the snapshot and command number that it started with.
 *
 * Relations are looked up by name once and their OIDs kept; the relcache
 * callback forgets them when the extension is dropped or made anew.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/multixact.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_collation.h"
#include "executor/executor.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "compat.h"
#include "store.h"

static const char *const store_names[STORE_KINDS] = {"marks", "issued",
													 "command_records"};
static const int store_natts[STORE_KINDS] = {MARKS_NATTS, ISSUED_NATTS,
											 COMMANDS_NATTS};

/* The argument of an index scan, in memory of the caller. */
typedef union SearchKey
{
	struct varlena header;
	char data[VARHDRSZ + FENCING_RESOURCE_MAX];
} SearchKey;

/* Known OIDs; InvalidOid until looked up and after an invalidation. */
static Oid store_oids[STORE_KINDS];

uint64 fencing_store_generation = 1;

static void relcache_callback(Datum arg, Oid relid);

void
fencing_store_init(void)
{
	CacheRegisterRelcacheCallback(relcache_callback, (Datum) 0);
}

static void
relcache_callback(Datum arg, Oid relid)
{
	for (int i = 0; i < STORE_KINDS; i++)
		if (relid == InvalidOid || relid == store_oids[i])
			store_oids[i] = InvalidOid;
	fencing_store_generation++;
}

Oid
fencing_relation_oid(const char *relname)
{
	Oid schema = get_namespace_oid(FENCING_SCHEMA, false);
	Oid relid = get_relname_relid(relname, schema);

	if (!OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation \"%s.%s\" does not exist", FENCING_SCHEMA,
						relname),
				 errhint(
					 "Is extension \"fencing\" installed in this database, and in the version of its library?")));
	return relid;
}

Oid
fencing_store_oid(StoreKind kind)
{
	/* looked up into a local first: the lookup may process invalidations */
	if (!OidIsValid(store_oids[kind]))
	{
		Oid relid = fencing_relation_oid(store_names[kind]);

		store_oids[kind] = relid;
	}
	return store_oids[kind];
}

void
fencing_store_open(Store *store, StoreKind kind, LOCKMODE lockmode)
{
	store->kind = kind;
	store->rel = table_open(fencing_store_oid(kind), lockmode);

	/* asked under the lock, since REINDEX CONCURRENTLY replaces the index */
	if (!store->rel->rd_indexvalid)
		list_free(RelationGetIndexList(store->rel));
	if (!OidIsValid(store->rel->rd_pkindex))
		elog(ERROR, "table \"%s.%s\" has no primary key", FENCING_SCHEMA,
			 store_names[kind]);
	/*
	 * A table of an older version lacks columns at its end.  Marks and tokens
	 * do without them until the extension is updated, so that a new library
	 * stops no writer; leases and commands did not exist then.
	 */
	store->natts = Min(RelationGetNumberOfAttributes(store->rel),
					   store_natts[kind]);
	store->index = index_open(store->rel->rd_pkindex, lockmode);
	store->slot = table_slot_create(store->rel, NULL);
	store->snapshot = NULL;
}

void
fencing_store_close(Store *store)
{
	ExecDropSingleTupleTableSlot(store->slot);
	if (store->snapshot)
		UnregisterSnapshot(store->snapshot);
	index_close(store->index, NoLock);
	table_close(store->rel, NoLock);
}

/* The number in the row at hand. */
static int64
slot_token(TupleTableSlot *slot)
{
	bool isnull;
	Datum token = slot_getattr(slot, STORE_ATT_TOKEN, &isnull);

	Assert(!isnull);
	return DatumGetInt64(token);
}

/* Begins a scan for the row of a name. */
static IndexScanDesc
begin_search(Store *store, Snapshot snapshot, const char *name, int len,
			 SearchKey *key)
{
	ScanKeyData scankey;
	IndexScanDesc scan;

	if (store->kind == STORE_COMMANDS)
	{
		Assert(len == UUID_LEN);
		memcpy(key->data, name, UUID_LEN);
		ScanKeyInit(&scankey, STORE_ATT_RESOURCE, BTEqualStrategyNumber,
					F_UUID_EQ, PointerGetDatum(key));
	}
	else
	{
		SET_VARSIZE(key, VARHDRSZ + len);
		memcpy(VARDATA(key), name, len);
		ScanKeyInit(&scankey, STORE_ATT_RESOURCE, BTEqualStrategyNumber,
					F_TEXTEQ, PointerGetDatum(key));
		Assert(scankey.sk_collation == C_COLLATION_OID);
	}

	scan = fencing_index_beginscan(store->rel, store->index, snapshot, 1);
	index_rescan(scan, &scankey, 1, NULL, 0);
	return scan;
}

bool
fencing_store_find(Store *store, const char *name, int len, int64 *token)
{
	SearchKey key;
	IndexScanDesc scan;
	bool found;

	if (store->snapshot)
		UnregisterSnapshot(store->snapshot);
	store->snapshot = RegisterSnapshot(GetLatestSnapshot());

	scan = begin_search(store, store->snapshot, name, len, &key);
	found = index_getnext_slot(scan, ForwardScanDirection, store->slot);
	index_endscan(scan);
	if (found)
	{
		store->tid = store->slot->tts_tid;
		*token = slot_token(store->slot);
	}
	return found;
}

bool
fencing_store_peek(Store *store, const char *name, int len,
				   InFlight *in_flight)
{
	SearchKey key;
	IndexScanDesc scan;
	SnapshotData dirty;
	bool found;

	/* each row that the scan returns leaves its transactions in here */
	InitDirtySnapshot(dirty);
	scan = begin_search(store, &dirty, name, len, &key);
	found = index_getnext_slot(scan, ForwardScanDirection, store->slot);
	in_flight->xid = InvalidTransactionId;
	in_flight->speculative = 0;
	if (found)
	{
		/* the slot's pin keeps the row, but not the scan's memory */
		ExecMaterializeSlot(store->slot);
		store->tid = store->slot->tts_tid;
		if (TransactionIdIsValid(dirty.xmin))
		{
			in_flight->xid = dirty.xmin;
			in_flight->speculative = dirty.speculativeToken;
		}
		else
			in_flight->xid = dirty.xmax;
	}
	index_endscan(scan);
	return found;
}

void
fencing_store_wait(const Store *store, const InFlight *in_flight)
{
	ItemPointerData tid = store->tid;

	if (in_flight->speculative != 0)
		SpeculativeInsertionWait(in_flight->xid, in_flight->speculative);
	else
		XactLockTableWait(in_flight->xid, store->rel, &tid, XLTW_Lock);
}

bool
fencing_store_lock_peeked(Store *store, bool *locked)
{
	TM_FailureData failure;
	TM_Result result;

	ExecClearTuple(store->slot);
	result = table_tuple_lock(store->rel, &store->tid, SnapshotAny,
							  store->slot, GetCurrentCommandId(false),
							  LockTupleNoKeyExclusive, LockWaitSkip, 0,
							  &failure);
	*locked = result == TM_WouldBlock;
	return result == TM_Ok;
}

Datum
fencing_store_value(Store *store, int attnum, bool *isnull)
{
	if (attnum > store->natts)
	{
		*isnull = true;
		return (Datum) 0;
	}
	return slot_getattr(store->slot, attnum, isnull);
}

TM_Result
fencing_store_lock(Store *store, LockTupleMode mode, bool wait, int64 *token)
{
	ItemPointerData tid = store->tid; /* follows the versions */
	TM_FailureData failure;
	TM_Result result;

	ExecClearTuple(store->slot);
	result = table_tuple_lock(store->rel, &tid, store->snapshot, store->slot,
							  GetCurrentCommandId(false), mode,
							  wait ? LockWaitBlock : LockWaitSkip,
							  TUPLE_LOCK_FLAG_FIND_LAST_VERSION, &failure);
	switch (result)
	{
		case TM_Ok:
			*token = slot_token(store->slot);
			return TM_Ok;
		case TM_Deleted:
		case TM_WouldBlock:
			return result;
		default:

			/*
			 * TM_Updated does not come with FIND_LAST_VERSION, and the rest
			 * is a version written by the running command, which the
			 * increments after our writes rule out.
			 */
			elog(ERROR, "unexpected result %d of locking a row of \"%s\"",
				 (int) result, RelationGetRelationName(store->rel));
	}
	return result; /* not reached */
}

static bool
has_raised_by(const Store *store)
{
	return store->kind == STORE_MARKS && store->natts >= MARKS_ATT_RAISED_BY;
}

/* Who raises a mark, as far as a session tells; NULL if it does not. */
static Datum
raised_by(bool *isnull)
{
	*isnull = application_name == NULL || application_name[0] == '\0';
	return *isnull ? (Datum) 0 : CStringGetTextDatum(application_name);
}

void
fencing_store_update(Store *store, int64 token)
{
	int cols[] = {STORE_ATT_TOKEN, STORE_ATT_UPDATED, MARKS_ATT_RAISED_BY};
	Datum values[lengthof(cols)];
	bool nulls[lengthof(cols)] = {false};

	values[0] = Int64GetDatum(token);
	values[1] = TimestampTzGetDatum(GetCurrentTimestamp());
	if (has_raised_by(store))
		values[2] = raised_by(&nulls[2]);
	fencing_store_modify(store, has_raised_by(store) ? 3 : 2, cols, values,
						 nulls);
}

void
fencing_store_modify(Store *store, int ncols, const int *cols,
					 const Datum *values, const bool *nulls)
{
	bool should_free;
	HeapTuple old = ExecFetchSlotHeapTuple(store->slot, false, &should_free);
	HeapTuple new;

	new = heap_modify_tuple_by_cols(old, RelationGetDescr(store->rel), ncols,
									(int *) cols, (Datum *) values,
									(bool *) nulls);
	CatalogTupleUpdate(store->rel, &old->t_self, new);
	heap_freetuple(new);
	if (should_free)
		heap_freetuple(old);
	CommandCounterIncrement();
}

bool
fencing_store_insert(Store *store, const char *name, int len, int64 token)
{
	Datum values[STORE_MAX_NATTS];
	bool nulls[STORE_MAX_NATTS];

	memset(nulls, true, sizeof(nulls));
	memset(nulls, false, STORE_ATT_UPDATED * sizeof(bool));
	values[STORE_ATT_RESOURCE - 1] = PointerGetDatum(
		cstring_to_text_with_len(name, len));
	values[STORE_ATT_TOKEN - 1] = Int64GetDatum(token);
	values[STORE_ATT_UPDATED - 1] = TimestampTzGetDatum(GetCurrentTimestamp());
	if (has_raised_by(store))
		values[MARKS_ATT_RAISED_BY - 1] = raised_by(
			&nulls[MARKS_ATT_RAISED_BY - 1]);
	return fencing_store_insert_row(store, values, nulls);
}

bool
fencing_store_insert_row(Store *store, const Datum *values, const bool *nulls)
{
	EState *estate = CreateExecutorState();
	ResultRelInfo *target = makeNode(ResultRelInfo);
	TupleTableSlot *slot = store->slot;
	int natts = store->natts;
	bool inserted = false;

	/* the server may ask what its statement sees; any snapshot will do */
	if (store->snapshot == NULL)
		store->snapshot = RegisterSnapshot(GetLatestSnapshot());
	estate->es_snapshot = store->snapshot;

	InitResultRelInfo(target, store->rel, 0, NULL, 0);
	ExecOpenIndices(target, true);

	for (;;)
	{
		uint32 spec;
		bool conflict = false; /* set only if there is one */

		ExecClearTuple(slot);
		memcpy(slot->tts_values, values, natts * sizeof(Datum));
		memcpy(slot->tts_isnull, nulls, natts * sizeof(bool));
		ExecStoreVirtualTuple(slot);

		if (!fencing_no_conflict(target, slot, estate))
			break;

		spec = SpeculativeInsertionLockAcquire(GetCurrentTransactionId());
		table_tuple_insert_speculative(store->rel, slot,
									   GetCurrentCommandId(true), 0, NULL,
									   spec);
		fencing_insert_speculative_entries(target, slot, estate, &conflict);
		table_tuple_complete_speculative(store->rel, slot, spec, !conflict);
		SpeculativeInsertionLockRelease(GetCurrentTransactionId());
		if (!conflict)
		{
			inserted = true;
			break;
		}

		/* another one came between the look and the insert; look again */
		CHECK_FOR_INTERRUPTS();
	}

	ExecCloseIndices(target);
	FreeExecutorState(estate);
	pfree(target);
	CommandCounterIncrement();
	return inserted;
}

void
fencing_store_add_row(Store *store, const Datum *values, const bool *nulls)
{
	HeapTuple tuple = heap_form_tuple(RelationGetDescr(store->rel),
									  (Datum *) values, (bool *) nulls);

	CatalogTupleInsert(store->rel, tuple);
	heap_freetuple(tuple);
	CommandCounterIncrement();
}

bool
fencing_store_is_own(const Store *store)
{
	BufferHeapTupleTableSlot *slot = (BufferHeapTupleTableSlot *) store->slot;

	/* xmin changes to frozen at most, which ours cannot do yet */
	Assert(TTS_IS_BUFFERTUPLE(store->slot));
	return TransactionIdIsCurrentTransactionId(
		HeapTupleHeaderGetXmin(slot->base.tuple->t_data));
}

/* Is a transaction another one, and not over in the view of a snapshot? */
static bool
is_newer(TransactionId xid, Snapshot snapshot)
{
	return TransactionIdIsNormal(xid) &&
		!TransactionIdIsCurrentTransactionId(xid) &&
		XidInMVCCSnapshot(xid, snapshot);
}

/*
 * Has any transaction ended between two snapshots?  One that had begun before
 * the first has left the list of the running ones, which cannot get longer
 * below the same xmax; the end of a later one moves xmax.
 */
static bool
any_ended_between(Snapshot first, Snapshot second)
{
	return first->xmax != second->xmax || first->xcnt != second->xcnt;
}

/*
 * The row's xmax keeps the last lockers even when they are gone; each one that
 * replaced them came later, so whoever locked after the snapshot was taken
 * leaves a trace here that is_newer() recognizes.  Where several locked at
 * once the trace is a multixact.  Its members cannot be read any more once
 * none of them runs; then the answer is "newer", which costs a retry.  (The
 * retry succeeds: the lock of the transaction that fails has replaced the
 * multixact.)  VACUUM removes a finished multixact altogether, so a row
 * without xmax tells nothing either, unless no transaction at all has ended
 * since the snapshot was taken, as in a claim that is the first statement.
 */
bool
fencing_store_is_newer(const Store *store, Snapshot snapshot)
{
	BufferHeapTupleTableSlot *slot = (BufferHeapTupleTableSlot *) store->slot;
	HeapTupleHeader header = slot->base.tuple->t_data;
	TransactionId xmin, xmax;
	uint16 infomask;
	MultiXactMember *members;
	int nmembers;
	bool newer = false;

	/* xmax and infomask belong together */
	LockBuffer(slot->buffer, BUFFER_LOCK_SHARE);
	xmin = HeapTupleHeaderGetXmin(header);
	xmax = HeapTupleHeaderGetRawXmax(header);
	infomask = header->t_infomask;
	LockBuffer(slot->buffer, BUFFER_LOCK_UNLOCK);

	if (is_newer(xmin, snapshot))
		return true;
	if (!TransactionIdIsValid(xmax))
		return !TransactionIdIsCurrentTransactionId(xmin) &&
			any_ended_between(snapshot, store->snapshot);
	if (!(infomask & HEAP_XMAX_IS_MULTI))
		return is_newer(xmax, snapshot);

	/* one hinted invalid may have been truncated away already */
	if (infomask & HEAP_XMAX_INVALID)
		return MultiXactIdIsValid(xmax);
	nmembers = GetMultiXactIdMembers(xmax, &members, false,
									 HEAP_XMAX_IS_LOCKED_ONLY(infomask));
	if (nmembers <= 0)
		return true;
	for (int i = 0; i < nmembers && !newer; i++)
		newer = is_newer(members[i].xid, snapshot);
	pfree(members);
	return newer;
}

bool
fencing_store_ended_since_find(const Store *store)
{
	return any_ended_between(store->snapshot, GetLatestSnapshot());
}
