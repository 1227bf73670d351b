/*-------------------------------------------------------------------------
 *
 * options.c
 *		Fuzz target: options of servers and user mappings of fencing_redis.
 *
 * Input: "name=value" lines, those of the user mapping behind an empty line.
 * Options that are accepted can be written out in full and read the same, and
 * what a mapping says secretly is in no message.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/defrem.h"
#include "lib/stringinfo.h"
#include "nodes/value.h"
#include "utils/builtins.h"

#include "fuzz.h"
#include "redis/option.h"
#include "redis/wire.h"

#define MAX_OPTIONS 32

typedef struct Definitions
{
	List *list;
	ListCell cells[MAX_OPTIONS];
	DefElem elements[MAX_OPTIONS];
	String values[MAX_OPTIONS];
} Definitions;

/* The server reads all of these from SQL as strings. */
char *
defGetString(DefElem *def)
{
	return strVal(def->arg);
}

bool
wire_has_tls(void)
{
	return true;
}

static void
add(Definitions *defs, char *name, char *value)
{
	int n = defs->list->length;

	if (n == MAX_OPTIONS)
		return;
	defs->values[n].type = T_String;
	defs->values[n].sval = value;
	defs->elements[n].type = T_DefElem;
	defs->elements[n].defname = name;
	defs->elements[n].arg = (Node *) &defs->values[n];
	defs->cells[n].ptr_value = &defs->elements[n];
	defs->list->length = n + 1;
}

static Definitions *
none(void)
{
	Definitions *defs = palloc0(sizeof(Definitions));

	defs->list = palloc0(sizeof(List));
	defs->list->type = T_List;
	defs->list->max_length = MAX_OPTIONS;
	defs->list->elements = defs->cells;
	return defs;
}

static void
add_line(Definitions *defs, char *line)
{
	char *equals = strchr(line, '=');

	if (equals == NULL)
		return;
	/* each by itself, for the sanitizer */
	add(defs, pnstrdup(line, equals - line), pstrdup(equals + 1));
}

static char *
number(int n)
{
	return psprintf("%d", n);
}

static void
write_out(const Options *o, Definitions *server, Definitions *mapping)
{
	StringInfoData nodes;

	initStringInfo(&nodes);
	for (int i = 0; i < o->naddresses; i++)
		appendStringInfo(&nodes, "%s%s", i > 0 ? "," : "",
						 o->addresses[i].name);
	add(server, "nodes", nodes.data);
	add(server, "database", number(o->database));
	add(server, "connect_timeout", number(o->connect_timeout));
	add(server, "command_timeout", number(o->command_timeout));
	add(server, "lock_prefix", o->lock_prefix);
	add(server, "token_prefix", o->token_prefix);
	add(server, "hash_tag", o->hash_tag ? "true" : "false");
	add(server, "replicas", number(o->replicas));
	add(server, "replica_timeout", number(o->replica_timeout));
	add(server, "tls", o->tls ? "true" : "false");
	if (o->tls_ca)
		add(server, "tls_ca", o->tls_ca);
	if (o->tls_cert)
		add(server, "tls_cert", o->tls_cert);
	if (o->tls_key)
		add(server, "tls_key", o->tls_key);
	if (o->user)
		add(mapping, "user", o->user);
	if (o->password)
		add(mapping, "password", o->password);
	add(mapping, "password_required", o->password_required ? "true" : "false");
}

static bool
same_text(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static void
check_same(const Options *a, const Options *b)
{
	fuzz_check(a->naddresses == b->naddresses);
	for (int i = 0; i < a->naddresses; i++)
	{
		fuzz_check(same_text(a->addresses[i].name, b->addresses[i].name));
		fuzz_check(same_text(a->addresses[i].host, b->addresses[i].host));
		fuzz_check(same_text(a->addresses[i].path, b->addresses[i].path));
		fuzz_check(a->addresses[i].port == b->addresses[i].port);
	}
	fuzz_check(a->database == b->database && a->replicas == b->replicas);
	fuzz_check(a->connect_timeout == b->connect_timeout &&
			   a->command_timeout == b->command_timeout &&
			   a->replica_timeout == b->replica_timeout);
	fuzz_check(same_text(a->lock_prefix, b->lock_prefix) &&
			   same_text(a->token_prefix, b->token_prefix));
	fuzz_check(a->hash_tag == b->hash_tag && a->tls == b->tls);
	fuzz_check(same_text(a->tls_ca, b->tls_ca) &&
			   same_text(a->tls_cert, b->tls_cert) &&
			   same_text(a->tls_key, b->tls_key));
	fuzz_check(same_text(a->user, b->user) &&
			   same_text(a->password, b->password) &&
			   a->password_required == b->password_required);
}

static void
check_sane(const Options *o)
{
	fuzz_check(o->naddresses >= 1 && o->naddresses <= MAX_NODES);
	for (int i = 0; i < o->naddresses; i++)
	{
		const Address *a = &o->addresses[i];

		fuzz_check((a->host == NULL) != (a->path == NULL));
		fuzz_check(a->port >= 1 && a->port <= 65535);
		fuzz_check(a->path == NULL || strlen(a->path) <= 100);
		fuzz_check(a->host == NULL || *a->host != '\0');
	}
	fuzz_check(o->connect_timeout >= 1 && o->command_timeout >= 1 &&
			   o->replica_timeout >= 1 && o->database >= 0 &&
			   o->replicas >= 0);
}

/* A password is in no message, unless another option has it too. */
static void
check_secret(const Definitions *server, const Definitions *mapping)
{
	for (int i = 0; i < server->list->length; i++)
		if (strstr(server->values[i].sval, "secret") ||
			strstr(server->elements[i].defname, "secret"))
			return;
	for (int i = 0; i < mapping->list->length; i++)
		if (strstr(mapping->elements[i].defname, "secret") ||
			(strcmp(mapping->elements[i].defname, "password") != 0 &&
			 strstr(mapping->values[i].sval, "secret")))
			return;
	fuzz_check(strstr(fuzz_error.message, "secret") == NULL &&
			   strstr(fuzz_error.detail, "secret") == NULL &&
			   strstr(fuzz_error.hint, "secret") == NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Input in = fuzz_begin(data, size);
	Definitions *server = none();
	Definitions *mapping = none();
	Options *options = palloc(sizeof(Options));
	Options *again = palloc(sizeof(Options));
	bool secret = false;
	bool done = false;

	while (in.at < in.end)
	{
		char *line = fuzz_line(&in);

		if (*line == '\0')
			secret = true;
		else
			add_line(secret ? mapping : server, line);
	}
	if (FUZZ_TRY())
	{
		option_read(server->list, mapping->list, options);
		done = true;
	}
	if (!done)
	{
		fuzz_check(fuzz_error.message[0] != '\0');
		check_secret(server, mapping);
		return 0;
	}
	check_sane(options);
	/* with its port added, a name may have become longer than an entry may be */
	for (int i = 0; i < options->naddresses; i++)
		if (strlen(options->addresses[i].name) > 255)
			return 0;
	server = none();
	mapping = none();
	write_out(options, server, mapping);
	done = false;
	if (FUZZ_TRY())
	{
		option_read(server->list, mapping->list, again);
		done = true;
	}
	if (!done)
		fprintf(stderr, "%s; %s\n", fuzz_error.message, fuzz_error.detail);
	fuzz_check(done);
	check_same(options, again);
	return 0;
}
