/*-------------------------------------------------------------------------
 *
 * wire.c
 *		One connection to one Redis server, never waiting.
 *
 * hiredis is used for what it does well, the protocol, on a socket that is
 * opened here and never blocks.  Waiting is left to the caller, who does it on
 * the backend's latch for many connections at once (exchange.c).
 *
 * A connection is good only as long as it is known which reply comes next.
 * There are two kinds of replies to come: "ignored" ones, of commands that
 * nobody waits for, which come first, and the one that is "owed" to a call.
 * Whoever stops waiting for an owed reply because of an error closes the
 * connection.  Closing does not undo what was sent: a Redis server carries out
 * what it had received.
 *
 * What a server may send is bounded: a reply that is too long or too wide
 * fails the connection before it is stored.
 *
 * Each open socket is counted by AcquireExternalFD().  A Wire belongs to its
 * node, so an error leaves nothing behind; the socket is closed with the wire
 * at the latest when its server goes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "mb/pg_wchar.h"
#include "storage/fd.h"
#include "storage/latch.h"
#include "utils/memutils.h"

#include "../compat.h"
#include "clock.h"
#include "command.h"
#include "tls.h"
#include "wire.h"

#define MAX_REPLY 262144 /* bytes */
#define MAX_ELEMENTS 64	 /* of an array */
#define MAX_IGNORED 64	 /* replies */

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif
#ifndef POLLRDHUP
#define POLLRDHUP 0
#endif

#if HIREDIS_MAJOR >= 1
typedef size_t ElementCount;
#else
typedef int ElementCount;
#endif

slist_head wire_kept = SLIST_STATIC_INIT(wire_kept);

static uint64 last_generation = 0;

static void look_up(Wire *wire);
static bool connect_to_path(Wire *wire);
static void connect_to_next_address(Wire *wire);
static bool open_socket(Wire *wire, int family, const struct sockaddr *address,
						socklen_t len);
static void close_socket(Wire *wire);
static void look_at_connect(Wire *wire);
static void connected(Wire *wire);
static void greet(Wire *wire);
static void read_greeting(Wire *wire);
static bool take_greeting(Wire *wire, const redisReply *reply);
static bool take_run_id(Wire *wire, const redisReply *reply);
static void look_at_socket(const Wire *wire, bool *gone, bool *data);
static redisReply *next_reply(Wire *wire, bool read);
static void *create_array(const redisReadTask *task, ElementCount elements);
static void fail_by_context(Wire *wire);

bool
wire_has_tls(void)
{
	return tls_available();
}

/* ---------------------------------------------------------------------------
 * Opening
 * ---------------------------------------------------------------------------
 */

Wire *
wire_open(RedisNode *node)
{
	Server *server = node->server;
	Wire *wire;

	if (node->wire != NULL)
		wire_close(node->wire, false);
	wire = MemoryContextAllocZero(server->context, sizeof(Wire));
	wire->node = node;
	wire->server = server;
	wire->fd = -1;
	wire->generation = ++last_generation;
	wire->fresh = true;
	wire->deadline = clock_now() +
		server->options.connect_timeout * USECS_PER_MSEC;
	node->wire = wire;
	node->run_id[0] = '\0';

	if (node->address.path != NULL)
	{
		wire->state = WIRE_CONNECTING;
		if (connect_to_path(wire))
			look_at_connect(wire);
	}
	else
	{
		const char *problem = NULL;

		wire->state = WIRE_RESOLVING;
		wire->resolver = resolver_start(node->address.host, node->address.port,
										&problem);
		if (wire->resolver == NULL)
			wire_fail(wire, "%s", problem);
		else
			look_up(wire);
	}
	return wire;
}

void
wire_step(Wire *wire)
{
	if (wire->state == WIRE_RESOLVING)
		look_up(wire);
	else if (wire->state == WIRE_CONNECTING)
		look_at_connect(wire);
	if (wire->state == WIRE_GREETING)
		read_greeting(wire);
	if (wire->state < WIRE_READY && clock_now() >= wire->deadline)
		wire_fail(wire,
				  wire->state == WIRE_RESOLVING
					  ? "name not resolved within %d ms"
					  : "no connection within %d ms",
				  wire->server->options.connect_timeout);
}

static void
look_up(Wire *wire)
{
	const char *problem = NULL;

	switch (resolver_check(wire->resolver, &wire->addresses, &problem))
	{
		case RESOLVER_PENDING:
			return;
		case RESOLVER_FAILED:
			wire->resolver = NULL;
			wire_fail(wire, "name not resolved: %s", problem);
			return;
		case RESOLVER_DONE:
			wire->resolver = NULL;
			wire->address = wire->addresses;
			wire->state = WIRE_CONNECTING;
			connect_to_next_address(wire);
			return;
	}
}

static bool
connect_to_path(Wire *wire)
{
	struct sockaddr_un address;

	memset(&address, 0, sizeof(address));
	address.sun_family = AF_UNIX;
	strlcpy(address.sun_path, wire->node->address.path,
			sizeof(address.sun_path));
	return open_socket(wire, AF_UNIX, (struct sockaddr *) &address,
					   sizeof(address));
}

/* Tries the addresses of a name in turn; the last problem is the one told. */
static void
connect_to_next_address(Wire *wire)
{
	while (wire->address != NULL)
	{
		struct addrinfo *address = wire->address;

		wire->address = address->ai_next;
		wire->state = WIRE_CONNECTING;
		if (open_socket(wire, address->ai_family, address->ai_addr,
						address->ai_addrlen))
		{
			look_at_connect(wire);
			return;
		}
	}
	if (wire->state != WIRE_FAILED)
		wire_fail(wire, "has no address");
}

/* Begins to connect.  false: failed. */
static bool
open_socket(Wire *wire, int family, const struct sockaddr *address,
			socklen_t len)
{
	int on = 1;
	int flags;

	if (!AcquireExternalFD())
	{
		wire_fail(wire, "could not be connected to: too many open files");
		return false;
	}
	wire->fd = socket(family, SOCK_STREAM, 0);
	if (wire->fd < 0)
	{
		int error = errno;

		ReleaseExternalFD();
		wire_fail(wire, "could not be connected to: %s", strerror(error));
		return false;
	}
	flags = fcntl(wire->fd, F_GETFL);
	if (flags < 0 || fcntl(wire->fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
		fcntl(wire->fd, F_SETFD, FD_CLOEXEC) < 0)
	{
		wire_fail(wire, "could not be connected to: %s", strerror(errno));
		return false;
	}
	if (family != AF_UNIX)
	{
		/* without them it is slower, or is found dead later */
		(void) setsockopt(wire->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		(void) setsockopt(wire->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	}
	if (connect(wire->fd, address, len) < 0 && errno != EINPROGRESS &&
		errno != EINTR)
	{
		wire_fail(wire, "could not be connected to: %s", strerror(errno));
		return false;
	}
	return true;
}

static void
close_socket(Wire *wire)
{
	if (wire->redis != NULL)
		redisFree(wire->redis); /* and the socket with it */
	else if (wire->fd >= 0)
		close(wire->fd);
	wire->redis = NULL;
	wire->tls = NULL;
	if (wire->fd >= 0)
		ReleaseExternalFD();
	wire->fd = -1;
}

static void
look_at_connect(Wire *wire)
{
	struct pollfd ready = {.fd = wire->fd, .events = POLLOUT};
	int error = 0;
	socklen_t len = sizeof(error);

	if (poll(&ready, 1, 0) <= 0)
		return;
	if (getsockopt(wire->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		error = errno;
	if (error == 0)
		connected(wire);
	else
	{
		wire_fail(wire, "could not be connected to: %s", strerror(error));
		connect_to_next_address(wire);
	}
}

/* The socket is; log in, choose the database, ask who is there. */
static void
connected(Wire *wire)
{
	static redisReplyObjectFunctions functions;

	wire->redis = redisConnectFd(wire->fd);
	if (wire->redis == NULL || wire->redis->err != 0)
	{
		wire_fail(wire, "could not be connected to: out of memory");
		return;
	}
	wire->redis->flags &= ~REDIS_BLOCK;
	functions = *wire->redis->reader->fn;
	functions.createArray = create_array;
	wire->redis->reader->fn = &functions;

	if (wire->server->options.tls && !tls_start(wire))
		return;
	wire->state = WIRE_GREETING;
	greet(wire);
}

static void
greet(Wire *wire)
{
	Options *options = &wire->server->options;
	StringInfoData data;
	char number[16];

	initStringInfo(&data);
	if (options->password != NULL)
	{
		if (options->user != NULL)
			command_append(&data, 3, "AUTH", options->user, options->password);
		else
			command_append(&data, 2, "AUTH", options->password);
		wire->greetings[wire->ngreetings++] = GREETING_AUTH;
	}
	if (options->database != 0)
	{
		snprintf(number, sizeof(number), "%d", options->database);
		command_append(&data, 2, "SELECT", number);
		wire->greetings[wire->ngreetings++] = GREETING_SELECT;
	}
	if (wire->server->nnodes > 1)
	{
		command_append(&data, 2, "INFO", "server");
		wire->greetings[wire->ngreetings++] = GREETING_INFO;
	}
	if (data.len > 0)
	{
		bool sent = wire_send(wire, data.data, data.len);

		explicit_bzero(data.data, data.len);
		pfree(data.data);
		wire->owed = false;
		if (!sent)
			return;
	}
	read_greeting(wire);
}

static void
read_greeting(Wire *wire)
{
	bool read = true;

	wire_flush(wire);
	while (wire->state == WIRE_GREETING && wire->greeted < wire->ngreetings)
	{
		redisReply *reply = next_reply(wire, read);

		if (reply == NULL)
			return;
		/* the next one is in the buffer already, or we come again */
		read = false;
		if (take_greeting(wire, reply))
			wire->greeted++;
		freeReplyObject(reply);
	}
	if (wire->state == WIRE_GREETING)
		wire->state = WIRE_READY;
}

static bool
take_greeting(Wire *wire, const redisReply *reply)
{
	Greeting greeting = wire->greetings[wire->greeted];
	char text[PROBLEM_SIZE - 40];

	if (greeting == GREETING_INFO)
		return take_run_id(wire, reply);
	if (reply->type == REDIS_REPLY_STATUS)
		return true;
	if (reply->type != REDIS_REPLY_ERROR)
	{
		wire_fail(wire, "does not answer like a Redis server");
		return false;
	}
	wire_describe_error(reply, wire->server->options.password, wire->word,
						sizeof(wire->word), text, sizeof(text));
	wire_fail(wire, "%s: %s",
			  greeting == GREETING_AUTH ? "login refused" : "database refused",
			  text);
	wire->answered = true;
	return false;
}

/*
 * Two nodes of a server must be two Redis processes, or one of them would
 * have two votes.  Who may not ask for INFO is believed.
 */
static bool
take_run_id(Wire *wire, const redisReply *reply)
{
	RedisNode *node = wire->node;
	const char *place;
	size_t len;

#ifdef REDIS_REPLY_VERB
	if (reply->type != REDIS_REPLY_STRING && reply->type != REDIS_REPLY_VERB)
#else
	if (reply->type != REDIS_REPLY_STRING)
#endif
		return true;
	place = strstr(reply->str, "\nrun_id:");
	if (place == NULL)
		return true;
	place += strlen("\nrun_id:");
	len = strspn(place, "0123456789abcdef");
	if (len != RUN_ID_LENGTH)
		return true;
	for (int i = 0; i < wire->server->nnodes; i++)
	{
		RedisNode *other = &wire->server->nodes[i];

		if (other != node && !node->redirect &&
			strncmp(other->run_id, place, RUN_ID_LENGTH) == 0)
		{
			wire_fail(wire, "is the same server as %s", other->address.name);
			return false;
		}
	}
	memcpy(node->run_id, place, RUN_ID_LENGTH);
	node->run_id[RUN_ID_LENGTH] = '\0';
	return true;
}

/* ---------------------------------------------------------------------------
 * Talking
 * ---------------------------------------------------------------------------
 */

uint32
wire_events(const Wire *wire)
{
	switch (wire->state)
	{
		case WIRE_RESOLVING:
		case WIRE_FAILED:
			return 0;
		case WIRE_CONNECTING:
			return WL_SOCKET_WRITEABLE;
		case WIRE_GREETING:
		case WIRE_READY:
			/*
			 * What TLS has not written yet is mostly waiting for the other
			 * side's part of the handshake; our commands fit any buffer.
			 */
			if (sdslen(wire->redis->obuf) > 0 && wire->tls == NULL)
				return WL_SOCKET_READABLE | WL_SOCKET_WRITEABLE;
			return WL_SOCKET_READABLE;
	}
	return 0;
}

/*
 * What the socket says: has the other side closed it (also behind data that
 * has not been read yet, where the system can tell), is there data?
 */
static void
look_at_socket(const Wire *wire, bool *gone, bool *data)
{
	struct pollfd ready = {.fd = wire->fd, .events = POLLIN | POLLRDHUP};
	char byte;

	*gone = *data = false;
	if (poll(&ready, 1, 0) <= 0)
		return;
	*gone = (ready.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0 ||
		recv(wire->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
	*data = !*gone;
}

bool
wire_alive(Wire *wire)
{
	bool gone;
	bool data;

	if (wire->state == WIRE_FAILED || wire->owed)
		return false;
	if (wire->state != WIRE_READY)
		return clock_now() < wire->deadline;
	if (wire->ignored > MAX_IGNORED ||
		(wire->ignored > 0 &&
		 clock_now() > wire->ignored_since +
				 wire->server->options.command_timeout * USECS_PER_MSEC))
		return false;
	/* a TLS server may send tickets when it likes */
	look_at_socket(wire, &gone, &data);
	return !gone && (wire->ignored > 0 || wire->tls != NULL || !data);
}

bool
wire_send(Wire *wire, const char *data, size_t len)
{
	wire->owed = true;
	if (redisAppendFormattedCommand(wire->redis, data, len) != REDIS_OK)
	{
		fail_by_context(wire);
		return false;
	}
	wire_flush(wire);
	return wire->state != WIRE_FAILED;
}

void
wire_flush(Wire *wire)
{
	int done;

	if (wire->redis != NULL && sdslen(wire->redis->obuf) > 0 &&
		redisBufferWrite(wire->redis, &done) != REDIS_OK)
		fail_by_context(wire);
}

redisReply *
wire_receive(Wire *wire, bool read)
{
	while (wire->state == WIRE_READY)
	{
		redisReply *reply = next_reply(wire, read);

		if (reply == NULL)
			return NULL;
		if (wire->ignored == 0)
		{
			wire->owed = false;
			wire->fresh = false;
			return reply;
		}
		freeReplyObject(reply);
		wire->ignored--;
		read = false;
	}
	return NULL;
}

bool
wire_send_and_forget(Wire *wire, const char *data, size_t len)
{
	bool gone;
	bool has_data;

	if (wire->state != WIRE_READY)
		return false;

	/* what goes to a peer that is gone is lost without a word */
	look_at_socket(wire, &gone, &has_data);
	if (gone)
	{
		wire->eof = true;
		wire_fail(wire, "closed the connection");
		return false;
	}
	wire_flush(wire);
	if (wire->state != WIRE_READY || sdslen(wire->redis->obuf) > 0)
		return false;
	if (wire->tls != NULL)
	{
		int done = 0;

		if (redisAppendFormattedCommand(wire->redis, data, len) != REDIS_OK ||
			redisBufferWrite(wire->redis, &done) != REDIS_OK || !done)
		{
			fail_by_context(wire);
			return false;
		}
	}
	else
	{
		ssize_t n = send(wire->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 || (size_t) n != len)
		{
			/* half a command: nothing more can be said here */
			wire_fail(wire, "takes no more data");
			return false;
		}
	}
	if (wire->ignored++ == 0)
		wire->ignored_since = clock_now();
	return true;
}

void
wire_send_later(Wire *wire, const char *data, size_t len)
{
	if (wire->state != WIRE_READY)
		return;
	if (redisAppendFormattedCommand(wire->redis, data, len) != REDIS_OK)
	{
		fail_by_context(wire);
		return;
	}
	if (wire->ignored++ == 0)
		wire->ignored_since = clock_now();
}

void
wire_ignore_owed(Wire *wire)
{
	if (!wire->owed)
		return;
	wire->owed = false;
	if (wire->ignored++ == 0)
		wire->ignored_since = clock_now();
}

/*
 * The next reply, whosever it is.  NULL if there is none (yet); then the
 * connection may have failed.
 */
static redisReply *
next_reply(Wire *wire, bool read)
{
	for (;;)
	{
		void *reply = NULL;

		if (redisGetReplyFromReader(wire->redis, &reply) != REDIS_OK)
		{
			fail_by_context(wire);
			return NULL;
		}
		if (reply != NULL)
			return reply;
		if (!read)
			return NULL;
		read = false;
		if (redisBufferRead(wire->redis) != REDIS_OK)
		{
			fail_by_context(wire);
			return NULL;
		}
		if (wire->redis->reader->len - wire->redis->reader->pos > MAX_REPLY)
		{
			wire_fail(wire, "sends a reply that is too long");
			return NULL;
		}
	}
}

/* For hiredis: an array of what size it may be. */
static void *
create_array(const redisReadTask *task, ElementCount elements)
{
	redisReply *reply;

	if (elements > MAX_ELEMENTS)
		return NULL;
	reply = calloc(1, sizeof(redisReply));
	if (reply == NULL)
		return NULL;
	reply->type = REDIS_REPLY_ARRAY;
	if (elements > 0)
	{
		reply->element = calloc(elements, sizeof(redisReply *));
		if (reply->element == NULL)
		{
			free(reply);
			return NULL;
		}
	}
	reply->elements = elements;
	if (task->parent != NULL)
	{
		redisReply *parent = task->parent->obj;

		parent->element[task->idx] = reply;
	}
	return reply;
}

/* ---------------------------------------------------------------------------
 * Failing and closing
 * ---------------------------------------------------------------------------
 */

void
wire_fail(Wire *wire, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(wire->problem, sizeof(wire->problem), format, args);
	va_end(args);
	close_socket(wire);
	wire->state = WIRE_FAILED;
}

static void
fail_by_context(Wire *wire)
{
	redisContext *redis = wire->redis;
	int error = errno;

	switch (redis->err)
	{
		case REDIS_ERR_EOF:
			wire->eof = true;
			wire_fail(wire, "closed the connection");
			break;
		case REDIS_ERR_PROTOCOL:
			wire_fail(wire, "does not speak the Redis protocol");
			break;
		case REDIS_ERR_OOM:
			wire_fail(wire, "sends a reply that is too long");
			break;
		default:
			if (tls_problem(wire))
				break;
			wire->eof = error == EPIPE || error == ECONNRESET;
			wire_fail(wire, "connection lost: %s", strerror(error));
			break;
	}
}

void
wire_describe_error(const redisReply *reply, const char *secret, char *word,
					size_t word_size, char *text, size_t text_size)
{
	const char *message = reply->str;
	size_t len = strcspn(message, " ");
	char *end;

	/* an error's first word is its kind */
	strlcpy(word, message, Min(len + 1, word_size));
	/* within a script it calls itself ERR */
	if (strstr(message, "executing the script can't") != NULL ||
		strstr(message, "no permissions to") != NULL)
		strlcpy(word, "NOPERM", word_size);
	if (secret != NULL && *secret != '\0' && strstr(message, secret) != NULL)
		message = word;

	strlcpy(text, message, text_size);
	for (end = text; *end != '\0'; end++)
		if ((unsigned char) *end < ' ' || (unsigned char) *end > '~')
			*end = '?';
}

void
wire_close(Wire *wire, bool keep)
{
	RedisNode *node = wire->node;

	if (node != NULL && node->wire == wire)
		node->wire = NULL;
	if (keep && wire->state == WIRE_READY)
	{
		wire->ignored += wire->owed ? 1 : 0;
		wire->owed = false;
		slist_push_head(&wire_kept, &wire->link);
		return;
	}
	if (wire->resolver != NULL)
		resolver_drop(wire->resolver);
	wire->resolver = NULL;
	if (wire->addresses != NULL)
		freeaddrinfo(wire->addresses);
	wire->addresses = NULL;
	close_socket(wire);
	pfree(wire);
}

void
wire_close_kept(void)
{
	while (!slist_is_empty(&wire_kept))
	{
		Wire *wire = slist_container(Wire, link,
									 slist_pop_head_node(&wire_kept));

		wire_close(wire, false);
	}
}
