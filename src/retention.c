/*-------------------------------------------------------------------------
 *
 * retention.c
 *		SQL functions that forget what is not needed any more.
 *
 * Marks and issued tokens stay for ever by themselves, one small row for each
 * resource that there ever was.  What an administrator's call takes away must
 * not let an older token in, nor refuse one that is still good.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"

#include "compat.h"
#include "duration.h"
#include "refuse.h"

/*
 * Did the token of mark m come from this database's issuer?  (A mark of 0 has
 * none.)  The row of fencing.issued that says so stays as long as the mark.
 */
#define ISSUED_HERE                                                           \
	"(m.token OPERATOR(pg_catalog.=) 0"                                       \
	" OR EXISTS (SELECT FROM fencing.issued i"                                \
	"            WHERE i.resource OPERATOR(pg_catalog.=) m.resource"          \
	"              AND i.token OPERATOR(pg_catalog.>=) m.token))"

/* Is there a lease in force on row i of fencing.issued? */
#define LEASED                                                                \
	"(i.lease_token IS NOT NULL"                                              \
	" AND i.origin OPERATOR(pg_catalog.=) fencing.lease_origin()"             \
	" AND i.expires_at OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp())"

FENCING_FUNCTION(fencing_compact);
FENCING_FUNCTION(fencing_purge_leases);

static void refuse_foreign_marks(void);
static void spare_leases(void);
static int64 count_of_result(void);

/*
 * fencing.compact(before): replaces marks that were last raised longer ago
 * than "before" by the floor.  Returns how many.
 *
 * Marks that a transaction holds are left alone (SKIP LOCKED), so compaction
 * waits for no writer, and what a running transaction remembers as checked
 * stays true.  The floor is raised and the rows are deleted in one
 * transaction; see mark.c for how a first use meets that.
 */
Datum
fencing_compact(PG_FUNCTION_ARGS)
{
	Oid argtypes[1] = {INTERVALOID};
	Datum args[1];
	int64 compacted;

	(void) fencing_duration_arg(fcinfo, 0, "before", true);
	args[0] = PG_GETARG_DATUM(0);
	PreventCommandIfReadOnly("fencing.compact()");
	PreventCommandDuringRecovery("fencing.compact()");

	SPI_connect();

	/* one compaction at a time; writers do not mind this lock */
	SPI_execute("LOCK TABLE fencing.marks IN SHARE UPDATE EXCLUSIVE MODE",
				false, 0);
	refuse_foreign_marks();
	spare_leases();

	if (SPI_execute_with_args("WITH old AS MATERIALIZED ("
							  "  SELECT m.resource, m.token FROM fencing.marks m"
							  "  WHERE m.resource OPERATOR(pg_catalog.<>) ''"
							  "    AND " ISSUED_HERE
							  "    AND NOT EXISTS (SELECT FROM fencing.issued i"
							  "                    WHERE i.resource OPERATOR(pg_catalog.=) m.resource"
							  "                      AND " LEASED ")"
							  "    AND m.updated_at OPERATOR(pg_catalog.<)"
							  "        (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) $1)"
							  "  FOR UPDATE SKIP LOCKED),"
							  " floor AS ("
							  "  INSERT INTO fencing.marks AS f (resource, token, updated_at)"
							  "  SELECT '', pg_catalog.max(old.token), pg_catalog.clock_timestamp()"
							  "  FROM old HAVING pg_catalog.count(*) OPERATOR(pg_catalog.>) 0"
							  "  ON CONFLICT (resource) DO UPDATE"
							  "  SET token = GREATEST(f.token, excluded.token),"
							  "      updated_at = excluded.updated_at),"
							  " gone AS ("
							  "  DELETE FROM fencing.marks m USING old"
							  "  WHERE m.resource OPERATOR(pg_catalog.=) old.resource"
							  "  RETURNING m.resource)"
							  " SELECT pg_catalog.count(*) FROM gone",
							  1, argtypes, args, NULL, false,
							  0) != SPI_OK_SELECT)
		elog(ERROR, "compacting the marks failed");
	compacted = count_of_result();

	/*
	 * What was issued below the floor and has no mark tells nothing any more.
	 * A row that somebody is taking a token from is left for the next time.
	 */
	if (SPI_execute("DELETE FROM fencing.issued WHERE resource OPERATOR(pg_catalog.=) ANY ("
					"  SELECT i.resource FROM fencing.issued i"
					"  WHERE i.token OPERATOR(pg_catalog.<) (SELECT f.token"
					"        FROM fencing.marks f WHERE f.resource OPERATOR(pg_catalog.=) '')"
					"    AND NOT EXISTS (SELECT FROM fencing.marks m"
					"        WHERE m.resource OPERATOR(pg_catalog.=) i.resource)"
					"    AND NOT " LEASED "  FOR UPDATE OF i SKIP LOCKED)",
					false, 0) != SPI_OK_DELETE)
		elog(ERROR, "compacting the issued tokens failed");
	SPI_finish();
	PG_RETURN_INT64(compacted);
}

/*
 * The floor stands for every resource without a mark of its own, those to come
 * included.  Only the database's issuer is sure to give them tokens above it;
 * a counter of somebody else would be locked out.
 */
static void
refuse_foreign_marks(void)
{
	StringInfoData names;

	SPI_execute("SELECT m.resource, m.token FROM fencing.marks m"
				" WHERE m.resource OPERATOR(pg_catalog.<>) ''"
				"   AND " ISSUED_HERE
				" IS NOT TRUE ORDER BY m.resource LIMIT 6",
				false, 0);
	if (SPI_processed == 0)
		return;
	initStringInfo(&names);
	for (uint64 i = 0; i < Min(SPI_processed, 5); i++)
		appendStringInfo(&names, "%s\"%s\" (%s)", i > 0 ? ", " : "",
						 SPI_getvalue(SPI_tuptable->vals[i],
									  SPI_tuptable->tupdesc, 1),
						 SPI_getvalue(SPI_tuptable->vals[i],
									  SPI_tuptable->tupdesc, 2));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg(
				 "marks cannot be compacted: some tokens did not come from this database"),
			 errdetail("Not issued by fencing.next_token: %s%s.", names.data,
					   SPI_processed > 5 ? ", and more" : ""),
			 errhint(
				 "The floor would lock out resources whose tokens come from elsewhere.")));
}

/*
 * A lease in force may have a token below the floor to come, and no mark yet.
 * It gets one, as high as its mark is now, which stands in place of the floor.
 */
static void
spare_leases(void)
{
	SPI_execute("INSERT INTO fencing.marks (resource, token, updated_at)"
				" SELECT i.resource, COALESCE((SELECT f.token FROM fencing.marks f"
				"        WHERE f.resource OPERATOR(pg_catalog.=) ''), 0),"
				"        pg_catalog.clock_timestamp()"
				" FROM fencing.issued i WHERE " LEASED
				"   AND i.lease_token OPERATOR(pg_catalog.<)"
				"       (SELECT pg_catalog.max(m.token) FROM fencing.marks m)"
				" ON CONFLICT (resource) DO NOTHING",
				false, 0);
}

/*
 * fencing.purge_leases(older_than): forgets resources whose last lease ended,
 * and whose last token was handed out, longer ago than that.  Those with a
 * mark are left to compact, which needs to know where their tokens came from.
 * Tokens rise all the same: the sequence knows nothing of resources.
 */
Datum
fencing_purge_leases(PG_FUNCTION_ARGS)
{
	Oid argtypes[1] = {INTERVALOID};
	Datum args[1];
	int64 purged;

	PreventCommandIfReadOnly("fencing.purge_leases()");
	PreventCommandDuringRecovery("fencing.purge_leases()");
	(void) fencing_duration_arg(fcinfo, 0, "older_than", true);
	args[0] = PG_GETARG_DATUM(0);

	SPI_connect();
	if (SPI_execute_with_args("WITH ended AS MATERIALIZED ("
							  "  SELECT i.resource FROM fencing.issued i"
							  "  WHERE NOT " LEASED
							  "    AND i.updated_at OPERATOR(pg_catalog.<)"
							  "        (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) $1)"
							  "    AND (i.lease_token IS NULL OR i.expires_at OPERATOR(pg_catalog.<)"
							  "        (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) $1))"
							  "    AND NOT EXISTS (SELECT FROM fencing.marks m"
							  "        WHERE m.resource OPERATOR(pg_catalog.=) i.resource)"
							  "  FOR UPDATE OF i SKIP LOCKED),"
							  " gone AS ("
							  "  DELETE FROM fencing.issued i USING ended"
							  "  WHERE i.resource OPERATOR(pg_catalog.=) ended.resource"
							  "  RETURNING i.resource)"
							  " SELECT pg_catalog.count(*) FROM gone",
							  1, argtypes, args, NULL, false,
							  0) != SPI_OK_SELECT)
		elog(ERROR, "purging the leases failed");
	purged = count_of_result();
	SPI_finish();
	PG_RETURN_INT64(purged);
}

static int64
count_of_result(void)
{
	bool isnull;

	return DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0],
									   SPI_tuptable->tupdesc, 1, &isnull));
}
