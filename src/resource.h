/*-------------------------------------------------------------------------
 *
 * resource.h
 *		Names of resources, and templates that make them from a row.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_RESOURCE_H
#define FENCING_RESOURCE_H

#include "access/htup.h"
#include "access/tupdesc.h"
#include "fmgr.h"
#include "lib/stringinfo.h"

#include "fencing.h"

/* A resource name: not NUL-terminated by necessity, but always is here. */
typedef struct ResourceName
{
	int len;
	char data[FENCING_RESOURCE_MAX + 1];
} ResourceName;

/* How a column's value becomes text. */
typedef enum ValueOutput
{
	OUTPUT_INT2, /* written here, without the type's function */
	OUTPUT_INT4,
	OUTPUT_INT8,
	OUTPUT_TEXT,  /* the bytes of a text, varchar or bpchar */
	OUTPUT_PLAIN, /* output function that obeys no setting */
	OUTPUT_PINNED /* output function called under fixed settings */
} ValueOutput;

/* One piece of a template: literal text, then perhaps a column. */
typedef struct TemplatePart
{
	char *literal; /* text before the column, braces undoubled */
	int literal_len;
	char *column;		/* column name, NULL in a trailing piece */
	AttrNumber attnum;	/* of the column; resolved by bind */
	bool byval;			/* the column's pg_type.typbyval */
	int16 typlen;		/* and typlen */
	ValueOutput output; /* how its value is written */
	FmgrInfo outfunc;	/* for OUTPUT_PLAIN and OUTPUT_PINNED */
} TemplatePart;

typedef struct ResourceTemplate
{
	int nparts;
	int ncolumns; /* pieces that have a column */
	TemplatePart *parts;
} ResourceTemplate;

/*
 * Parses the text of a template into CurrentMemoryContext.  Returns NULL when
 * it is well formed, else a message (untranslated sentence) that says what is
 * wrong with it.  Looks at no catalog and raises nothing but out of memory.
 */
extern const char *fencing_template_parse(const char *text,
										  ResourceTemplate *tmpl);

/*
 * Finds the columns of a parsed template in a relation's row type and the way
 * their values are written.  Returns NULL, or the first column that does not
 * exist there or is generated (*generated tells which).  Reads syscaches;
 * allocates function lookups in the given context.
 */
extern const char *fencing_template_bind(ResourceTemplate *tmpl,
										 TupleDesc desc, MemoryContext cxt,
										 bool *generated);

/* The outcome of making a name from a row. */
typedef enum NameProblem
{
	NAME_OK,
	NAME_NULL_COLUMN, /* a template column is NULL */
	NAME_EMPTY,		  /* no byte in it */
	NAME_TOO_LONG	  /* more than FENCING_RESOURCE_MAX bytes */
} NameProblem;

/*
 * Writes the name of a row's resource into *name.  For NAME_NULL_COLUMN,
 * *column is the column in question.  What the types' output functions
 * allocate is left in CurrentMemoryContext (the row's, in a trigger); they
 * may raise errors of their own.
 */
extern NameProblem fencing_template_apply(ResourceTemplate *tmpl,
										  HeapTuple row, TupleDesc desc,
										  ResourceName *name,
										  const char **column);

/*
 * Do two rows differ in a template column, compared as stored bytes?  False
 * means that they certainly have the same name; true that they may not.
 */
extern bool fencing_template_differs(const ResourceTemplate *tmpl, HeapTuple a,
									 HeapTuple b, TupleDesc desc);

/*
 * Copies a text argument into *name.  Raises 22023 if it is NULL, empty or
 * too long; "what" names the argument in the message.
 */
extern void fencing_resource_from_arg(Datum arg, bool isnull, const char *what,
									  ResourceName *name);

/* Total order of names: byte by byte, as collation "C" has it. */
static inline int
fencing_name_cmp(const char *a, int alen, const char *b, int blen)
{
	int c = memcmp(a, b, Min(alen, blen));

	return c != 0 ? c : alen - blen;
}

#endif /* FENCING_RESOURCE_H */
