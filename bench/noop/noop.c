/*-------------------------------------------------------------------------
 *
 * noop.c
 *		What the benchmark measures with, and compares with.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <time.h>

#include "commands/trigger.h"
#include "fmgr.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(bench_noop);
PG_FUNCTION_INFO_V1(bench_cpu_ns);

/* A BEFORE trigger for each row that leaves the row as it is. */
Datum
bench_noop(PG_FUNCTION_ARGS)
{
	TriggerData *trigdata = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo))
		elog(ERROR, "bench_noop: not called as a trigger");
	if (TRIGGER_FIRED_BY_UPDATE(trigdata->tg_event))
		return PointerGetDatum(trigdata->tg_newtuple);
	return PointerGetDatum(trigdata->tg_trigtuple);
}

/* The CPU time that this backend has used, user and system, in nanoseconds. */
Datum
bench_cpu_ns(PG_FUNCTION_ARGS)
{
	struct timespec now;

	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) != 0)
		elog(ERROR, "clock_gettime: %m");
	PG_RETURN_INT64(now.tv_sec * INT64CONST(1000000000) + now.tv_nsec);
}
