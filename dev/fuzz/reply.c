/*-------------------------------------------------------------------------
 *
 * reply.c
 *		Fuzz target: what fencing_redis makes of the answers of Redis.
 *
 * Input: a byte that says how many nodes there are and what is asked of them,
 * then what each connection receives, as two bytes of length and the bytes;
 * an even length ends with the end of the connection, an odd one leaves it
 * open.  The module's own code opens the connections (to one end of a socket
 * pair), sends, waits, reads, follows redirections and counts the votes.
 *
 * A grant must have been said by as many connections as make the quorum.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/cryptohash.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "storage/latch.h"

#include "fuzz.h"
#include "redis/clock.h"
#include "redis/exchange.h"
#include "redis/quorum.h"
#include "redis/resolve.h"

#define MAX_PEERS 64

static Input input;
static int peers[MAX_PEERS];
static int npeers;
static int64 now = 1000000;
static int granted; /* connections that a grant was put into */

volatile sig_atomic_t InterruptPending = false;
struct Latch *MyLatch = NULL;
sigjmp_buf *PG_exception_stack = NULL;
ErrorContextCallback *error_context_stack = NULL;

/* ---------------------------------------------------------------------------
 * The system, by --wrap
 * ---------------------------------------------------------------------------
 */

extern int __wrap_socket(int domain, int type, int protocol);
extern int __wrap_connect(int fd, const struct sockaddr *address,
						  socklen_t len);
extern int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);

/* Time goes on with each look at it, so that no wait is one. */
int
__wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	now += 100;
	ts->tv_sec = now / USECS_PER_SEC;
	ts->tv_nsec = now % USECS_PER_SEC * 1000;
	return 0;
}

/* One end of a pair; the other one has sent what the input says. */
int
__wrap_socket(int domain, int type, int protocol)
{
	int pair[2];
	size_t len;
	bool ends;

	if (npeers == MAX_PEERS)
	{
		errno = EMFILE;
		return -1;
	}
	len = fuzz_byte(&input) << 8;
	len |= fuzz_byte(&input);
	ends = len % 2 == 0;
	len = Min(len, (size_t) (input.end - input.at));
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
		abort();
	/* so much fits into the buffer of a socket */
	if (write(pair[1], input.at, len) != (ssize_t) len)
		abort();
	for (size_t i = 0; i + 9 <= len; i++)
		if (memcmp(input.at + i, "*2\r\n:", 5) == 0)
		{
			granted++;
			break;
		}
	input.at += len;
	if (ends)
		shutdown(pair[1], SHUT_WR);
	peers[npeers++] = pair[1];
	return pair[0];
}

int
__wrap_connect(int fd, const struct sockaddr *address, socklen_t len)
{
	return 0;
}

/* ---------------------------------------------------------------------------
 * The server
 * ---------------------------------------------------------------------------
 */

bool
AcquireExternalFD(void)
{
	return true;
}

void
ReleaseExternalFD(void)
{
}

List *
lappend(List *list, void *datum)
{
	if (list == NULL)
	{
		list = palloc0(sizeof(List));
		list->type = T_List;
		list->elements = palloc(sizeof(ListCell));
	}
	else
		list->elements = repalloc(list->elements,
								  (list->length + 1) * sizeof(ListCell));
	list->elements[list->length++].ptr_value = datum;
	return list;
}

/* A script's hash is sent, and nobody here looks at it. */
pg_cryptohash_ctx *
pg_cryptohash_create(pg_cryptohash_type type)
{
	static char context;

	return (pg_cryptohash_ctx *) &context;
}

int
pg_cryptohash_init(pg_cryptohash_ctx *ctx)
{
	return 0;
}

int
pg_cryptohash_update(pg_cryptohash_ctx *ctx, const uint8 *data, size_t len)
{
	return 0;
}

int
pg_cryptohash_final(pg_cryptohash_ctx *ctx, uint8 *dest, size_t len)
{
	memset(dest, 0, len);
	return 0;
}

void
pg_cryptohash_free(pg_cryptohash_ctx *ctx)
{
}

uint64
hex_encode(const char *src, size_t len, char *dst)
{
	memset(dst, '0', len * 2);
	return len * 2;
}

/* Sets of what is waited for: everything is always ready. */
static void *waited[2 * MAX_PEERS];
static int nwaited;

static WaitEventSet *
new_set(void)
{
	nwaited = 0;
	return (WaitEventSet *) waited;
}

#if PG_VERSION_NUM >= 170000
WaitEventSet *
CreateWaitEventSet(ResourceOwner resowner, int nevents)
{
	return new_set();
}
#else
WaitEventSet *
CreateWaitEventSet(MemoryContext context, int nevents)
{
	return new_set();
}
#endif

void
FreeWaitEventSet(WaitEventSet *set)
{
}

int
AddWaitEventToSet(WaitEventSet *set, uint32 events, pgsocket fd,
				  struct Latch *latch, void *user_data)
{
	fuzz_check(nwaited < (int) lengthof(waited));
	waited[nwaited] = user_data;
	return nwaited++;
}

void
ModifyWaitEvent(WaitEventSet *set, int pos, uint32 events, struct Latch *latch)
{
	fuzz_check(pos >= 0 && pos < nwaited);
}

int
WaitEventSetWait(WaitEventSet *set, long timeout, WaitEvent *occurred,
				 int nevents, uint32 wait_event_info)
{
	int n = 0;

	/* the first two are the latch and the postmaster */
	for (int i = 2; i < nwaited && n < nevents; i++)
	{
		occurred[n].pos = i;
		occurred[n].events = WL_SOCKET_READABLE;
		occurred[n++].user_data = waited[i];
	}
	return n;
}

void
ResetLatch(struct Latch *latch)
{
}

bool
superuser(void)
{
	return false;
}

/* ---------------------------------------------------------------------------
 * Names of hosts
 * ---------------------------------------------------------------------------
 */

struct Resolver
{
	int unused;
};

static struct Resolver the_resolver;

Resolver *
resolver_start(const char *host, int port, const char **problem)
{
	return &the_resolver;
}

ResolverState
resolver_check(Resolver *resolver, struct addrinfo **addresses,
			   const char **problem)
{
	struct addrinfo hints = {.ai_family = AF_INET,
							 .ai_socktype = SOCK_STREAM,
							 .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};

	if (getaddrinfo("127.0.0.1", "6379", &hints, addresses) != 0)
		abort();
	return RESOLVER_DONE;
}

void
resolver_drop(Resolver *resolver)
{
}

/* ---------------------------------------------------------------------------
 * The target
 * ---------------------------------------------------------------------------
 */

static Server *
new_server(int nnodes, uint8_t flags)
{
	Server *server = palloc0(sizeof(Server));

	server->id = 1;
	server->name = "s";
	server->nnodes = nnodes;
	server->nodes = palloc0(nnodes * sizeof(RedisNode));
	server->options.naddresses = nnodes;
	server->options.connect_timeout = 20;
	server->options.command_timeout = 20;
	server->options.replica_timeout = 5;
	server->options.lock_prefix = "lock:";
	server->options.token_prefix = "fence:";
	if (flags & 0x08)
		server->options.password = "secret-word";
	if (flags & 0x10)
		server->options.database = 3;
	if (flags & 0x20)
		server->options.replicas = 1;
	for (int i = 0; i < nnodes; i++)
	{
		Address *address = &server->nodes[i].address;

		server->nodes[i].server = server;
		/* a socket and hosts; what each is reached by is the wrap's affair */
		if (i == 0 && (flags & 0x40))
			address->path = address->name = "/run/redis.sock";
		else
		{
			address->host = psprintf("h%d", i);
			address->name = psprintf("h%d:6379", i);
			address->port = 6379;
		}
	}
	return server;
}

static void
check_verdict(const Server *server, const Verdict *verdict, bool grant)
{
	fuzz_check(verdict->decision >= DECISION_YES &&
			   verdict->decision <= DECISION_UNKNOWN);
	if (grant && verdict->decision == DECISION_YES)
		fuzz_check(granted >= server_quorum(server));
	fuzz_check(verdict->counter >= 0);
	fuzz_check(strnlen(verdict->word, sizeof(verdict->word)) <
			   sizeof(verdict->word));
	if (verdict->decision != DECISION_UNKNOWN)
		return;
	fuzz_check(verdict->problem != NULL && *verdict->problem != '\0');
	for (const char *p = verdict->problem; *p; p++)
		fuzz_check((unsigned char) *p >= ' ' && (unsigned char) *p < 0x7f);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t flags;
	Server *server;
	LeaseKey key;
	Verdict verdict;

	signal(SIGPIPE, SIG_IGN);
	input = fuzz_begin(data, size);
	npeers = 0;
	granted = 0;
	flags = fuzz_byte(&input);
	server = new_server((flags & 0x07) % 5 + 1, flags);
	lease_key_init(&key, server, pstrdup("sku:1"), pstrdup("holder"));

	if (FUZZ_TRY())
	{
		quorum_acquire(server, &key, 1000, &verdict);
		check_verdict(server, &verdict, true);
		if (verdict.decision == DECISION_YES)
		{
			quorum_settled();
			quorum_raise(server, &key, 7);
			quorum_renew(server, &key, 7, 1000, &verdict);
			check_verdict(server, &verdict, false);
			quorum_release(server, &key, 7, &verdict);
			check_verdict(server, &verdict, false);
			quorum_flush();
		}
	}
	server_disconnect(server);
	wire_close_kept();
	for (int i = 0; i < npeers; i++)
		close(peers[i]);
	return 0;
}
