/*-------------------------------------------------------------------------
 *
 * compat.h
 *		Every difference between the supported server versions, in one place.
 *
 * The rest of the code is written against the names below and contains no
 * test of PG_VERSION_NUM.  Each function is named fencing_ plus what it
 * stands for; where the newest server has a plain spelling, ours takes the
 * same arguments in the same order as far as all versions have them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_COMPAT_H
#define FENCING_COMPAT_H

#include "access/genam.h"
#include "catalog/pg_class.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/lock.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/sinvaladt.h"
#include "utils/acl.h"
#include "utils/datetime.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"
#if PG_VERSION_NUM >= 170000
#include "storage/dsm_registry.h"
#endif

#if PG_VERSION_NUM < 150000
#error "fencing needs PostgreSQL 15 or later"
#endif

/*
 * The library is compiled with hidden symbols, so that its parts call each
 * other directly; what the server looks up by name is marked.  Since 16 the
 * server's headers do that.
 */
#if PG_VERSION_NUM < 160000
#undef PGDLLEXPORT
#define PGDLLEXPORT __attribute__((visibility("default")))
#endif

/* PG_FUNCTION_INFO_V1 for a function with the mark. */
#define FENCING_FUNCTION(name)                                                \
	extern PGDLLEXPORT Datum name(PG_FUNCTION_ARGS);                          \
	PG_FUNCTION_INFO_V1(name)

/* Before a function that does not return: a name of 18. */
#ifndef pg_noreturn
#define pg_noreturn pg_attribute_noreturn()
#endif

/* Memory for the "extra" of a GUC: malloc until 15, the GUC context since. */
static inline void *
fencing_guc_malloc(int elevel, size_t size)
{
#if PG_VERSION_NUM >= 160000
	return guc_malloc(elevel, size);
#else
	void *data = malloc(size);

	if (data == NULL)
		ereport(elevel,
				(errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	return data;
#endif
}

static inline void
fencing_guc_free(void *data)
{
#if PG_VERSION_NUM >= 160000
	guc_free(data);
#else
	free(data);
#endif
}

static inline bool
fencing_is_table_owner(Oid relid)
{
#if PG_VERSION_NUM >= 160000
	return object_ownercheck(RelationRelationId, relid, GetUserId());
#else
	return pg_class_ownercheck(relid, GetUserId());
#endif
}

static inline int
fencing_decode_datetime(char **field, int *ftype, int nf, int *dtype,
						struct pg_tm *tm, fsec_t *fsec, int *tz)
{
#if PG_VERSION_NUM >= 160000
	DateTimeErrorExtra extra;

	return DecodeDateTime(field, ftype, nf, dtype, tm, fsec, tz, &extra);
#else
	return DecodeDateTime(field, ftype, nf, dtype, tm, fsec, tz);
#endif
}

/* Intervals can be infinite since 17. */
static inline bool
fencing_interval_is_finite(const Interval *interval)
{
#if PG_VERSION_NUM >= 170000
	return !INTERVAL_NOT_FINITE(interval);
#else
	return true;
#endif
}

/* What pg_stat_activity shows while we sleep: a name of our own since 17. */
static inline uint32
fencing_wait_event(const char *name)
{
#if PG_VERSION_NUM >= 170000
	return WaitEventExtensionNew(name);
#else
	return PG_WAIT_EXTENSION;
#endif
}

/* The process of a virtual transaction, NULL if it is gone. */
static inline PGPROC *
fencing_vxid_proc(const VirtualTransactionId *vxid)
{
#if PG_VERSION_NUM >= 170000
	return ProcNumberGetProc(vxid->procNumber);
#else
	return BackendIdGetProc(vxid->backendId);
#endif
}

static inline IndexScanDesc
fencing_index_beginscan(Relation heap, Relation index, Snapshot snapshot,
						int nkeys)
{
#if PG_VERSION_NUM >= 190000
	return index_beginscan(heap, index, snapshot, NULL, nkeys, 0, 0);
#elif PG_VERSION_NUM >= 180000
	return index_beginscan(heap, index, snapshot, NULL, nkeys, 0);
#else
	return index_beginscan(heap, index, snapshot, nkeys, 0);
#endif
}

/*
 * Is there no committed or own row in the way of inserting this one?  Waits
 * for those that are still being inserted.
 */
static inline bool
fencing_no_conflict(ResultRelInfo *target, TupleTableSlot *slot,
					EState *estate)
{
	ItemPointerData conflict;
#if PG_VERSION_NUM >= 180000
	ItemPointerData none;

	ItemPointerSetInvalid(&none);
	return ExecCheckIndexConstraints(target, slot, estate, &conflict, &none,
									 NIL);
#else
	return ExecCheckIndexConstraints(target, slot, estate, &conflict, NIL);
#endif
}

/* The index entries of a row that was inserted speculatively. */
static inline void
fencing_insert_speculative_entries(ResultRelInfo *target, TupleTableSlot *slot,
								   EState *estate, bool *conflict)
{
#if PG_VERSION_NUM >= 190000
	list_free(ExecInsertIndexTuples(target, estate, EIIT_NO_DUPE_ERROR, slot,
									NIL, conflict));
#elif PG_VERSION_NUM >= 160000
	list_free(ExecInsertIndexTuples(target, slot, estate, false, true,
									conflict, NIL, false));
#else
	list_free(ExecInsertIndexTuples(target, slot, estate, false, true,
									conflict, NIL));
#endif
}

/*
 * Can a session make shared memory that others find by name?  The segment is
 * mapped for the rest of the session; init is called by whoever makes it.
 * Raises an error if there is no memory.
 */
#define FENCING_NAMED_SEGMENTS (PG_VERSION_NUM >= 170000)

#if PG_VERSION_NUM >= 190000
static inline void
fencing_call_init(void *ptr, void *arg)
{
	(*(void (**)(void *)) arg)(ptr);
}
#endif

static inline void *
fencing_named_segment(const char *name, Size size, void (*init)(void *))
{
#if PG_VERSION_NUM >= 190000
	bool found;

	return GetNamedDSMSegment(name, size, fencing_call_init, &found, &init);
#elif PG_VERSION_NUM >= 170000
	bool found;

	return GetNamedDSMSegment(name, size, init, &found);
#else
	elog(ERROR, "shared memory is found by name from PostgreSQL 17 on");
	return NULL;
#endif
}

/* A new kind of LWLock, and its name for the sessions that did not make it. */
static inline int
fencing_new_tranche(const char *name)
{
#if PG_VERSION_NUM >= 190000
	return LWLockNewTrancheId(name);
#else
	return LWLockNewTrancheId();
#endif
}

static inline void
fencing_register_tranche(int tranche, const char *name)
{
#if PG_VERSION_NUM < 190000
	LWLockRegisterTranche(tranche, name);
#endif
}

/* Parameters of an ExecutorRun hook, and the same passed on. */
#if PG_VERSION_NUM >= 180000
#define FENCING_RUN_PARAMETERS                                                \
	QueryDesc *queryDesc, ScanDirection direction, uint64 count
#define FENCING_RUN_ARGUMENTS queryDesc, direction, count
#else
#define FENCING_RUN_PARAMETERS                                                \
	QueryDesc *queryDesc, ScanDirection direction, uint64 count,              \
		bool execute_once
#define FENCING_RUN_ARGUMENTS queryDesc, direction, count, execute_once
#endif

/* ---------------------------------------------------------------------------
 * For fencing_redis
 * ---------------------------------------------------------------------------
 */

/* May the current user use this foreign server? */
static inline AclResult
fencing_server_usage(Oid serverid)
{
#if PG_VERSION_NUM >= 160000
	return object_aclcheck(ForeignServerRelationId, serverid, GetUserId(),
						   ACL_USAGE);
#else
	return pg_foreign_server_aclcheck(serverid, GetUserId(), ACL_USAGE);
#endif
}

/* Raises 42501 unless the current user may call a function of a schema. */
static inline void
fencing_redis_check_execute(Oid function, Oid schema)
{
#if PG_VERSION_NUM >= 160000
	AclResult usage = object_aclcheck(NamespaceRelationId, schema, GetUserId(),
									  ACL_USAGE);
	AclResult execute = object_aclcheck(ProcedureRelationId, function,
										GetUserId(), ACL_EXECUTE);
#else
	AclResult usage = pg_namespace_aclcheck(schema, GetUserId(), ACL_USAGE);
	AclResult execute = pg_proc_aclcheck(function, GetUserId(), ACL_EXECUTE);
#endif

	if (usage != ACLCHECK_OK)
		aclcheck_error(usage, OBJECT_SCHEMA, get_namespace_name(schema));
	if (execute != ACLCHECK_OK)
		aclcheck_error(execute, OBJECT_FUNCTION, get_func_name(function));
}

/* Type of the second parameter of a syscache callback. */
#if PG_VERSION_NUM >= 190000
#define FENCING_CACHE_ID SysCacheIdentifier
#else
#define FENCING_CACHE_ID int
#endif

/* A set of events to wait for that no resource owner frees. */
static inline WaitEventSet *
fencing_redis_create_wait_set(int nevents)
{
#if PG_VERSION_NUM >= 170000
	return CreateWaitEventSet(NULL, nevents);
#else
	return CreateWaitEventSet(TopMemoryContext, nevents);
#endif
}

/* What pg_stat_activity shows while Redis is waited for. */
static inline uint32
fencing_redis_wait_event(void)
{
#if PG_VERSION_NUM >= 170000
	static uint32 wait_event = 0;

	if (wait_event == 0)
		wait_event = WaitEventExtensionNew("FencingRedis");
	return wait_event;
#else
	return PG_WAIT_EXTENSION;
#endif
}

#endif /* FENCING_COMPAT_H */
