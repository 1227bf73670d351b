/*-------------------------------------------------------------------------
 *
 * plain.c
 *		What acquire and release cost without PostgreSQL: the same scripts on
 *		the same server, by blocking hiredis.
 *
 * plain PORT COUNT: prints the microseconds that one pair took.
 *
 *-------------------------------------------------------------------------
 */
#include <hiredis/hiredis.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../src/redis/scripts.h"

#define RESOURCES 500

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static void
fail(const char *what)
{
	fprintf(stderr, "plain: %s\n", what);
	exit(1);
}

static char *
load(redisContext *redis, const char *source)
{
	redisReply *reply = redisCommand(redis, "SCRIPT LOAD %s", source);
	char *hash;

	if (reply == NULL || reply->type != REDIS_REPLY_STRING)
		fail("SCRIPT LOAD failed");
	hash = strdup(reply->str);
	freeReplyObject(reply);
	return hash;
}

int
main(int argc, char **argv)
{
	redisContext *redis;
	char *acquire;
	char *release;
	double begun;
	int count;

	if (argc != 3)
		fail("usage: plain PORT COUNT");
	redis = redisConnect("127.0.0.1", atoi(argv[1]));
	if (redis == NULL || redis->err != 0)
		fail("no connection");
	count = atoi(argv[2]);
	acquire = load(redis, ACQUIRE_SOURCE);
	release = load(redis, RELEASE_SOURCE);

	begun = now();
	for (int i = 0; i < count; i++)
	{
		redisReply *reply =
			redisCommand(redis, "EVALSHA %s 2 lock:p%d fence:p%d %s 30000",
						 acquire, i % RESOURCES, i % RESOURCES,
						 "0123456789abcdef0123456789abcdef");
		char token[32];

		if (reply == NULL || reply->type != REDIS_REPLY_ARRAY ||
			reply->element[0]->integer != 1)
			fail("not granted");
		snprintf(token, sizeof(token), "%s", reply->element[1]->str);
		freeReplyObject(reply);
		reply = redisCommand(redis, "EVALSHA %s 2 lock:p%d fence:p%d %s %s",
							 release, i % RESOURCES, i % RESOURCES,
							 "0123456789abcdef0123456789abcdef", token);
		if (reply == NULL || reply->type != REDIS_REPLY_INTEGER ||
			reply->integer != 1)
			fail("not released");
		freeReplyObject(reply);
	}
	printf("%.2f\n", (now() - begun) / count);
	return 0;
}
