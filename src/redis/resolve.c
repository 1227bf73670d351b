/*-------------------------------------------------------------------------
 *
 * resolve.c
 *		Addresses of a host name, without waiting for them.
 *
 * getaddrinfo() cannot be interrupted, and a name server that does not answer
 * keeps it for half a minute.  A backend that sits in it is deaf to cancel,
 * statement_timeout and terminate.  glibc has getaddrinfo_a(), which asks in
 * a thread of its own, with all signals blocked; that thread touches nothing
 * but the request, and the backend looks at the request from time to time.
 *
 * A request that is dropped before its time can often not be called off.  It
 * stays on a list until it has come to its end; when there are many of those,
 * the name service does not work, and no more are begun.
 *
 * Where there is no getaddrinfo_a(), only numeric addresses are accepted:
 * nothing else keeps the promise.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <netdb.h>
#include <sys/socket.h>

#include "resolve.h"

#define MAX_DROPPED 8
#define MAX_HOST 256

#if defined(__GLIBC__) && defined(GAI_NOWAIT)
#define ASYNCHRONOUS
#endif

struct Resolver
{
	struct Resolver *next; /* of those dropped */
	char host[MAX_HOST];
	char service[8];
	struct addrinfo hints;
	struct addrinfo *addresses; /* known at once, or NULL */
#ifdef ASYNCHRONOUS
	struct gaicb request;
#endif
};

static const char *const out_of_memory = "could not be asked: out of memory";

#ifdef ASYNCHRONOUS
static Resolver *dropped = NULL;

static int free_dropped(void);
#endif

Resolver *
resolver_start(const char *host, int port, const char **problem)
{
	Resolver *resolver = calloc(1, sizeof(Resolver));
#ifdef ASYNCHRONOUS
	struct gaicb *list[1];
#endif

	if (resolver == NULL)
	{
		*problem = out_of_memory;
		return NULL;
	}
	strlcpy(resolver->host, host, sizeof(resolver->host));
	snprintf(resolver->service, sizeof(resolver->service), "%d", port);
	resolver->hints.ai_family = AF_UNSPEC;
	resolver->hints.ai_socktype = SOCK_STREAM;
	resolver->hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;

	/* this asks nobody */
	if (getaddrinfo(resolver->host, resolver->service, &resolver->hints,
					&resolver->addresses) == 0)
		return resolver;
	resolver->addresses = NULL;
	resolver->hints.ai_flags = AI_NUMERICSERV;

#ifdef ASYNCHRONOUS
	if (free_dropped() >= MAX_DROPPED)
	{
		free(resolver);
		*problem = "has a host name, and the name service does not answer";
		return NULL;
	}
	resolver->request.ar_name = resolver->host;
	resolver->request.ar_service = resolver->service;
	resolver->request.ar_request = &resolver->hints;
	list[0] = &resolver->request;
	if (getaddrinfo_a(GAI_NOWAIT, list, 1, NULL) == 0)
		return resolver;
	*problem = "has a host name that could not be looked up";
#else
	*problem =
		"has a host name, and names cannot be looked up without blocking here: give its address";
#endif
	free(resolver);
	return NULL;
}

ResolverState
resolver_check(Resolver *resolver, struct addrinfo **addresses,
			   const char **problem)
{
	ResolverState state = RESOLVER_DONE;

	*addresses = resolver->addresses;
#ifdef ASYNCHRONOUS
	if (*addresses == NULL)
	{
		int error = gai_error(&resolver->request);

		if (error == EAI_INPROGRESS)
			return RESOLVER_PENDING;
		*addresses = resolver->request.ar_result;
		if (error != 0)
		{
			/* the message may be translated, but is a constant */
			*problem = gai_strerror(error);
			state = RESOLVER_FAILED;
		}
	}
#endif
	free(resolver);
	return state;
}

void
resolver_drop(Resolver *resolver)
{
	if (resolver->addresses != NULL)
	{
		freeaddrinfo(resolver->addresses);
		free(resolver);
		return;
	}
#ifdef ASYNCHRONOUS
	(void) gai_cancel(&resolver->request);
	resolver->next = dropped;
	dropped = resolver;
	(void) free_dropped();
#endif
}

#ifdef ASYNCHRONOUS
/* Frees those that have come to their end; returns how many have not. */
static int
free_dropped(void)
{
	Resolver **place = &dropped;
	int left = 0;

	while (*place != NULL)
	{
		Resolver *resolver = *place;

		if (gai_error(&resolver->request) == EAI_INPROGRESS)
		{
			left++;
			place = &resolver->next;
			continue;
		}
		if (resolver->request.ar_result != NULL)
			freeaddrinfo(resolver->request.ar_result);
		*place = resolver->next;
		free(resolver);
	}
	return left;
}
#endif
