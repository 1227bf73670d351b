/*-------------------------------------------------------------------------
 *
 * duration.h
 *		Lengths of time given as arguments.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_DURATION_H
#define FENCING_DURATION_H

#include "fmgr.h"

/*
 * Reads an interval argument of a function as microseconds; a month counts 30
 * days and a day 24 hours, as in comparisons of intervals.  Raises 22023,
 * which names the argument, if it is NULL, infinite, negative, longer than
 * 100 years, or 0 without zero_allowed.
 */
extern int64 fencing_duration_arg(FunctionCallInfo fcinfo, int argno,
								  const char *argument, bool zero_allowed);

#endif /* FENCING_DURATION_H */
