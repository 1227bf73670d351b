/*-------------------------------------------------------------------------
 *
 * shmem.h
 *		Memory that all sessions share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_SHMEM_H
#define FENCING_SHMEM_H

#include "storage/lwlock.h"

/* Every part begins with one of these. */
typedef struct SharedHeader
{
	int tranche;
	LWLock lock;
} SharedHeader;

/* A piece of shared memory; defined by the module that uses it. */
typedef struct SharedPart
{
	const char *name;	  /* unlike any other in the server; changes with the
					   * layout, for the day a library is replaced */
	Size (*size)(void);	  /* reads fencing_shared_sizes */
	void (*init)(void *); /* fills in all but the header */
	void *address;		  /* NULL until attached */
	struct SharedPart *next;
} SharedPart;

/* What the settings say; once there is shared memory, what it was made with. */
typedef struct SharedSizes
{
	int max_fences;
	int max_refusals;
} SharedSizes;

extern SharedSizes fencing_shared_sizes;

/* Announces a part.  Called while the library is loaded. */
extern void fencing_shmem_register(SharedPart *part);

/*
 * Makes or finds all parts.  Returns false if this server cannot give shared
 * memory to a library that was not preloaded, or has none left; their
 * addresses are NULL then.  Normally a comparison.
 *
 * With "guarded" an error on the way is logged once a session and is not
 * raised: for a write, which needs no statistics to be right.  This takes a
 * subtransaction, so the caller is in a transaction that may have one.
 */
extern bool fencing_shmem_attach(bool guarded);

/*
 * The same for a view: raises what goes wrong, and where there is no shared
 * memory, says so in one notice a session.
 */
extern bool fencing_shmem_attach_for_view(void);

/* Are they attached in this session?  For places where nothing may fail. */
extern bool fencing_shmem_attached(void);

extern void fencing_shmem_init(void);

#endif /* FENCING_SHMEM_H */
