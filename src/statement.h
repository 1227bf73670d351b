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
 * Takes no lock; allocates only in the statement that loads the library.
 */
extern bool fencing_statement_may_omit(Relation rel, AttrNumber attnum);

/* Is the running statement an UPDATE or a MERGE, as far as is known? */
extern bool fencing_statement_updates(void);

extern void fencing_statement_init(void);

#endif /* FENCING_STATEMENT_H */
