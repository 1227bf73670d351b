/*-------------------------------------------------------------------------
 *
 * mark.c
 *		The rule that compares a token with a mark, and resource marks.
 *
 * What a resource mark promises: once a token has been accepted and committed,
 * no transaction with a lower one that wrote under the same resource can
 * commit after it.  Row locks on the mark make that true:
 *
 * - A token equal to the mark locks it FOR SHARE, a larger one exclusively.
 *   Holders of one token do not block each other; a newer token waits for all
 *   of them.  The choice is made before the lock is taken, from an unlocked
 *   look at the mark.  Nobody locks shared first and exclusively later, which
 *   would deadlock as soon as two do it.
 * - The comparison that counts is made after the lock, on the newest version
 *   of the row.  Marks only rise, so the unlocked look can err in one
 *   direction only, and a token found stale by it is stale.  (The one way down
 *   is fencing.set_mark; a loser of that race starts again.)
 * - A resource without a row has the mark of the floor, the row with the
 *   empty name that fencing.compact leaves.  The floor is looked up after the
 *   row was not found, and once more after the row was added: compaction
 *   raises it and deletes rows in one transaction, so whoever misses a deleted
 *   row sees the floor that stands for it.
 * - Above READ COMMITTED the transaction goes on with a snapshot that may be
 *   older than the last writes of the previous holder.  A token that raises
 *   the mark must not be accepted then: its holder would base its writes on
 *   what is no longer so.  It fails with 40001 and is right when retried.
 *
 * What has been checked is remembered, so that a statement over many rows of
 * one resource pays once.  The memory is a small cache with one place for each
 * hash value: a lost entry costs a second check, never a missed one, and a
 * transaction over a million resources needs no more of it than one over a
 * thousand.  An entry belongs to the subtransaction that holds the lock and
 * goes with it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "issuer.h"
#include "mark.h"
#include "store.h"

#define CHECKED_SIZE 1024 /* a power of 2 */

typedef struct Checked
{
	int64 token; /* 0: the place is free */
	uint32 hash;
	int len;
	char *name;				/* in checked_context */
	SubTransactionId subid; /* holds the lock on the mark */
	bool raised;			/* by this transaction, not found equal */
} Checked;

static Checked *checked = NULL; /* CHECKED_SIZE of them, or NULL */
static int checked_count = 0;	/* places in use */
static MemoryContext checked_context = NULL;

/*
 * Has this transaction locked a mark, equal to its token, that others used
 * since its snapshot?  Then it must not raise one any more: it may be the same
 * mark, whose traces our lock has wiped.
 */
static bool newer_seen = false;

uint64 fencing_checked_epoch = 1;

/* The table that the memory is about. */
static Oid checked_store = InvalidOid;

/* The resource name of the floor; no resource can have it. */
static const ResourceName floor_name = {0, ""};

static Checked *checked_find(const ResourceName *name, uint32 hash);
static void checked_remember(const ResourceName *name, uint32 hash,
							 int64 token, bool raised);
static void checked_free(Checked *entry);
static void checked_validate(void);
static void checked_forget_all(void);
static bool first_use(Store *store, const ResourceName *name, int64 token,
					  const Rule *rule, Refusal *refusal, Verdict *verdict);
static int64 read_floor(Store *store);
static int64 read_floor_for_use(Store *store, const ResourceName *name);

static inline uint32
name_hash(const ResourceName *name)
{
	return hash_bytes((const unsigned char *) name->data, name->len);
}

Verdict
fencing_rule_in_full(const Rule *rule, int64 token, int64 mark,
					 Refusal *refusal)
{
	refusal->token = token;
	refusal->mark = mark;
	if (token < 1)
		refusal->kind = REFUSAL_INVALID;
	else if (token < mark)
		refusal->kind = REFUSAL_STALE;
	else if (token == mark && rule->strict)
		refusal->kind = REFUSAL_STALE_EQUAL;
	else if (rule->max_step > 0 && token - mark > rule->max_step)
	{
		refusal->kind = REFUSAL_STEP;
		refusal->limit = rule->max_step;
	}
	else if (rule->issued_only &&
			 !fencing_issuer_reached(token, &refusal->limit))
		refusal->kind = REFUSAL_NEVER_ISSUED;
	else
		return token == mark ? VERDICT_EQUAL : VERDICT_RAISE;
	return VERDICT_REFUSED;
}

Verdict
fencing_mark_accept(const ResourceName *name, int64 token, const Rule *rule,
					Refusal *refusal)
{
	uint32 hash = name_hash(name);
	bool fixed = IsolationUsesXactSnapshot();
	bool exclusive = false; /* lock so whatever the look says */
	bool own = false;		/* is the mark this transaction's own? */
	Checked *known;
	Store store;
	Verdict verdict;

	checked_validate();
	known = checked_find(name, hash);
	if (known && known->token == token && (known->raised || !rule->strict) &&
		!rule->issued_only)
		return VERDICT_EQUAL;

	fencing_store_open(&store, STORE_MARKS, RowExclusiveLock);
	for (;;)
	{
		Rule locked_rule = *rule;
		LockTupleMode mode;
		int64 mark;
		bool newer;
		TM_Result locked;

		CHECK_FOR_INTERRUPTS();

		if (!fencing_store_find(&store, name->data, name->len, &mark))
		{
			if (first_use(&store, name, token, rule, refusal, &verdict))
				break;
			continue; /* somebody else's first use; lock that */
		}

		/*
		 * A strict fence takes each token once, in the sense of once in a
		 * transaction: the second row of a statement meets the mark that the
		 * first one raised.
		 */
		own = fencing_store_is_own(&store);
		locked_rule.strict = rule->strict && !own;
		verdict = fencing_rule(&locked_rule, token, mark, refusal);
		if (verdict == VERDICT_REFUSED)
			break;

		/*
		 * Under a fixed snapshot it matters whether anybody was here since it
		 * was taken.  The lock wipes the traces, so look before it, see
		 * whether it has to wait, and whether anybody came in between.
		 */
		newer = fixed &&
			fencing_store_is_newer(&store, GetTransactionSnapshot());
		exclusive |= verdict == VERDICT_RAISE;
		mode = exclusive ? LockTupleNoKeyExclusive : LockTupleShare;
		locked = fencing_store_lock(&store, mode, !fixed, &mark);
		if (locked == TM_WouldBlock)
		{
			newer = true;
			locked = fencing_store_lock(&store, mode, true, &mark);
		}
		if (locked == TM_Deleted)
			continue;
		newer_seen |= newer ||
			(fixed && fencing_store_ended_since_find(&store));

		own = fencing_store_is_own(&store);
		locked_rule.strict = rule->strict && !own;
		verdict = fencing_rule(&locked_rule, token, mark, refusal);
		if (verdict != VERDICT_RAISE)
			break;
		if (newer_seen)
			fencing_serialization_failure(name->data);
		if (exclusive)
		{
			fencing_store_update(&store, token);
			break;
		}
		exclusive = true; /* the mark was lowered meanwhile */
	}
	fencing_store_close(&store);

	if (verdict != VERDICT_REFUSED)
		checked_remember(name, hash, token, verdict == VERDICT_RAISE || own);
	return verdict;
}

/*
 * A name without a row: its mark is the floor, and a token accepted adds the
 * row.  Returns false if somebody else has added it meanwhile.
 */
static bool
first_use(Store *store, const ResourceName *name, int64 token,
		  const Rule *rule, Refusal *refusal, Verdict *verdict)
{
	int64 floor = read_floor_for_use(store, name);

	*verdict = fencing_rule(rule, token, floor, refusal);
	if (*verdict == VERDICT_REFUSED)
		return true;
	if (!fencing_store_insert(store, name->data, name->len, token))
		return false;

	/*
	 * A row added and compacted between the two looks is known by the floor
	 * alone.  An error even where the fence says skip, since the row is in.
	 */
	floor = read_floor_for_use(store, name);
	if (token < floor)
	{
		refusal->kind = REFUSAL_STALE;
		refusal->mark = floor;
		refusal->token = token;
		fencing_refuse(refusal);
	}
	*verdict = VERDICT_RAISE;
	return true;
}

void
fencing_mark_bury(const ResourceName *name, int64 token)
{
	Store store;
	int64 mark;

	/* what was accepted under this name before may be below it now */
	fencing_checked_forget(name);

	/* most names are buried once, so begin with the insert */
	fencing_store_open(&store, STORE_MARKS, RowExclusiveLock);
	while (!fencing_store_insert(&store, name->data, name->len, token))
	{
		CHECK_FOR_INTERRUPTS();
		if (!fencing_store_find(&store, name->data, name->len, &mark))
			continue;
		if (mark >= token)
			break;
		if (fencing_store_lock(&store, LockTupleNoKeyExclusive, true, &mark) !=
			TM_Ok)
			continue;
		if (mark < token)
			fencing_store_update(&store, token);
		break;
	}
	fencing_store_close(&store);
}

int64
fencing_mark_read(const ResourceName *name, bool *own)
{
	Store store;
	int64 mark;

	fencing_store_open(&store, STORE_MARKS, AccessShareLock);
	*own = false;
	if (fencing_store_find(&store, name->data, name->len, &mark))
		*own = fencing_store_is_own(&store);
	else
		mark = read_floor(&store);
	fencing_store_close(&store);
	return mark;
}

/*
 * The floor by a snapshot that is newer than that of any earlier look, so
 * that a row not found then cannot have been replaced by a floor not found
 * now.
 */
static int64
read_floor(Store *store)
{
	int64 floor;

	if (!fencing_store_find(store, floor_name.data, floor_name.len, &floor))
		return 0;
	return floor;
}

/*
 * The same for a token that is going to be accepted.  Above READ COMMITTED, a
 * floor laid since the snapshot may stand for a mark whose last holder the
 * snapshot does not know.
 */
static int64
read_floor_for_use(Store *store, const ResourceName *name)
{
	int64 floor = read_floor(store);

	if (floor > 0 && IsolationUsesXactSnapshot() &&
		fencing_store_is_newer(store, GetTransactionSnapshot()))
		fencing_serialization_failure(name->data);
	return floor;
}

/* ----------
 * The memory of what this transaction has checked
 * ----------
 */

static Checked *
checked_find(const ResourceName *name, uint32 hash)
{
	Checked *entry;

	if (checked_count == 0)
		return NULL;
	entry = &checked[hash & (CHECKED_SIZE - 1)];
	if (entry->token == 0 || entry->hash != hash || entry->len != name->len ||
		memcmp(entry->name, name->data, name->len) != 0)
		return NULL;
	return entry;
}

static void
checked_remember(const ResourceName *name, uint32 hash, int64 token,
				 bool raised)
{
	Checked *entry;

	if (checked == NULL)
	{
		if (checked_context == NULL)
			checked_context = AllocSetContextCreate(TopMemoryContext,
													"fencing checked resources",
													ALLOCSET_DEFAULT_SIZES);
		checked = MemoryContextAllocZero(checked_context,
										 CHECKED_SIZE * sizeof(Checked));
	}
	entry = &checked[hash & (CHECKED_SIZE - 1)];
	if (entry->token != 0)
		checked_free(entry);
	entry->name = MemoryContextAlloc(checked_context, name->len);
	memcpy(entry->name, name->data, name->len);
	entry->len = name->len;
	entry->hash = hash;
	entry->subid = GetCurrentSubTransactionId();
	entry->raised = raised;
	entry->token = token;
	checked_count++;
}

static void
checked_free(Checked *entry)
{
	pfree(entry->name);
	entry->token = 0;
	checked_count--;
}

void
fencing_checked_forget(const ResourceName *name)
{
	Checked *entry = NULL;

	fencing_checked_epoch++;
	if (checked_count > 0)
		entry = checked_find(name, name_hash(name));
	if (entry)
		checked_free(entry);
}

/* Forgets everything if fencing.marks is not the table that it was. */
static void
checked_validate(void)
{
	Oid store = fencing_store_oid(STORE_MARKS);

	if (store != checked_store)
		checked_forget_all();
	checked_store = store;
}

static void
checked_forget_all(void)
{
	fencing_checked_epoch++;
	for (int i = 0; i < CHECKED_SIZE && checked_count > 0; i++)
		if (checked[i].token != 0)
			checked_free(&checked[i]);
}

void
fencing_checked_end_of_transaction(void)
{
	checked_forget_all();
	newer_seen = false;
}

void
fencing_checked_end_of_subtransaction(SubTransactionId subid,
									  SubTransactionId parent, bool committed)
{
	int seen = 0;
	int count = checked_count;

	if (!committed)
		fencing_checked_epoch++;

	for (int i = 0; i < CHECKED_SIZE && seen < count; i++)
	{
		Checked *entry = &checked[i];

		if (entry->token == 0)
			continue;
		seen++;
		if (entry->subid != subid)
			continue;
		if (committed)
			entry->subid = parent;
		else
			checked_free(entry);
	}
}
