/*-------------------------------------------------------------------------
 *
 * resolve.h
 *		Addresses of a host name, without waiting for them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_REDIS_RESOLVE_H
#define FENCING_REDIS_RESOLVE_H

#include <netdb.h>

typedef struct Resolver Resolver;

typedef enum ResolverState
{
	RESOLVER_PENDING,
	RESOLVER_DONE,
	RESOLVER_FAILED
} ResolverState;

/*
 * Begins.  NULL if that is not possible, *problem is a clause then.  Uses
 * malloc: what runs in the background outlives every memory context.
 */
extern Resolver *resolver_start(const char *host, int port,
								const char **problem);

/*
 * How far it is.  RESOLVER_DONE gives the addresses, to be freed with
 * freeaddrinfo; RESOLVER_FAILED a clause.  In both cases the resolver is gone.
 */
extern ResolverState resolver_check(Resolver *resolver,
									struct addrinfo **addresses,
									const char **problem);

/* Not wanted any more.  Does not wait. */
extern void resolver_drop(Resolver *resolver);

#endif /* FENCING_REDIS_RESOLVE_H */
