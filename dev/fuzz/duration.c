/*-------------------------------------------------------------------------
 *
 * duration.c
 *		Fuzz target: intervals as lengths of time.
 *
 * Input: the fields of an interval, and whether 0 is allowed.  The result is
 * the sum of the fields as wide arithmetic has it, or a refusal if that is not
 * within 0 and 100 years.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "duration.h"
#include "fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Input in = fuzz_begin(data, size);
	LOCAL_FCINFO(fcinfo, 1);
	Interval *interval = palloc(sizeof(Interval));
	bool zero_allowed = fuzz_byte(&in) & 1;
	__int128 expected;
	__int128 limit = (__int128) 36000 * USECS_PER_DAY;
	int64 length = -1;
	bool done = false;
	bool finite = true;

	interval->time = (TimeOffset) fuzz_uint64(&in);
	interval->day = (int32) (uint32) fuzz_uint64(&in);
	interval->month = (int32) (uint32) fuzz_uint64(&in);
#ifdef INTERVAL_NOT_FINITE
	finite = !INTERVAL_NOT_FINITE(interval);
#endif
	expected = ((__int128) interval->month * DAYS_PER_MONTH + interval->day) *
			USECS_PER_DAY +
		interval->time;

	memset(fcinfo, 0, SizeForFunctionCallInfo(1));
	fcinfo->nargs = 1;
	fcinfo->args[0].value = IntervalPGetDatum(interval);
	if (FUZZ_TRY())
	{
		length = fencing_duration_arg(fcinfo, 0, "ttl", zero_allowed);
		done = true;
	}
	if (finite && expected <= limit &&
		(expected > 0 || (expected == 0 && zero_allowed)))
		fuzz_check(length == expected);
	else
		fuzz_check(!done &&
				   fuzz_error.sqlstate == ERRCODE_INVALID_PARAMETER_VALUE);
	return 0;
}
