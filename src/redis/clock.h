/*-------------------------------------------------------------------------
 *
 * clock.h
 *		A clock that nobody sets back, for time limits and for the validity of
 *		leases.
 *
 * Where there is one, it is the clock that goes on while the machine sleeps:
 * a lease runs out in Redis whether we are awake or not.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_REDIS_CLOCK_H
#define FENCING_REDIS_CLOCK_H

#include <time.h>

#define USECS_PER_MSEC INT64CONST(1000)

/* Microseconds since some moment. */
static inline int64
clock_now(void)
{
	struct timespec now;

#ifdef CLOCK_BOOTTIME
	clock_gettime(CLOCK_BOOTTIME, &now);
#else
	clock_gettime(CLOCK_MONOTONIC, &now);
#endif
	return now.tv_sec * USECS_PER_SEC + now.tv_nsec / 1000;
}

#endif /* FENCING_REDIS_CLOCK_H */
