/*-------------------------------------------------------------------------
 *
 * fence.c
 *		The declaration of a fence, as its trigger's arguments carry it.
 *
 * A fence has no catalog of its own: its whole declaration is the arguments
 * of the guard trigger, "key=value" strings.  Reading them, finding columns
 * and output functions and looking for the unique key is done once for each
 * trigger and kept until an invalidation of the relation arrives; ALTER TABLE,
 * CREATE INDEX and CREATE TRIGGER all send one.
 *
 * Each partition has a clone of the trigger with an OID of its own, so the
 * cache is by trigger and columns are resolved in the partition, whose column
 * numbers may differ from its parent's.
 *
 * The invalidation callback only marks entries, since it may run in the
 * middle of a guard's work; memory is freed when an entry is next asked for,
 * at the beginning of a guard's work.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_index.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/relcache.h"
#include "utils/syscache.h"

#include "fence.h"
#include "fencing.h"
#include "store.h"

#define FENCE_AGAIN                                                           \
	"Declare the fence again with fencing.fence, or remove it with fencing.unfence."

/* One for each guard trigger that has fired in this session. */
typedef struct FenceEntry
{
	Oid trigger; /* hash key */
	Oid relid;
	bool valid;		   /* cleared by an invalidation */
	MemoryContext cxt; /* holds fence, NULL before the first use */
	Fence *fence;
} FenceEntry;

/* Above this many entries the invalid ones are thrown out. */
#define FENCE_ENTRIES_KEPT 512

static HTAB *fences = NULL;
static FenceEntry *last_used = NULL;

static void relcache_callback(Datum arg, Oid relid);
static void discard_invalid(void);
static Fence *build(Relation rel, const Trigger *trigger);
static bool root_is_fenced(Relation rel);
static const char *read_bool(const char *value, bool *result);

void
fencing_fence_init(void)
{
	HASHCTL ctl = {0};

	ctl.keysize = sizeof(Oid);
	ctl.entrysize = sizeof(FenceEntry);
	fences = hash_create("fencing fences", 32, &ctl, HASH_ELEM | HASH_BLOBS);
	CacheRegisterRelcacheCallback(relcache_callback, (Datum) 0);
}

static void
relcache_callback(Datum arg, Oid relid)
{
	HASH_SEQ_STATUS status;
	FenceEntry *entry;

	hash_seq_init(&status, fences);
	while ((entry = hash_seq_search(&status)) != NULL)
		if (relid == InvalidOid || relid == entry->relid)
			entry->valid = false;
}

Fence *
fencing_fence_get(Relation rel, const Trigger *trigger)
{
	FenceEntry *entry = last_used;
	MemoryContext cxt, old;
	bool found;

	if (likely(entry && entry->trigger == trigger->tgoid && entry->valid))
		return entry->fence;

	entry = hash_search(fences, &trigger->tgoid, HASH_FIND, NULL);
	if (entry && entry->valid)
	{
		last_used = entry;
		return entry->fence;
	}

	last_used = NULL;
	if (hash_get_num_entries(fences) > FENCE_ENTRIES_KEPT)
		discard_invalid();
	entry = hash_search(fences, &trigger->tgoid, HASH_ENTER, &found);
	if (!found)
		entry->cxt = NULL;
	if (entry->cxt)
		MemoryContextDelete(entry->cxt);
	entry->cxt = NULL;
	entry->relid = RelationGetRelid(rel);

	/*
	 * Set before the build, so that an invalidation during it is not lost;
	 * an error during it must not leave the entry valid.
	 */
	entry->valid = true;
	cxt = AllocSetContextCreate(TopMemoryContext, "fencing fence",
								ALLOCSET_SMALL_SIZES);
	PG_TRY();
	{
		old = MemoryContextSwitchTo(cxt);
		entry->fence = build(rel, trigger);
		MemoryContextSwitchTo(old);
	}
	PG_CATCH();
	{
		entry->valid = false;
		MemoryContextDelete(cxt);
		PG_RE_THROW();
	}
	PG_END_TRY();
	entry->cxt = cxt;
	last_used = entry;
	return entry->fence;
}

static void
discard_invalid(void)
{
	HASH_SEQ_STATUS status;
	FenceEntry *entry;

	hash_seq_init(&status, fences);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		if (entry->valid)
			continue;
		if (entry->cxt)
			MemoryContextDelete(entry->cxt);
		hash_search(fences, &entry->trigger, HASH_REMOVE, NULL);
	}
}

/* Makes a fence in CurrentMemoryContext, or raises ZF009. */
static Fence *
build(Relation rel, const Trigger *trigger)
{
	Fence *fence = palloc0(sizeof(Fence));
	Declaration *decl = &fence->decl;
	TupleDesc desc = RelationGetDescr(rel);
	char **args = palloc(trigger->tgnargs * sizeof(char *));
	const char *problem;
	const char *column;
	bool generated;

	/* the relcache's copy of the arguments may go away with the relcache */
	for (int i = 0; i < trigger->tgnargs; i++)
		args[i] = pstrdup(trigger->tgargs[i]);
	if (rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		fencing_broken_fence(rel, "A temporary table cannot be fenced.",
							 "Fence a permanent table with fencing.fence.");
	fence->args = args;
	problem = fencing_declaration_read(trigger->tgnargs, args, decl);
	if (problem)
		fencing_broken_fence(rel,
							 psprintf("The arguments of trigger \"%s\" cannot be read: %s",
									  trigger->tgname, problem),
							 FENCE_AGAIN);
	problem = fencing_template_parse(decl->resource, &fence->tmpl);
	if (problem)
		fencing_broken_fence(rel,
							 psprintf("Template \"%s\" cannot be read: %s",
									  decl->resource, problem),
							 FENCE_AGAIN);
	column = fencing_template_bind(&fence->tmpl, desc, CurrentMemoryContext,
								   &generated);
	if (column)
		fencing_broken_fence(rel,
							 psprintf(generated
										  ? "Column \"%s\" of template \"%s\" is generated."
										  : "Column \"%s\" of template \"%s\" does not exist.",
									  column, decl->resource),
							 FENCE_AGAIN);

	if (decl->mark == MARK_ROW)
	{
		int attnum;
		Form_pg_attribute att;

		/* rows are in ordinary tables; TRUNCATE asks for partitioned ones */
		if (rel->rd_rel->relkind == RELKIND_FOREIGN_TABLE)
			fencing_broken_fence(rel, "A foreign table cannot keep row marks.",
								 "Detach the partition, or declare the fence with mark => 'resource'.");
		attnum = SPI_fnumber(desc, decl->token_column);
		if (attnum <= 0)
			fencing_broken_fence(rel,
								 psprintf("Token column \"%s\" does not exist.",
										  decl->token_column),
								 FENCE_AGAIN);
		att = TupleDescAttr(desc, attnum - 1);
		if (att->atttypid != INT8OID || att->attgenerated != '\0' ||
			att->attidentity != '\0')
			fencing_broken_fence(rel,
								 psprintf("Token column \"%s\" is not a plain column of type bigint.",
										  decl->token_column),
								 FENCE_AGAIN);
		fence->token_attnum = att->attnum;

		/*
		 * Without the key two rows could have one name, and an insert would
		 * not wait for the delete whose tombstone it has to see.
		 */
		if (!fencing_template_holds_key(&fence->tmpl, rel))
			fencing_broken_fence(rel,
								 psprintf("No valid, immediate unique key lies within the columns of template \"%s\" any more.",
										  decl->resource),
								 "Create the unique key again, or declare the fence with mark => 'resource'.");
	}
	fence->counter = fencing_stat_counter(fencing_fence_relid(rel, trigger));
	fence->partition = rel->rd_rel->relispartition;
	fence->may_leave = fence->partition && !root_is_fenced(rel);

	fence->integers = true;
	for (int i = 0; i < fence->tmpl.nparts; i++)
		if (fence->tmpl.parts[i].column &&
			fence->tmpl.parts[i].output > OUTPUT_INT8)
			fence->integers = false;
	fence->last_values = palloc0(Max(fence->tmpl.nparts, 1) * sizeof(Datum));
	return fence;
}

/*
 * Is the whole partitioned table fenced that a partition belongs to?  Then a
 * row that changes partition changes its name too, since a unique key holds
 * all partition keys.
 */
static bool
root_is_fenced(Relation rel)
{
	Relation root;
	bool fenced;

	root = table_open(llast_oid(
						  get_partition_ancestors(RelationGetRelid(rel))),
					  AccessShareLock);
	fenced = fencing_guard_trigger(root) != NULL;
	table_close(root, AccessShareLock);
	return fenced;
}

Oid
fencing_fence_relid(Relation rel, const Trigger *guard)
{
	Oid relid = RelationGetRelid(rel);
	List *ancestors;
	ListCell *lc;
	bool found = false;

	if (!guard->tgisclone)
		return relid;
	ancestors = get_partition_ancestors(relid);
	foreach(lc, ancestors)
	{
		Relation ancestor = table_open(lfirst_oid(lc), AccessShareLock);
		const Trigger *trigger = fencing_guard_trigger(ancestor);

		found = trigger && !trigger->tgisclone;
		if (found)
			relid = lfirst_oid(lc);
		table_close(ancestor, AccessShareLock);
		if (found)
			break;
	}
	list_free(ancestors);
	return relid;
}

const char *
fencing_declaration_read(int nargs, char **args, Declaration *decl)
{
	bool have_mark = false;

	memset(decl, 0, sizeof(*decl));
	decl->accept_column = true;
	decl->tombstones = true;

	for (int i = 0; i < nargs; i++)
	{
		char *value = strchr(args[i], '=');
		const char *problem = NULL;
		int keylen;

		if (value == NULL)
			return psprintf("There is no \"=\" in \"%s\".", args[i]);
		keylen = value++ - args[i];
		for (int j = 0; j < i; j++)
			if (strncmp(args[j], args[i], keylen + 1) == 0)
				return psprintf("\"%.*s\" is given twice.", keylen, args[i]);

#define KEY_IS(name)                                                          \
	(keylen == strlen(name) && strncmp(args[i], name, keylen) == 0)

		if (KEY_IS("mark"))
		{
			have_mark = true;
			if (strcmp(value, "row") == 0)
				decl->mark = MARK_ROW;
			else if (strcmp(value, "resource") == 0)
				decl->mark = MARK_RESOURCE;
			else
				problem = "mark is neither \"row\" nor \"resource\".";
		}
		else if (KEY_IS("resource"))
			decl->resource = value;
		else if (KEY_IS("token_column"))
			decl->token_column = value;
		else if (KEY_IS("accept_column"))
			problem = read_bool(value, &decl->accept_column);
		else if (KEY_IS("on_stale"))
		{
			decl->skip = strcmp(value, "skip") == 0;
			if (!decl->skip && strcmp(value, "error") != 0)
				problem = "on_stale is neither \"error\" nor \"skip\".";
		}
		else if (KEY_IS("strict"))
			problem = read_bool(value, &decl->rule.strict);
		else if (KEY_IS("max_step"))
		{
			char *end;

			errno = 0;
			decl->rule.max_step = strtoll(value, &end, 10);
			if (errno != 0 || end == value || *end != '\0' ||
				decl->rule.max_step < 1)
				problem = "max_step is not a number from 1.";
		}
		else if (KEY_IS("issuer"))
		{
			decl->rule.issued_only = strcmp(value, "database") == 0;
			if (!decl->rule.issued_only && strcmp(value, "any") != 0)
				problem = "issuer is neither \"any\" nor \"database\".";
		}
		else if (KEY_IS("tombstones"))
			problem = read_bool(value, &decl->tombstones);
		else if (KEY_IS("shadow"))
			problem = read_bool(value, &decl->shadow);
		else
			return psprintf("\"%.*s\" is not a key of a fence.", keylen,
							args[i]);
#undef KEY_IS
		if (problem)
			return problem;
	}
	if (!have_mark)
		return "mark is missing.";
	if (decl->resource == NULL)
		return "resource is missing.";
	if (decl->mark == MARK_ROW && decl->token_column == NULL)
		return "token_column is missing.";
	if (decl->mark == MARK_RESOURCE && decl->token_column != NULL)
		return "token_column does not go with resource marks.";
	return NULL;
}

static const char *
read_bool(const char *value, bool *result)
{
	*result = strcmp(value, "true") == 0;
	if (!*result && strcmp(value, "false") != 0)
		return "A value is neither \"true\" nor \"false\".";
	return NULL;
}

bool
fencing_template_holds_key(const ResourceTemplate *tmpl, Relation rel)
{
	List *indexes = RelationGetIndexList(rel);
	ListCell *lc;
	bool holds = false;

	foreach(lc, indexes)
	{
		HeapTuple tuple = SearchSysCache1(INDEXRELID,
										  ObjectIdGetDatum(lfirst_oid(lc)));
		Form_pg_index index;

		if (!HeapTupleIsValid(tuple))
			continue;
		index = (Form_pg_index) GETSTRUCT(tuple);
		holds = index->indisunique && index->indimmediate &&
			index->indisvalid && index->indisready &&
			heap_attisnull(tuple, Anum_pg_index_indpred, NULL);
		for (int k = 0; k < index->indnkeyatts && holds; k++)
		{
			bool within = false;

			/* an expression has column number 0, which no piece has */
			for (int i = 0; i < tmpl->nparts; i++)
				if (tmpl->parts[i].column &&
					tmpl->parts[i].attnum == index->indkey.values[k])
					within = true;
			holds = within;
		}
		ReleaseSysCache(tuple);
		if (holds)
			break;
	}
	list_free(indexes);
	return holds;
}

Oid
fencing_trigger_function(const char *name)
{
	Oid schema = get_namespace_oid(FENCING_SCHEMA, true);

	/* no right on the schema is asked for: writers may have none */
	return GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid,
						   CStringGetDatum(name),
						   PointerGetDatum(buildoidvector(NULL, 0)),
						   ObjectIdGetDatum(schema));
}

const Trigger *
fencing_guard_trigger(Relation rel)
{
	static Oid function = InvalidOid;
	static uint64 generation = 0;

	if (rel->trigdesc == NULL)
		return NULL;
	if (generation != fencing_store_generation)
	{
		generation = fencing_store_generation;
		function = fencing_trigger_function(FENCING_GUARD_FUNCTION);
	}
	for (int i = 0; i < rel->trigdesc->numtriggers; i++)
		if (rel->trigdesc->triggers[i].tgfoid == function)
			return &rel->trigdesc->triggers[i];
	return NULL;
}
