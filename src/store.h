/*-------------------------------------------------------------------------
 *
 * store.h
 *		Access to the tables that keep one number for each resource.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_STORE_H
#define FENCING_STORE_H

#include "access/tableam.h"
#include "nodes/lockoptions.h"
#include "utils/rel.h"
#include "utils/snapshot.h"

#include "resource.h"

/*
 * The tables.  They begin with a primary key of one column, a token, and the
 * time of the last change; what follows is named below.  The key is (resource
 * text COLLATE "C"), or (id uuid) for commands.
 */
typedef enum StoreKind
{
	STORE_MARKS,	/* fencing.marks: the highest token accepted */
	STORE_ISSUED,	/* fencing.issued: the last token handed out, the lease */
	STORE_COMMANDS, /* fencing.command_records */
	STORE_KINDS
} StoreKind;

enum
{
	STORE_ATT_RESOURCE = 1,
	STORE_ATT_TOKEN,
	STORE_ATT_UPDATED
};

enum
{
	MARKS_ATT_RAISED_BY = STORE_ATT_UPDATED + 1,
	MARKS_NATTS = MARKS_ATT_RAISED_BY
};

enum
{
	ISSUED_ATT_LEASE_TOKEN = STORE_ATT_UPDATED + 1,
	ISSUED_ATT_HOLDER,
	ISSUED_ATT_ACQUIRED,
	ISSUED_ATT_EXPIRES,
	ISSUED_ATT_PID,
	ISSUED_ATT_APPLICATION,
	ISSUED_ATT_ORIGIN,
	ISSUED_NATTS = ISSUED_ATT_ORIGIN
};

enum
{
	COMMANDS_ATT_SCOPE = STORE_ATT_UPDATED + 1,
	COMMANDS_ATT_KEY,
	COMMANDS_ATT_STATE,
	COMMANDS_ATT_REQUEST,
	COMMANDS_ATT_OUTCOME,
	COMMANDS_ATT_ATTEMPTS,
	COMMANDS_ATT_BEGUN,
	COMMANDS_ATT_TAKEOVER,
	COMMANDS_NATTS = COMMANDS_ATT_TAKEOVER
};

#define STORE_MAX_NATTS COMMANDS_NATTS

/* An open store, and the row that was found or locked last. */
typedef struct Store
{
	StoreKind kind;
	int natts; /* columns that the table has, of those named above */
	Relation rel;
	Relation index;
	Snapshot snapshot;	  /* registered; of the last find, NULL before */
	TupleTableSlot *slot; /* the row */
	ItemPointerData tid;  /* where the last find saw it */
} Store;

/*
 * Opens a store with AccessShareLock to read or RowExclusiveLock to write.
 * The table lock is kept to the end of the transaction, which makes the next
 * open cheap; after an error the resource owner does what close would have
 * done.  No right of the current user is asked for: the callers are the
 * functions whose business this is.  Raises 3F000/42P01 if the extension is
 * not there.
 */
extern void fencing_store_open(Store *store, StoreKind kind,
							   LOCKMODE lockmode);
extern void fencing_store_close(Store *store);

/*
 * Names are those of resources, or the bytes of a UUID.
 *
 * Looks up the row of a name as the newest snapshot shows it: committed by
 * anybody, or written by this transaction.  Returns false if there is none,
 * else its number in *token, and keeps the row for the calls below.
 */
extern bool fencing_store_find(Store *store, const char *name, int len,
							   int64 *token);

/*
 * Locks the newest version of the row found, waiting for its writers and
 * lockers (with wait false, gives up instead).  TM_Ok: *token is its number
 * now, and the lock lasts to the end of the transaction or until the rollback
 * to the savepoint.  TM_WouldBlock: it is locked by another.  TM_Deleted: it
 * is gone; find again.
 */
extern TM_Result fencing_store_lock(Store *store, LockTupleMode mode,
									bool wait, int64 *token);

/*
 * What a transaction that is still running does to a row: InvalidTransactionId
 * if none does.  "speculative" is not 0 as long as it may take back what it inserted.
 */
typedef struct InFlight
{
	TransactionId xid;
	uint32 speculative;
} InFlight;

/*
 * Looks up the row of a name in its last committed state, or as this or a
 * running transaction adds it; *in_flight tells about such another
 * transaction.  Returns false if there is no row (which an update at the same
 * moment can make look so: adding it will tell).  Takes no lock.
 */
extern bool fencing_store_peek(Store *store, const char *name, int len,
							   InFlight *in_flight);

/*
 * Waits for the end of such a transaction, or of what it may take back.  Like
 * any wait for a transaction it ends with lock_timeout, a cancel, a deadlock.
 */
extern void fencing_store_wait(const Store *store, const InFlight *in_flight);

/*
 * Locks the very version that the last peek found (exclusively but for
 * foreign keys), without waiting.  Returns false, with nothing locked, if
 * there is a newer one or another transaction has it, which *locked tells.
 */
extern bool fencing_store_lock_peeked(Store *store, bool *locked);

/* A column of the row found or locked last; NULL if the table lacks it. */
extern Datum fencing_store_value(Store *store, int attnum, bool *isnull);

/*
 * Gives the row locked last (exclusively) another number.  Ends with a command
 * counter increment, so that the change is visible to this transaction.
 */
extern void fencing_store_update(Store *store, int64 token);

/* The same for any columns; the number is one of them or stays. */
extern void fencing_store_modify(Store *store, int ncols, const int *cols,
								 const Datum *values, const bool *nulls);

/*
 * Adds a row for a name.  Waits for a transaction that is adding the same
 * one.  Returns false if the row is there already (find again).  Raises no
 * unique violation.  Increments the command counter.
 */
extern bool fencing_store_insert(Store *store, const char *name, int len,
								 int64 token);

/* The same with all columns given, indexed by attribute number - 1. */
extern bool fencing_store_insert_row(Store *store, const Datum *values,
									 const bool *nulls);

/*
 * The same where the caller knows that nobody adds such a row: cheaper, and a
 * row that is there nevertheless is a unique violation.
 */
extern void fencing_store_add_row(Store *store, const Datum *values,
								  const bool *nulls);

/* Was the row found or locked last written by this transaction? */
extern bool fencing_store_is_own(const Store *store);

/*
 * Was the row found last written or locked by a transaction that the given
 * snapshot takes for running or not begun (and that is not this one)?  True
 * also if that cannot be told any more.
 */
extern bool fencing_store_is_newer(const Store *store, Snapshot snapshot);

/* Has any transaction ended since the last find? */
extern bool fencing_store_ended_since_find(const Store *store);

/* The OID of the store's table, which differs after it was made anew. */
extern Oid fencing_store_oid(StoreKind kind);

/* The OID of a relation in the extension's schema; raises if it is missing. */
extern Oid fencing_relation_oid(const char *relname);

/*
 * Incremented whenever a relation of the extension may have been dropped or
 * created anew, so that what was remembered of it must be read again.
 */
extern uint64 fencing_store_generation;

extern void fencing_store_init(void);

#endif /* FENCING_STORE_H */
