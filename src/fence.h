/*-------------------------------------------------------------------------
 *
 * fence.h
 *		The declaration of a fence, as its trigger's arguments carry it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_FENCE_H
#define FENCING_FENCE_H

#include "commands/trigger.h"
#include "utils/rel.h"

#include "mark.h"
#include "resource.h"
#include "stats.h"

typedef enum MarkKind
{
	MARK_ROW,
	MARK_RESOURCE
} MarkKind;

/* What the arguments of a guard trigger say. */
typedef struct Declaration
{
	MarkKind mark;
	char *resource;		/* the template's text */
	char *token_column; /* row marks; else NULL */
	bool accept_column;
	bool skip; /* on_stale => 'skip' */
	bool tombstones;
	bool shadow;
	Rule rule;
} Declaration;

/* A declaration made ready for one relation. */
typedef struct Fence
{
	char **args; /* copies of the trigger's, which decl points into */
	Declaration decl;
	ResourceTemplate tmpl;
	StatCounter *counter;	 /* of the table that was declared fenced */
	AttrNumber token_attnum; /* row marks */
	bool partition;			 /* the relation is a partition */
	bool may_leave;			 /* ... of a table that is not all fenced */

	/* may any presented token be for a row of this fence? */
	uint64 tokens_generation; /* ... as of these tokens */
	bool tokens_may_match;

	/* resource marks: the name made last, and the values it was made from */
	bool last_valid;
	Datum *last_values; /* one for each piece of the template */
	bool integers;		/* all columns are; else made each time */
	ResourceName last_name;

	/* ... and when its token was accepted: see resource_accepted() */
	uint64 accepted_epoch; /* 0: it was not */
	uint64 accepted_store;
	uint64 accepted_tokens;
} Fence;

/*
 * Reads the arguments of a guard trigger.  Returns NULL, or a sentence that
 * says what is wrong.  Strings point into args or CurrentMemoryContext.
 */
extern const char *fencing_declaration_read(int nargs, char **args,
											Declaration *decl);

/*
 * The fence of the relation that a guard trigger fires for.  It is valid
 * until the next call of this function, at least.  Raises ZF009 if the
 * declaration does not fit the relation.  Normally a pointer comparison;
 * builds the fence after an invalidation.
 */
extern Fence *fencing_fence_get(Relation rel, const Trigger *trigger);

/*
 * The guard trigger of a relation, or NULL.  Recognized by its function, so
 * that it may be renamed.
 */
extern const Trigger *fencing_guard_trigger(Relation rel);

/* The table that a relation's fence was declared on: itself, or one above. */
extern Oid fencing_fence_relid(Relation rel, const Trigger *guard);

/* Does a unique key of the relation lie within the template's columns? */
extern bool fencing_template_holds_key(const ResourceTemplate *tmpl,
									   Relation rel);

/* The OID of a trigger function of the extension, InvalidOid if missing. */
extern Oid fencing_trigger_function(const char *name);

extern void fencing_fence_init(void);

#endif /* FENCING_FENCE_H */
