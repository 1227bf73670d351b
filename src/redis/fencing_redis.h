/*-------------------------------------------------------------------------
 *
 * fencing_redis.h
 *		Arguments that several of the SQL functions have.
 *
 * The library's own names are hidden, so they need no common prefix; what the
 * server looks up by name begins with fencing_redis_.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FENCING_REDIS_H
#define FENCING_REDIS_H

#include "fmgr.h"

#include "server.h"

/*
 * Each raises 22023 for a value that is not allowed, NULL included, and sends
 * nothing.  Texts are allocated in the current context.
 */
extern char *arg_name(FunctionCallInfo fcinfo, int argno, const char *name,
					  bool null_allowed);
extern Server *arg_server(FunctionCallInfo fcinfo, int argno);
extern int64 arg_milliseconds(FunctionCallInfo fcinfo, int argno,
							  const char *name, bool zero_allowed);

extern void lease_init(void);

#endif /* FENCING_REDIS_H */
