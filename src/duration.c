/*-------------------------------------------------------------------------
 *
 * duration.c
 *		Lengths of time given as arguments.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/int.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "duration.h"
#include "refuse.h"

#define DURATION_MAX (INT64CONST(100) * 12 * DAYS_PER_MONTH * USECS_PER_DAY)

int64
fencing_duration_arg(FunctionCallInfo fcinfo, int argno, const char *argument,
					 bool zero_allowed)
{
	const char *hint = zero_allowed
		? "Give a length of time from 0 to 100 years."
		: "Give a length of time above 0, up to 100 years.";
	Interval *interval;
	int64 days;
	int64 length;

	if (PG_ARGISNULL(argno))
		fencing_bad_argument(argument, "NULL", hint);
	interval = PG_GETARG_INTERVAL_P(argno);
	if (!fencing_interval_is_finite(interval))
		fencing_bad_argument(argument, "infinite", hint);

	/* 32-bit fields: the days cannot overflow, what they are in time can */
	days = (int64) interval->month * DAYS_PER_MONTH + interval->day;
	if (pg_mul_s64_overflow(days, USECS_PER_DAY, &length) ||
		pg_add_s64_overflow(length, interval->time, &length))
		length = days < 0 ? PG_INT64_MIN : PG_INT64_MAX;

	if (length < 0)
		fencing_bad_argument(argument, "negative", hint);
	if (length == 0 && !zero_allowed)
		fencing_bad_argument(argument, "zero", hint);
	if (length > DURATION_MAX)
		fencing_bad_argument(argument, "longer than 100 years", hint);
	return length;
}
