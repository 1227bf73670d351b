/*-------------------------------------------------------------------------
 *
 * statement.h
 *		What the trigger data does not tell about the running statement.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_STATEMENT_H
#define FENCING_STATEMENT_H

#include "access/attnum.h"
#include "utils/rel.h"

/*
 * Is the running statement a MERGE with an UPDATE action on this relation that
 * does not set the column?  Then tg_updatedcols, which holds the columns of
 * all its actions together, does not tell whether the action at hand set it.
 * No lock, no allocation, no error.
 */
extern bool fencing_statement_may_omit(Relation rel, AttrNumber attnum);

extern void fencing_statement_init(void);

#endif /* FENCING_STATEMENT_H */
