/*-------------------------------------------------------------------------
 *
 * option.c
 *		Options of servers and user mappings.
 *
 * One table says which options there are and where they belong; the validator
 * and the reader of a connection's options use the same code, so what was
 * accepted can be read.
 *
 * What a user mapping holds is hidden from other users; what a server holds is
 * not.  So a password in a server's options is refused, and no message ever
 * has the value of a mapping's option in it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/reloptions.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"

#include "../compat.h"
#include "option.h"
#include "refusal.h"
#include "wire.h"

#define MAX_PREFIX 64		   /* bytes */
#define MAX_TIMEOUT 3600000	   /* ms */
#define MAX_DATABASE 1000000   /* servers have their own, lower limit */
#define MAX_SECRET (64 * 1024) /* bytes of a password */

typedef enum OptionKind
{
	OPTION_NODES,
	OPTION_INTEGER,
	OPTION_MILLISECONDS,
	OPTION_BOOLEAN,
	OPTION_PREFIX,
	OPTION_TEXT
} OptionKind;

typedef struct OptionDefinition
{
	const char *name;
	Oid catalog; /* what it belongs to */
	OptionKind kind;
	size_t offset; /* in Options */
	int min;
	int max;
} OptionDefinition;

#define SERVER_OPTION(name, kind, field, min, max)                            \
	{                                                                         \
		name, ForeignServerRelationId, kind, offsetof(Options, field), min,   \
			max                                                               \
	}
#define MAPPING_OPTION(name, kind, field, min, max)                           \
	{                                                                         \
		name, UserMappingRelationId, kind, offsetof(Options, field), min, max \
	}

static const OptionDefinition definitions[] =
	{SERVER_OPTION("nodes", OPTION_NODES, addresses, 0, 0),
	 SERVER_OPTION("database", OPTION_INTEGER, database, 0, MAX_DATABASE),
	 SERVER_OPTION("connect_timeout", OPTION_MILLISECONDS, connect_timeout, 1,
				   MAX_TIMEOUT),
	 SERVER_OPTION("command_timeout", OPTION_MILLISECONDS, command_timeout, 1,
				   MAX_TIMEOUT),
	 SERVER_OPTION("lock_prefix", OPTION_PREFIX, lock_prefix, 0, MAX_PREFIX),
	 SERVER_OPTION("token_prefix", OPTION_PREFIX, token_prefix, 0, MAX_PREFIX),
	 SERVER_OPTION("hash_tag", OPTION_BOOLEAN, hash_tag, 0, 0),
	 SERVER_OPTION("replicas", OPTION_INTEGER, replicas, 0, 1000),
	 SERVER_OPTION("replica_timeout", OPTION_MILLISECONDS, replica_timeout, 1,
				   MAX_TIMEOUT),
	 SERVER_OPTION("tls", OPTION_BOOLEAN, tls, 0, 0),
	 SERVER_OPTION("tls_ca", OPTION_TEXT, tls_ca, 1, MAXPGPATH),
	 SERVER_OPTION("tls_cert", OPTION_TEXT, tls_cert, 1, MAXPGPATH),
	 SERVER_OPTION("tls_key", OPTION_TEXT, tls_key, 1, MAXPGPATH),
	 MAPPING_OPTION("user", OPTION_TEXT, user, 1, MAX_SECRET),
	 MAPPING_OPTION("password", OPTION_TEXT, password, 1, MAX_SECRET),
	 MAPPING_OPTION("password_required", OPTION_BOOLEAN, password_required, 0,
					0)};

FENCING_FUNCTION(fencing_redis_validator);

static const OptionDefinition *find_option(const char *name, Oid catalog);
static void unknown_option(const char *name, Oid catalog);
static void set_defaults(Options *options);
static void read_option(const OptionDefinition *definition, DefElem *def,
						Options *options);
static void read_nodes(const char *value, Options *options);
static void check_together(const Options *options);
static bool is_prefix(const char *prefix, const char *text);

/* fencing_redis.validator(options, catalog) */
Datum
fencing_redis_validator(PG_FUNCTION_ARGS)
{
	List *list = untransformRelOptions(PG_GETARG_DATUM(0));
	Oid catalog = PG_GETARG_OID(1);
	Options options;
	ListCell *cell;

	set_defaults(&options);
	foreach(cell, list)
	{
		DefElem *def = lfirst_node(DefElem, cell);
		const OptionDefinition *definition = find_option(def->defname,
														 catalog);

		if (definition == NULL)
			unknown_option(def->defname, catalog);
		read_option(definition, def, &options);
	}

	if (catalog == ForeignServerRelationId)
		check_together(&options);
	else if (!options.password_required && !superuser())
		refuse_password_not_required();
	PG_RETURN_VOID();
}

void
option_read(List *server, List *mapping, Options *options)
{
	ListCell *cell;

	set_defaults(options);
	foreach(cell, server)
	{
		DefElem *def = lfirst_node(DefElem, cell);
		const OptionDefinition
			*definition = find_option(def->defname, ForeignServerRelationId);

		if (definition == NULL)
			unknown_option(def->defname, ForeignServerRelationId);
		read_option(definition, def, options);
	}
	foreach(cell, mapping)
	{
		DefElem *def = lfirst_node(DefElem, cell);
		const OptionDefinition *definition = find_option(def->defname,
														 UserMappingRelationId);

		if (definition == NULL)
			unknown_option(def->defname, UserMappingRelationId);
		read_option(definition, def, options);
	}
	check_together(options);
}

static const OptionDefinition *
find_option(const char *name, Oid catalog)
{
	for (size_t i = 0; i < lengthof(definitions); i++)
		if (definitions[i].catalog == catalog &&
			strcmp(definitions[i].name, name) == 0)
			return &definitions[i];
	return NULL;
}

static void
unknown_option(const char *name, Oid catalog)
{
	StringInfoData valid;

	initStringInfo(&valid);
	for (size_t i = 0; i < lengthof(definitions); i++)
		if (definitions[i].catalog == catalog)
			appendStringInfo(&valid, "%s%s", valid.len > 0 ? ", " : "",
							 definitions[i].name);
	refuse_unknown_option(name, valid.data,
						  catalog == ForeignServerRelationId &&
							  find_option(name, UserMappingRelationId));
}

static void
set_defaults(Options *options)
{
	memset(options, 0, sizeof(*options));
	options->connect_timeout = 1000;
	options->command_timeout = 1000;
	options->replica_timeout = 100;
	options->lock_prefix = "lock:";
	options->token_prefix = "fence:";
	options->password_required = true;
}

static void
read_option(const OptionDefinition *definition, DefElem *def, Options *options)
{
	char *value = defGetString(def);
	char *field = (char *) options + definition->offset;
	const char *hint = NULL;
	int number;
	bool flag;

	switch (definition->kind)
	{
		case OPTION_NODES:
			read_nodes(value, options);
			break;
		case OPTION_INTEGER:
		case OPTION_MILLISECONDS:
			if (!parse_int(value, &number,
						   definition->kind == OPTION_INTEGER ? 0
															  : GUC_UNIT_MS,
						   &hint) ||
				number < definition->min || number > definition->max)
				refuse_option_number(definition->name, value, definition->min,
									 definition->max,
									 definition->kind == OPTION_MILLISECONDS);
			*(int *) field = number;
			break;
		case OPTION_BOOLEAN:
			if (!parse_bool(value, &flag))
				refuse_option(definition->name, value, "is not a boolean",
							  "Write true or false.");
			if (definition->offset == offsetof(Options, tls) && flag &&
				!wire_has_tls())
				refuse_no_tls();
			*(bool *) field = flag;
			break;
		case OPTION_PREFIX:
			if (strlen(value) > (size_t) definition->max)
				refuse_option(definition->name, value, "is too long",
							  "A prefix may have up to 64 bytes.");
			*(char **) field = pstrdup(value);
			break;
		case OPTION_TEXT:
			if (strlen(value) < (size_t) definition->min ||
				strlen(value) > (size_t) definition->max)
				refuse_option(definition->name, NULL,
							  *value == '\0' ? "is empty" : "is too long",
							  "Leave it out where there is none.");
			*(char **) field = pstrdup(value);
			break;
	}
}

/* A list like "10.0.0.1:6379, [::1]:6380, /run/redis/redis.sock". */
static void
read_nodes(const char *value, Options *options)
{
	const char *p = value;

	for (;;)
	{
		const char *end = strchr(p, ',');
		const char *next;
		const char *problem;
		Address *address = &options->addresses[options->naddresses];

		if (end == NULL)
			end = p + strlen(p);
		next = end;
		while (p < end && isspace((unsigned char) *p))
			p++;
		while (end > p && isspace((unsigned char) end[-1]))
			end--;
		if (options->naddresses == MAX_NODES)
			refuse_option("nodes", value, "names too many nodes",
						  "There may be up to 31.");
		if (!option_address(p, end, address, &problem))
			refuse_option("nodes", value, problem,
						  "Write host:port, [IPv6 address]:port, or the path of a socket; separate several with commas.");
		for (int i = 0; i < options->naddresses; i++)
			if (pg_strcasecmp(options->addresses[i].name, address->name) == 0)
				refuse_option("nodes", value, "names a node twice",
							  "Each node has one vote: name each server process once.");
		options->naddresses++;
		if (*next == '\0')
			break;
		p = next + 1;
	}
}

bool
option_address(const char *text, const char *end, Address *address,
			   const char **problem)
{
	const char *colon = NULL;
	const char *host_end = end;
	int len;

	memset(address, 0, sizeof(*address));
	address->port = DEFAULT_PORT;
	if (text == end)
	{
		*problem = "has an empty entry";
		return false;
	}
	if (end - text > 255)
	{
		*problem = "has an entry that is too long";
		return false;
	}
	for (const char *p = text; p < end; p++)
		if ((unsigned char) *p <= ' ' || *p == 0x7f)
		{
			*problem = "has a space or a control character in an entry";
			return false;
		}
	if (*text == '/')
	{
		if (end - text > 100)
		{
			*problem = "has a socket path that is too long";
			return false;
		}
		address->path = pnstrdup(text, end - text);
		address->name = address->path;
		return true;
	}

	if (*text == '[')
	{
		host_end = memchr(text, ']', end - text);
		if (host_end == NULL || (host_end + 1 < end && host_end[1] != ':'))
		{
			*problem = "has a bracket without its counterpart";
			return false;
		}
		colon = host_end + 1 < end ? host_end + 1 : NULL;
		text++;
		if (memchr(text, ':', host_end - text) == NULL)
		{
			*problem = "has brackets around what is no IPv6 address";
			return false;
		}
	}
	else
	{
		colon = memchr(text, ':', end - text);
		if (colon != NULL)
		{
			if (memchr(colon + 1, ':', end - colon - 1) != NULL)
			{
				*problem = "has an IPv6 address without brackets";
				return false;
			}
			host_end = colon;
		}
	}
	len = host_end - text;
	if (len == 0)
	{
		*problem = "has an entry without a host";
		return false;
	}
	if (colon != NULL)
	{
		int port = 0;

		for (const char *p = colon + 1; p < end && port <= 65535; p++)
			port = isdigit((unsigned char) *p) ? port * 10 + (*p - '0')
											   : 65536;
		if (port < 1 || port > 65535)
		{
			*problem = "has a port that is not a number from 1 to 65535";
			return false;
		}
		address->port = port;
	}
	address->host = pnstrdup(text, len);
	address->name = psprintf(strchr(address->host, ':') ? "[%s]:%d" : "%s:%d",
							 address->host, address->port);
	return true;
}

/* What does not depend on one option alone. */
static void
check_together(const Options *options)
{
	const char *lock = options->lock_prefix;
	const char *token = options->token_prefix;

	if (options->naddresses == 0)
		refuse_option("nodes", NULL, "is missing",
					  "Say where Redis listens: OPTIONS (nodes 'host:port').");
	if (strcmp(lock, token) == 0 ||
		(*lock != '\0' && *token != '\0' &&
		 (is_prefix(lock, token) || is_prefix(token, lock))))
		refuse_option("token_prefix", token,
					  "and lock_prefix make the same key of two resources",
					  "Neither may begin with the other.");
	if (options->hash_tag && (strpbrk(lock, "{}") || strpbrk(token, "{}")))
		refuse_option(strpbrk(lock, "{}") ? "lock_prefix" : "token_prefix",
					  strpbrk(lock, "{}") ? lock : token,
					  "has a brace, and hash_tag is on",
					  "The hash tag is the resource's name; leave one of the two out.");
	if (!options->tls &&
		(options->tls_ca || options->tls_cert || options->tls_key))
		refuse_option(options->tls_ca		  ? "tls_ca"
						  : options->tls_cert ? "tls_cert"
											  : "tls_key",
					  NULL, "is set, and tls is not on", "Add tls 'true'.");
	if ((options->tls_cert == NULL) != (options->tls_key == NULL))
		refuse_option(options->tls_cert ? "tls_cert" : "tls_key", NULL,
					  "is of no use alone",
					  "A certificate and its key go together.");
}

static bool
is_prefix(const char *prefix, const char *text)
{
	return strncmp(prefix, text, strlen(prefix)) == 0;
}
