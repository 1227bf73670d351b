/*-------------------------------------------------------------------------
 *
 * declare.c
 *		Declaring fences: fencing.fence, fencing.unfence, fencing.fences.
 *
 * fence() checks everything it can before it changes anything, then runs the
 * DDL that a user could have typed, with the user's own rights: ALTER TABLE
 * for the token column, CREATE OR REPLACE TRIGGER for the triggers.  Every
 * name in that text is qualified, so the caller's search_path plays no part.
 *
 * The relation is locked first, as strongly as the DDL is going to: exclusively
 * when a column has to be added, else as CREATE TRIGGER locks it.
 *
 * Statement triggers are not cloned to partitions, so the TRUNCATE guard is
 * made for each partition that there is.  A partition that comes later gets
 * its own when fence() is called again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "compat.h"
#include "fence.h"
#include "fencing.h"
#include "refuse.h"

/* Order of the arguments of fencing.fence. */
enum
{
	ARG_RELATION,
	ARG_RESOURCE,
	ARG_MARK,
	ARG_TOKEN_COLUMN,
	ARG_ACCEPT_COLUMN,
	ARG_ON_STALE,
	ARG_STRICT,
	ARG_MAX_STEP,
	ARG_ISSUER,
	ARG_TOMBSTONES,
	ARG_SHADOW
};

#define DEFAULT_TOKEN_COLUMN "fence_token"

FENCING_FUNCTION(fencing_fence);
FENCING_FUNCTION(fencing_unfence);
FENCING_FUNCTION(fencing_read_declaration);
FENCING_FUNCTION(fencing_declaration);

/* The triggers of a fence. */
typedef struct FenceTrigger
{
	const char *name;
	const char *function;
	const char *when; /* BEFORE ... OF ... */
	const char *level;
} FenceTrigger;

static const FenceTrigger guard_trigger = {FENCING_GUARD_TRIGGER,
										   FENCING_GUARD_FUNCTION,
										   "BEFORE INSERT OR UPDATE OR DELETE",
										   "ROW"};
static const FenceTrigger recheck_trigger = {FENCING_RECHECK_TRIGGER,
											 FENCING_RECHECK_FUNCTION,
											 "AFTER INSERT", "ROW"};
static const FenceTrigger truncate_trigger = {FENCING_TRUNCATE_TRIGGER,
											  FENCING_TRUNCATE_FUNCTION,
											  "BEFORE TRUNCATE", "STATEMENT"};

static void read_arguments(FunctionCallInfo fcinfo, Declaration *decl);
static char *text_argument(FunctionCallInfo fcinfo, int argno,
						   const char *name);
static bool bool_argument(FunctionCallInfo fcinfo, int argno,
						  const char *name);
static Relation open_to_declare(Oid relid, LOCKMODE lockmode);
static void check_relation(Relation rel);
static void check_partitions(Relation rel);
static char *default_template(Relation rel);
static void check_template(Relation rel, Declaration *decl,
						   ResourceTemplate *tmpl);
static bool check_token_column(Relation rel, const char *column);
static char *trigger_arguments(const Declaration *decl);
static void create_trigger(Oid relid, const FenceTrigger *trigger,
						   const char *arguments);
static bool drop_trigger(Oid relid, const FenceTrigger *trigger,
						 const char *keep);
static void warn_of_later_triggers(Oid relid);
static void execute(const char *command);
static char *qualified_name(Oid relid);
pg_noreturn static void refuse_relation(Relation rel, const char *detail,
										const char *hint);

/* fencing.fence(relation, ...) */
Datum
fencing_fence(PG_FUNCTION_ARGS)
{
	Oid relid;
	Relation rel;
	Declaration decl;
	ResourceTemplate tmpl;
	bool add_column;
	List *members;
	ListCell *lc;

	if (PG_ARGISNULL(ARG_RELATION))
		fencing_bad_argument("relation", "NULL", "Give the table to fence.");
	relid = PG_GETARG_OID(ARG_RELATION);
	read_arguments(fcinfo, &decl);
	PreventCommandIfReadOnly("fencing.fence()");
	PreventCommandDuringRecovery("fencing.fence()");

	/* a look without a lock decides how strong the lock has to be */
	add_column = decl.mark == MARK_ROW &&
		get_attnum(relid, decl.token_column) == InvalidAttrNumber;
	rel = open_to_declare(relid,
						  add_column ? AccessExclusiveLock
									 : ShareRowExclusiveLock);
	check_relation(rel);
	check_partitions(rel);
	if (decl.resource == NULL)
		decl.resource = default_template(rel);
	check_template(rel, &decl, &tmpl);
	if (decl.mark == MARK_ROW)
		add_column = check_token_column(rel, decl.token_column);

	/* ALTER TABLE wants the table to itself; the lock stays */
	table_close(rel, NoLock);

	SPI_connect();
	if (add_column)
		execute(
			psprintf("ALTER TABLE %s ADD COLUMN %s pg_catalog.int8 NOT NULL DEFAULT 0",
					 qualified_name(relid),
					 quote_identifier(decl.token_column)));
	create_trigger(relid, &guard_trigger, trigger_arguments(&decl));
	if (decl.mark == MARK_ROW && decl.tombstones)
		create_trigger(relid, &recheck_trigger, "");
	else
		(void) drop_trigger(relid, &recheck_trigger, NULL);
	members = find_all_inheritors(relid, ShareRowExclusiveLock, NULL);
	foreach(lc, members)
		create_trigger(lfirst_oid(lc), &truncate_trigger, "");
	SPI_finish();

	warn_of_later_triggers(relid);
	PG_RETURN_VOID();
}

/* fencing.unfence(relation): the column and the marks stay */
Datum
fencing_unfence(PG_FUNCTION_ARGS)
{
	Oid relid;
	Relation rel;
	bool found;
	List *members;
	ListCell *lc;
	const Trigger *guard;

	if (PG_ARGISNULL(0))
		fencing_bad_argument("relation", "NULL", "Give a fenced table.");
	relid = PG_GETARG_OID(0);
	PreventCommandIfReadOnly("fencing.unfence()");
	PreventCommandDuringRecovery("fencing.unfence()");
	rel = open_to_declare(relid, AccessExclusiveLock);
	guard = fencing_guard_trigger(rel);
	if (guard && guard->tgisclone)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot remove the fence of partition \"%s\" alone",
						RelationGetRelationName(rel)),
				 errdetail("The fence belongs to a table above it."),
				 errhint("Call fencing.unfence on the partitioned table."),
				 errtable(rel)));
	relation_close(rel, NoLock);

	SPI_connect();
	found = drop_trigger(relid, &guard_trigger, NULL);
	found |= drop_trigger(relid, &recheck_trigger, NULL);
	members = find_all_inheritors(relid, AccessExclusiveLock, NULL);
	foreach(lc, members)
		found |= drop_trigger(lfirst_oid(lc), &truncate_trigger, NULL);
	SPI_finish();
	if (!found)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("table \"%s\" is not fenced", get_rel_name(relid)),
				 errhint("View fencing.fences lists the fenced tables.")));
	PG_RETURN_VOID();
}

/*
 * fencing.declaration(arguments): what the arguments of a guard trigger say, as
 * pg_trigger.tgargs has them; NULLs if they cannot be read.  It looks at no
 * table and takes no lock, so that a view of all fences does not wait for one.
 */
Datum
fencing_read_declaration(PG_FUNCTION_ARGS)
{
	bytea *arguments = PG_GETARG_BYTEA_PP(0);
	const char *at = VARDATA_ANY(arguments);
	const char *end = at + VARSIZE_ANY_EXHDR(arguments);
	char **args = palloc((end - at + 1) * sizeof(char *));
	int nargs = 0;
	TupleDesc desc;
	Datum values[11];
	bool nulls[11] = {false};
	Declaration decl;
	ResourceTemplate tmpl;
	ArrayBuildState *columns = NULL;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	Assert(desc->natts == lengthof(values));

	/* each argument ends with a zero byte */
	while (at < end)
	{
		size_t len = strnlen(at, end - at);

		args[nargs++] = pnstrdup(at, len);
		at += len + 1;
	}
	if (fencing_declaration_read(nargs, args, &decl) ||
		fencing_template_parse(decl.resource, &tmpl))
		PG_RETURN_NULL();

	values[0] = CStringGetTextDatum(decl.resource);
	values[1] = CStringGetTextDatum(decl.mark == MARK_ROW ? "row"
														  : "resource");
	nulls[2] = nulls[3] = nulls[8] = decl.mark != MARK_ROW;
	if (decl.mark == MARK_ROW)
		values[2] = DirectFunctionCall1(namein,
										CStringGetDatum(decl.token_column));
	values[3] = BoolGetDatum(decl.accept_column);
	values[4] = CStringGetTextDatum(decl.skip ? "skip" : "error");
	values[5] = BoolGetDatum(decl.rule.strict);
	values[6] = Int64GetDatum(decl.rule.max_step);
	nulls[6] = decl.rule.max_step == 0;
	values[7] = CStringGetTextDatum(decl.rule.issued_only ? "database"
														  : "any");
	values[8] = BoolGetDatum(decl.tombstones);
	values[9] = BoolGetDatum(decl.shadow);
	for (int i = 0; i < tmpl.nparts; i++)
		if (tmpl.parts[i].column)
			columns = accumArrayResult(columns,
									   DirectFunctionCall1(namein,
														   CStringGetDatum(
															   tmpl.parts[i]
																   .column)),
									   false, NAMEOID, CurrentMemoryContext);
	values[10] = columns ? makeArrayResult(columns, CurrentMemoryContext)
						 : PointerGetDatum(construct_empty_array(NAMEOID));
	PG_RETURN_DATUM(HeapTupleGetDatum(
		heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}

/* fencing.declaration of version 1.0, which had other arguments */
Datum
fencing_declaration(PG_FUNCTION_ARGS)
{
	fencing_outdated("function", "declaration");
}

/* ----------
 * Arguments
 * ----------
 */

static void
read_arguments(FunctionCallInfo fcinfo, Declaration *decl)
{
	char *mark = text_argument(fcinfo, ARG_MARK, "mark");
	char *on_stale = text_argument(fcinfo, ARG_ON_STALE, "on_stale");
	char *issuer = text_argument(fcinfo, ARG_ISSUER, "issuer");

	memset(decl, 0, sizeof(*decl));

	if (strcmp(mark, "row") == 0)
		decl->mark = MARK_ROW;
	else if (strcmp(mark, "resource") == 0)
		decl->mark = MARK_RESOURCE;
	else
		fencing_bad_argument("mark", psprintf("\"%s\"", mark),
							 "It is either 'row' or 'resource'.");
	if (!PG_ARGISNULL(ARG_RESOURCE))
		decl->resource = text_argument(fcinfo, ARG_RESOURCE, "resource");
	else if (decl->mark == MARK_RESOURCE)
		fencing_bad_argument("resource", "NULL",
							 "Resource marks need a template, such as 'order:{order_id}'.");

	if (PG_ARGISNULL(ARG_TOKEN_COLUMN))
		fencing_bad_argument("token_column", "NULL",
							 "Give the name of a column of type bigint.");
	decl->token_column = pstrdup(NameStr(*PG_GETARG_NAME(ARG_TOKEN_COLUMN)));
	if (decl->token_column[0] == '\0')
		fencing_bad_argument("token_column", "empty",
							 "Give the name of a column of type bigint.");
	if (decl->mark == MARK_RESOURCE)
	{
		if (strcmp(decl->token_column, DEFAULT_TOKEN_COLUMN) != 0)
			fencing_bad_argument("token_column",
								 "given with mark => 'resource'",
								 "Resource marks are kept in fencing.marks, not in a column of the table.");
		decl->token_column = NULL;
	}

	decl->accept_column = bool_argument(fcinfo, ARG_ACCEPT_COLUMN,
										"accept_column");
	decl->skip = strcmp(on_stale, "skip") == 0;
	if (!decl->skip && strcmp(on_stale, "error") != 0)
		fencing_bad_argument("on_stale", psprintf("\"%s\"", on_stale),
							 "It is either 'error' or 'skip'.");
	decl->rule.strict = bool_argument(fcinfo, ARG_STRICT, "strict");
	if (!PG_ARGISNULL(ARG_MAX_STEP))
	{
		decl->rule.max_step = PG_GETARG_INT64(ARG_MAX_STEP);
		if (decl->rule.max_step < 1)
			fencing_bad_argument("max_step", "lower than 1",
								 "Give the largest accepted jump above the mark, or NULL for any.");
	}
	decl->rule.issued_only = strcmp(issuer, "database") == 0;
	if (!decl->rule.issued_only && strcmp(issuer, "any") != 0)
		fencing_bad_argument("issuer", psprintf("\"%s\"", issuer),
							 "It is either 'any' or 'database'.");
	decl->tombstones = bool_argument(fcinfo, ARG_TOMBSTONES, "tombstones");
	decl->shadow = bool_argument(fcinfo, ARG_SHADOW, "shadow");
}

static char *
text_argument(FunctionCallInfo fcinfo, int argno, const char *name)
{
	if (PG_ARGISNULL(argno))
		fencing_bad_argument(name, "NULL", "Leave it out for the default.");
	return text_to_cstring(PG_GETARG_TEXT_PP(argno));
}

static bool
bool_argument(FunctionCallInfo fcinfo, int argno, const char *name)
{
	if (PG_ARGISNULL(argno))
		fencing_bad_argument(name, "NULL", "It is either true or false.");
	return PG_GETARG_BOOL(argno);
}

/* ----------
 * The table
 * ----------
 */

/* Ownership is asked before the lock, so that others cannot block the table. */
static Relation
open_to_declare(Oid relid, LOCKMODE lockmode)
{
	Relation rel;
	char *name = get_rel_name(relid);

	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	if (!fencing_is_table_owner(relid))
		aclcheck_error(ACLCHECK_NOT_OWNER,
					   get_relkind_objtype(get_rel_relkind(relid)), name);
	rel = relation_open(relid, lockmode);
	if (!fencing_is_table_owner(relid))
		aclcheck_error(ACLCHECK_NOT_OWNER,
					   get_relkind_objtype(rel->rd_rel->relkind), name);
	return rel;
}

/* Can this kind of relation be fenced at all? */
static void
check_relation(Relation rel)
{
	switch (rel->rd_rel->relkind)
	{
		case RELKIND_RELATION:
		case RELKIND_PARTITIONED_TABLE:
			break;
		case RELKIND_VIEW:
		case RELKIND_MATVIEW:
			refuse_relation(rel, "It is a view.",
							"Fence the tables under it.");
		case RELKIND_FOREIGN_TABLE:
			refuse_relation(rel,
							"It is a foreign table, whose rows this server does not lock.",
							"Fence the table where its rows are.");
		default:
			refuse_relation(rel, "It is not a table.", "Fence a table.");
	}
	if (IsCatalogRelation(rel))
		refuse_relation(rel, "It is a system catalog.",
						"Fence a table of your own.");
	if (RelationGetNamespace(rel) == get_namespace_oid(FENCING_SCHEMA, false))
		refuse_relation(rel, "It belongs to extension \"fencing\" itself.",
						"Fence a table of your own.");
	if (rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		refuse_relation(rel,
						"It is a temporary table, which no other session writes.",
						"Fence a permanent table.");
}

/* Relations above and below this one. */
static void
check_partitions(Relation rel)
{
	List *related;
	ListCell *lc;

	if (rel->rd_rel->relispartition)
	{
		related = get_partition_ancestors(RelationGetRelid(rel));
		foreach(lc, related)
		{
			Relation parent = table_open(lfirst_oid(lc), AccessShareLock);

			if (fencing_guard_trigger(parent))
				refuse_relation(rel,
								psprintf("It is a partition of fenced table \"%s\", whose fence covers it.",
										 RelationGetRelationName(parent)),
								"Declare the fence on the partitioned table.");
			table_close(parent, AccessShareLock);
		}
	}

	related = find_all_inheritors(RelationGetRelid(rel), ShareRowExclusiveLock,
								  NULL);
	foreach(lc, related)
	{
		Relation member;
		const Trigger *guard;

		if (lfirst_oid(lc) == RelationGetRelid(rel))
			continue;
		if (rel->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
			refuse_relation(rel,
							psprintf("Table \"%s\" inherits from it, and triggers do not fire for rows of an inheritance child.",
									 get_rel_name(lfirst_oid(lc))),
							"Fence the child tables, each by itself, or use partitions.");
		member = table_open(lfirst_oid(lc), NoLock);
		if (member->rd_rel->relkind == RELKIND_FOREIGN_TABLE)
			refuse_relation(rel,
							psprintf("Partition \"%s\" is a foreign table, whose rows this server does not lock.",
									 RelationGetRelationName(member)),
							"Detach the foreign partition.");
		guard = fencing_guard_trigger(member);
		if (guard && !guard->tgisclone)
			refuse_relation(rel,
							psprintf("Partition \"%s\" has a fence of its own.",
									 RelationGetRelationName(member)),
							"Call fencing.unfence on the partition first.");
		table_close(member, NoLock);
	}
}

/* "<table>:{pk}:{pk}" */
static char *
default_template(Relation rel)
{
	StringInfoData tmpl;
	Oid pk;
	Relation index;

	/* fills in rd_pkindex */
	list_free(RelationGetIndexList(rel));
	pk = rel->rd_pkindex;
	if (!OidIsValid(pk))
		refuse_relation(rel, "It has no primary key to name its rows by.",
						"Add a primary key, give a template over a unique key in argument \"resource\", or use mark => 'resource'.");
	initStringInfo(&tmpl);
	for (const char *c = RelationGetRelationName(rel); *c; c++)
	{
		if (*c == '{' || *c == '}')
			appendStringInfoChar(&tmpl, *c);
		appendStringInfoChar(&tmpl, *c);
	}
	index = index_open(pk, AccessShareLock);
	for (int i = 0; i < index->rd_index->indnkeyatts; i++)
		appendStringInfo(&tmpl, ":{%s}",
						 get_attname(RelationGetRelid(rel),
									 index->rd_index->indkey.values[i],
									 false));
	index_close(index, AccessShareLock);
	return tmpl.data;
}

static void
check_template(Relation rel, Declaration *decl, ResourceTemplate *tmpl)
{
	const char *problem = fencing_template_parse(decl->resource, tmpl);
	const char *column;
	bool generated;
	int literal = 0;

	if (problem)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid resource template \"%s\"", decl->resource),
				 errdetail("%s", problem),
				 errhint(
					 "A template is text with column names in braces, such as 'sku:{id}'.")));
	column = fencing_template_bind(tmpl, RelationGetDescr(rel),
								   CurrentMemoryContext, &generated);
	if (column && generated)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("column \"%s\" of the resource template is generated",
						column),
				 errdetail(
					 "A generated column has no value yet when the guard fires."),
				 errhint("Use the columns that it is generated from."),
				 errtablecolname(rel, column)));
	if (column)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of the resource template does not exist in table \"%s\"",
						column, RelationGetRelationName(rel)),
				 errhint("Write literal braces as \"{{\" and \"}}\"."),
				 errtable(rel)));
	for (int i = 0; i < tmpl->nparts; i++)
	{
		literal += tmpl->parts[i].literal_len;
		if (decl->mark == MARK_ROW && tmpl->parts[i].column &&
			strcmp(tmpl->parts[i].column, decl->token_column) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("token column \"%s\" is part of the resource template",
							decl->token_column),
					 errhint(
						 "A resource keeps its name while its token rises."),
					 errtablecolname(rel, decl->token_column)));
	}
	if (literal > FENCING_RESOURCE_MAX)
		fencing_bad_argument("resource", "too long",
							 "A resource name has 1 to 512 bytes.");

	if (decl->mark == MARK_ROW)
	{
		if (!fencing_template_holds_key(tmpl, rel))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("columns of template \"%s\" hold no unique key of table \"%s\"",
							decl->resource, RelationGetRelationName(rel)),
					 errdetail(
						 "A row mark needs one name for each row: a valid, not deferrable unique key without a condition, all of whose columns are in the template."),
					 errhint(
						 "Use mark => 'resource' for a resource that many rows share."),
					 errtable(rel)));
		if (rel->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED)
			refuse_relation(rel,
							"It is unlogged, so a crash would empty it and forget its row marks.",
							"Use mark => 'resource', or make the table logged.");
	}
}

/*
 * The token column as it is: false if it fits, true if it has to be added, an
 * error if there is something else by that name.
 */
static bool
check_token_column(Relation rel, const char *column)
{
	AttrNumber attnum = get_attnum(RelationGetRelid(rel), column);
	Form_pg_attribute att;
	const char *problem = NULL;

	if (attnum == InvalidAttrNumber)
		return true;
	if (attnum < 0)
		problem = "It is a system column.";
	else
	{
		att = TupleDescAttr(RelationGetDescr(rel), attnum - 1);
		if (att->attgenerated != '\0')
			problem = "It is a generated column.";
		else if (att->attidentity != '\0')
			problem = "It is an identity column.";
		else if (att->atttypid != INT8OID)
			problem = psprintf("Its type is %s, not bigint.",
							   format_type_be(att->atttypid));
	}
	if (problem)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("column \"%s\" of table \"%s\" cannot keep tokens",
						column, RelationGetRelationName(rel)),
				 errdetail("%s", problem),
				 errhint(
					 "Give another name in argument \"token_column\"; the column is added if it does not exist."),
				 errtablecolname(rel, column)));
	return false;
}

/* ----------
 * Triggers
 * ----------
 */

/* The declaration as trigger arguments, defaults left out. */
static char *
trigger_arguments(const Declaration *decl)
{
	StringInfoData args;

	initStringInfo(&args);
#define ADD(condition, ...)                                                   \
	do                                                                        \
	{                                                                         \
		if (condition)                                                        \
			appendStringInfo(&args, "%s%s", args.len > 0 ? ", " : "",         \
							 quote_literal_cstr(psprintf(__VA_ARGS__)));      \
	} while (0)
	ADD(true, "mark=%s", decl->mark == MARK_ROW ? "row" : "resource");
	ADD(true, "resource=%s", decl->resource);
	ADD(decl->mark == MARK_ROW, "token_column=%s", decl->token_column);
	ADD(decl->mark == MARK_ROW && !decl->accept_column, "accept_column=false");
	ADD(decl->skip, "on_stale=skip");
	ADD(decl->rule.strict, "strict=true");
	ADD(decl->rule.max_step > 0, "max_step=" INT64_FORMAT,
		decl->rule.max_step);
	ADD(decl->rule.issued_only, "issuer=database");
	ADD(decl->mark == MARK_ROW && !decl->tombstones, "tombstones=false");
	ADD(decl->shadow, "shadow=true");
#undef ADD
	return args.data;
}

/*
 * Creates or replaces a trigger.  One of ours that was renamed is dropped; a
 * trigger of somebody else by our name is not touched.  A replaced trigger
 * that fired always goes on to.
 */
static void
create_trigger(Oid relid, const FenceTrigger *trigger, const char *arguments)
{
	Oid function = fencing_trigger_function(trigger->function);
	Relation rel = relation_open(relid, NoLock);
	bool always = false;

	for (int i = 0; rel->trigdesc && i < rel->trigdesc->numtriggers; i++)
	{
		Trigger *t = &rel->trigdesc->triggers[i];

		if (t->tgfoid == function)
			always |= t->tgenabled == TRIGGER_FIRES_ALWAYS;
		else if (strcmp(t->tgname, trigger->name) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_OBJECT),
					 errmsg("trigger \"%s\" of table \"%s\" is not one of a fence",
							trigger->name, RelationGetRelationName(rel)),
					 errhint("Rename it; fencing.fence needs that name."),
					 errtable(rel)));
	}
	relation_close(rel, NoLock);

	(void) drop_trigger(relid, trigger, trigger->name);
	execute(
		psprintf("CREATE OR REPLACE TRIGGER %s %s ON %s FOR EACH %s EXECUTE FUNCTION %s.%s(%s)",
				 trigger->name, trigger->when, qualified_name(relid),
				 trigger->level, FENCING_SCHEMA, trigger->function,
				 arguments));
	if (always)
		execute(psprintf("ALTER TABLE %s ENABLE ALWAYS TRIGGER %s",
						 qualified_name(relid), trigger->name));
}

/*
 * Drops the triggers of a relation that call this function, except the one
 * named "keep", if any.  A partition's clones go with their parent's.
 */
static bool
drop_trigger(Oid relid, const FenceTrigger *trigger, const char *keep)
{
	Oid function = fencing_trigger_function(trigger->function);
	Relation rel = relation_open(relid, NoLock);
	List *names = NIL;
	ListCell *lc;

	for (int i = 0; rel->trigdesc && i < rel->trigdesc->numtriggers; i++)
	{
		Trigger *t = &rel->trigdesc->triggers[i];

		if (t->tgfoid == function && !t->tgisclone &&
			(!keep || strcmp(t->tgname, keep) != 0))
			names = lappend(names, pstrdup(t->tgname));
	}
	relation_close(rel, NoLock);

	foreach(lc, names)
		execute(psprintf("DROP TRIGGER %s ON %s", quote_identifier(lfirst(lc)),
						 qualified_name(relid)));
	return names != NIL;
}

/* A trigger that fires after the guard can change what the guard has seen. */
static void
warn_of_later_triggers(Oid relid)
{
	Relation rel = relation_open(relid, NoLock);

	for (int i = 0; rel->trigdesc && i < rel->trigdesc->numtriggers; i++)
	{
		Trigger *t = &rel->trigdesc->triggers[i];

		if ((t->tgtype & (TRIGGER_TYPE_ROW | TRIGGER_TYPE_BEFORE)) ==
				(TRIGGER_TYPE_ROW | TRIGGER_TYPE_BEFORE) &&
			strcmp(t->tgname, FENCING_GUARD_TRIGGER) > 0)
			ereport(WARNING,
					(errmsg("trigger \"%s\" of table \"%s\" fires after the fence",
							t->tgname, RelationGetRelationName(rel)),
					 errdetail(
						 "It could change the token or the key after they were checked."),
					 errhint("Rename it so that it sorts before \"%s\".",
							 FENCING_GUARD_TRIGGER)));
	}
	relation_close(rel, NoLock);
}

static void
execute(const char *command)
{
	if (SPI_execute(command, false, 0) != SPI_OK_UTILITY)
		elog(ERROR, "could not execute \"%s\"", command);
}

static char *
qualified_name(Oid relid)
{
	return quote_qualified_identifier(get_namespace_name(
										  get_rel_namespace(relid)),
									  get_rel_name(relid));
}

static void
refuse_relation(Relation rel, const char *detail, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("cannot fence \"%s\"", RelationGetRelationName(rel)),
			 errdetail("%s", detail), errhint("%s", hint), errtable(rel)));
}
