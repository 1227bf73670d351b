/*-------------------------------------------------------------------------
 *
 * deadline.h
 *		The moment after which a transaction may not commit.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_DEADLINE_H
#define FENCING_DEADLINE_H

#include "datatype/timestamp.h"
#include "fmgr.h"

/* The deadline in force, DT_NOEND if there is none. */
extern TimestampTz fencing_deadline;

/*
 * Sets the deadline for the rest of the transaction (SET LOCAL), unless an
 * earlier one is in force already.
 */
extern void fencing_deadline_lower(TimestampTz deadline);

/* The same with an argument of a function, which may be NULL for none. */
extern void fencing_deadline_arg(FunctionCallInfo fcinfo, int argno);

extern void fencing_deadline_init(void);

#endif /* FENCING_DEADLINE_H */
