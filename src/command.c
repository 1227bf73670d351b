/*-------------------------------------------------------------------------
 *
 * command.c
 *		Durable records that a request was handled, and its outcome.
 *
 * A command is begun, has its effect, and is finished.  Its record is a row of
 * fencing.command_records, found by an identifier made of scope and key.
 *
 * - In one step: begin, effect and finish are one transaction.  The row is
 *   written once, by finish.  What keeps a duplicate out before that is a
 *   heavyweight lock on the identifier.  What was begun is remembered here; a
 *   commit that would leave it unfinished is refused, since nobody could tell
 *   later whether its effect is there.
 * - In two steps, for an effect outside of the database: begin writes the row
 *   as pending, with a token and a time, and is committed.  finish, in another
 *   transaction, needs the token.  When the time is over, another begin takes
 *   the command over, with a larger token, and the first worker's finish is
 *   stale.
 *
 * A duplicate waits for the transaction that has written the row, if that is
 * still running, and for the lock, and looks again; always at the newest state,
 * whatever its isolation level.  The lock is held while a function writes, and
 * from begin to finish of a command in one step; then the row that is not
 * committed yet does its work, so that a transaction over many commands does
 * not fill the lock table.  Nobody writes without the lock, so there is no
 * unique violation to meet.  The exception is a row that this transaction has
 * written: those who wait for its end may have the lock, and nobody else can
 * change the row.
 *
 * Tokens come from the database's issuer; the lock keeps their order for each
 * command, so they need no row in fencing.issued.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"

#include "claim.h"
#include "command.h"
#include "digest.h"
#include "duration.h"
#include "issuer.h"
#include "refuse.h"
#include "store.h"

#define COMMAND_LOCKMODE ExclusiveLock

/* Values of the column "state". */
#define STATE_PENDING "pending"
#define STATE_DONE "done"

/* Scope, key, and what follows from them. */
typedef struct CommandName
{
	ResourceName scope;
	ResourceName key;
	pg_uuid_t id;
	LOCKTAG tag;
} CommandName;

/* A command that this transaction has begun, in TopTransactionContext. */
typedef struct Begun
{
	slist_node node;
	SubTransactionId subid;		  /* goes with this subtransaction */
	SubTransactionId finished_in; /* invalid while it is not */
	bool stored;				  /* it has a row, since it was taken over */
	bool has_digest;
	uint8 digest[REQUEST_DIGEST_LENGTH]; /* of the request */
	int64 token;
	int32 attempts;
	TimestampTz begun_at;
	CommandName name;
} Begun;

/* A row of the table. */
typedef struct Record
{
	int64 token;
	bool done;
	bool has_digest;
	uint8 digest[REQUEST_DIGEST_LENGTH];
	Jsonb *outcome; /* NULL while pending */
	int32 attempts;
	TimestampTz takeover_at;
} Record;

/* What begin_command and find_command answer. */
typedef struct Answer
{
	const char *state; /* NULL: there is no such command */
	Jsonb *outcome;
	int64 token; /* 0: none for this caller */
	int32 attempts;
} Answer;

static slist_head begun = SLIST_STATIC_INIT(begun);

FENCING_FUNCTION(fencing_begin_command);
FENCING_FUNCTION(fencing_finish_command);
FENCING_FUNCTION(fencing_find_command);
FENCING_FUNCTION(fencing_purge_commands);

static void read_name(FunctionCallInfo fcinfo, CommandName *name);
static void read_part(FunctionCallInfo fcinfo, int argno, const char *what,
					  ResourceName *part);
static bool read_settled(Store *store, const CommandName *name, bool wait,
						 Record *record);
static void lock_row(Store *store, const CommandName *name);
static void copy_record(Store *store, Record *record);
static bool lock_name(const CommandName *name, bool wait);
static void unlock_name(const CommandName *name);
static void compare_request(const CommandName *name, bool has_digest,
							const uint8 *digest, const Record *record);
static bool answered(const CommandName *name, const Record *record,
					 bool has_digest, const uint8 *digest, Answer *answer);
static Begun *find_begun(const CommandName *name);
static bool note_finished(Begun *command);
static void claim_resource(FunctionCallInfo fcinfo);
static void insert_record(Store *store, const Begun *command, bool done,
						  Jsonb *outcome, TimestampTz takeover_at);
static Datum answer_datum(FunctionCallInfo fcinfo, const CommandName *name,
						  const Answer *answer);
static void xact_callback(XactEvent event, void *arg);
static void subxact_callback(SubXactEvent event, SubTransactionId mySubid,
							 SubTransactionId parentSubid, void *arg);

void
fencing_command_init(void)
{
	RegisterXactCallback(xact_callback, NULL);
	RegisterSubXactCallback(subxact_callback, NULL);
}

/* ---------------------------------------------------------------------------
 * begin
 * ---------------------------------------------------------------------------
 */

/*
 * fencing.begin_command(scope, key, request, resource, resource_token,
 * takeover, nowait)
 */
Datum
fencing_begin_command(PG_FUNCTION_ARGS)
{
	CommandName name;
	Store store;
	Record record;
	Answer answer = {0};
	Begun *command;
	bool has_digest = !PG_ARGISNULL(2);
	uint8 digest[REQUEST_DIGEST_LENGTH] = {0};
	bool to_claim = !PG_ARGISNULL(3) || !PG_ARGISNULL(4);
	bool two_steps = !PG_ARGISNULL(5);
	int64 takeover = 0;
	bool nowait;
	bool locked;
	bool found;

	PreventCommandIfReadOnly("fencing.begin_command()");
	PreventCommandDuringRecovery("fencing.begin_command()");
	read_name(fcinfo, &name);
	if (two_steps)
		takeover = fencing_duration_arg(fcinfo, 5, "takeover", false);
	if (PG_ARGISNULL(6))
		fencing_bad_argument("nowait", "NULL", "Give true or false.");
	nowait = PG_GETARG_BOOL(6);
	if (has_digest)
		fencing_request_digest(PG_GETARG_JSONB_P(2), digest);

	fencing_store_open(&store, STORE_COMMANDS, RowExclusiveLock);
	command = find_begun(&name);
	if (command != NULL && command->finished_in == InvalidSubTransactionId)
		fencing_command_in_progress(name.scope.data, name.key.data, true);

	/*
	 * Who has the lock may only be looking as well, or wait for this very
	 * transaction, which has written the row.  So look first, and wait for the
	 * lock where that does not tell.
	 *
	 * A claim comes before the lock: it may wait for an earlier holder of the
	 * resource, who may be about to ask for the lock.
	 */
	locked = !to_claim && lock_name(&name, false);
	for (;;)
	{
		found = read_settled(&store, &name, !nowait, &record);
		if (found && answered(&name, &record, has_digest, digest, &answer))
		{
			if (locked)
				unlock_name(&name);
			fencing_store_close(&store);
			return answer_datum(fcinfo, &name, &answer);
		}
		if (locked)
			break;
		if (to_claim)
		{
			if (nowait && lock_name(&name, false))
				unlock_name(&name);
			else if (nowait)
				fencing_command_in_progress(name.scope.data, name.key.data,
											false);
			claim_resource(fcinfo);
			to_claim = false;
			locked = lock_name(&name, false);
			continue;
		}
		if (nowait)
			fencing_command_in_progress(name.scope.data, name.key.data, false);
		locked = lock_name(&name, true);
	}

	command = MemoryContextAllocZero(TopTransactionContext, sizeof(Begun));
	command->subid = GetCurrentSubTransactionId();
	command->name = name;
	command->has_digest = has_digest;
	memcpy(command->digest, digest, sizeof(digest));
	command->token = fencing_issue_command_token(name.key.data,
												 found ? record.token : 0,
												 two_steps);
	command->attempts = found ? record.attempts + 1 : 1;
	command->begun_at = GetCurrentTimestamp();
	command->stored = found;

	if (found)
	{
		int cols[] = {STORE_ATT_TOKEN, STORE_ATT_UPDATED,
					  COMMANDS_ATT_ATTEMPTS, COMMANDS_ATT_TAKEOVER};
		Datum values[] = {Int64GetDatum(command->token),
						  TimestampTzGetDatum(command->begun_at),
						  Int32GetDatum(command->attempts),
						  TimestampTzGetDatum(command->begun_at + takeover)};
		bool nulls[lengthof(cols)] = {false};

		lock_row(&store, &name);
		fencing_store_modify(&store, lengthof(cols), cols, values, nulls);
	}
	else if (two_steps)
		insert_record(&store, command, false, NULL,
					  command->begun_at + takeover);
	fencing_store_close(&store);

	answer.state = "new";
	answer.token = command->token;
	answer.attempts = command->attempts;

	/* the client acts on the commit of a first step, so it has to be durable */
	if (two_steps)
	{
		ForceSyncCommit();
		unlock_name(&name);
		pfree(command);
	}
	else
		slist_push_head(&begun, &command->node);
	return answer_datum(fcinfo, &name, &answer);
}

/*
 * Is a record all that the caller needs to know?  Else it is pending, and its
 * time is over.
 */
static bool
answered(const CommandName *name, const Record *record, bool has_digest,
		 const uint8 *digest, Answer *answer)
{
	compare_request(name, has_digest, digest, record);
	answer->attempts = record->attempts;
	if (record->done)
	{
		answer->state = STATE_DONE;
		answer->outcome = record->outcome;
		answer->token = record->token;
		return true;
	}
	if (GetCurrentTimestamp() >= record->takeover_at)
		return false;
	answer->state = STATE_PENDING;
	return true;
}

/* A request that is not given, or was not given, is like every other one. */
static void
compare_request(const CommandName *name, bool has_digest, const uint8 *digest,
				const Record *record)
{
	if (has_digest && record->has_digest &&
		memcmp(digest, record->digest, REQUEST_DIGEST_LENGTH) != 0)
		fencing_command_mismatch(name->scope.data, name->key.data, "request");
}

/*
 * Arguments resource and resource_token: who handles the command must not be
 * stale.  The same as fencing.claim.
 */
static void
claim_resource(FunctionCallInfo fcinfo)
{
	TokenArg arg;

	if (PG_ARGISNULL(3) || PG_ARGISNULL(4))
		fencing_bad_argument(PG_ARGISNULL(3) ? "resource" : "resource_token",
							 "NULL",
							 "Give both the resource and the token of its holder, or none of them.");
	fencing_resource_from_arg(PG_GETARG_DATUM(3), false, "resource",
							  &arg.name);
	arg.token = fencing_token_arg(fcinfo, 4);
	fencing_claim_tokens(&arg, 1);
}

/* ---------------------------------------------------------------------------
 * finish
 * ---------------------------------------------------------------------------
 */

/*
 * fencing.finish_command(scope, key, outcome, token): false if it had this
 * outcome already.
 */
Datum
fencing_finish_command(PG_FUNCTION_ARGS)
{
	CommandName name;
	Store store;
	Record record;
	Begun *command;
	Jsonb *outcome;
	int64 token;
	bool locked;
	bool news = true;

	PreventCommandIfReadOnly("fencing.finish_command()");
	PreventCommandDuringRecovery("fencing.finish_command()");
	read_name(fcinfo, &name);
	if (PG_ARGISNULL(2))
		fencing_bad_argument("outcome", "NULL",
							 "Give what a duplicate shall get; 'null' if there is nothing to say.");
	outcome = PG_GETARG_JSONB_P(2);
	token = fencing_token_arg(fcinfo, 3);

	fencing_store_open(&store, STORE_COMMANDS, RowExclusiveLock);
	command = find_begun(&name);
	if (command != NULL &&
		(command->token != token ||
		 command->finished_in != InvalidSubTransactionId))
		command = NULL;

	/*
	 * Who has begun it in this transaction has the lock.  Whoever has it else
	 * may wait for this transaction, if that has written the row, which then is
	 * nobody else's to change: so look first, as begin does.
	 */
	locked = command != NULL || lock_name(&name, false);
	if (command != NULL && !command->stored)
		insert_record(&store, command, true, outcome, 0);
	else
	{
		while (!read_settled(&store, &name, true, &record) ||
			   (!locked && !record.done && token == record.token &&
				!fencing_store_is_own(&store)))
		{
			if (locked)
				fencing_command_unknown(name.scope.data, name.key.data);
			locked = lock_name(&name, true);
		}
		if (token != record.token)
			fencing_command_stale(name.scope.data, name.key.data, token,
								  record.token);
		if (record.done)
		{
			/* a retry, after an answer that was lost */
			if (compareJsonbContainers(&outcome->root,
									   &record.outcome->root) != 0)
				fencing_command_mismatch(name.scope.data, name.key.data,
										 "outcome");
			news = false;
		}
		else
		{
			int cols[] = {STORE_ATT_UPDATED, COMMANDS_ATT_STATE,
						  COMMANDS_ATT_OUTCOME};
			Datum values[] = {TimestampTzGetDatum(GetCurrentTimestamp()),
							  CStringGetTextDatum(STATE_DONE),
							  JsonbPGetDatum(outcome)};
			bool nulls[lengthof(cols)] = {false};

			lock_row(&store, &name);
			fencing_store_modify(&store, lengthof(cols), cols, values, nulls);
		}
	}
	if (locked && (command == NULL || note_finished(command)))
		unlock_name(&name);
	fencing_store_close(&store);
	PG_RETURN_BOOL(news);
}

/* ---------------------------------------------------------------------------
 * Looking and forgetting
 * ---------------------------------------------------------------------------
 */

/*
 * fencing.find_command(scope, key, request): what a duplicate would be told,
 * without waiting or beginning anything.  Works on a standby.
 */
Datum
fencing_find_command(PG_FUNCTION_ARGS)
{
	CommandName name;
	Store store;
	Record record;
	Answer answer = {0};
	uint8 digest[REQUEST_DIGEST_LENGTH] = {0};
	int64 token;

	read_name(fcinfo, &name);
	if (!PG_ARGISNULL(2))
		fencing_request_digest(PG_GETARG_JSONB_P(2), digest);
	fencing_store_open(&store, STORE_COMMANDS, AccessShareLock);
	if (fencing_store_find(&store, (const char *) name.id.data, UUID_LEN,
						   &token))
	{
		copy_record(&store, &record);
		if (!answered(&name, &record, !PG_ARGISNULL(2), digest, &answer))
			answer.state = STATE_PENDING;
	}
	fencing_store_close(&store);
	return answer_datum(fcinfo, &name, &answer);
}

/*
 * fencing.purge_commands(older_than, at_most): forgets commands that were
 * finished longer ago.  Those that somebody is looking at under a lock are left
 * for the next time; pending ones stay.
 */
Datum
fencing_purge_commands(PG_FUNCTION_ARGS)
{
	Oid argtypes[2] = {INTERVALOID, INT8OID};
	Datum args[2];
	uint64 purged;

	PreventCommandIfReadOnly("fencing.purge_commands()");
	PreventCommandDuringRecovery("fencing.purge_commands()");
	(void) fencing_duration_arg(fcinfo, 0, "older_than", true);
	if (PG_ARGISNULL(1) || PG_GETARG_INT64(1) < 1)
		fencing_bad_argument("at_most", PG_ARGISNULL(1) ? "NULL" : "below 1",
							 "Give the number of commands to forget in one transaction.");
	args[0] = PG_GETARG_DATUM(0);
	args[1] = PG_GETARG_DATUM(1);
	SPI_connect();
	if (SPI_execute_with_args("DELETE FROM fencing.command_records AS c"
							  " WHERE c.id OPERATOR(pg_catalog.=) ANY (ARRAY("
							  "   SELECT r.id FROM fencing.command_records AS r"
							  "   WHERE r.state OPERATOR(pg_catalog.=) '" STATE_DONE
							  "'"
							  "     AND r.changed_at OPERATOR(pg_catalog.<)"
							  "         (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) $1)"
							  "   LIMIT $2 FOR UPDATE SKIP LOCKED))",
							  2, argtypes, args, NULL, false,
							  0) != SPI_OK_DELETE)
		elog(ERROR, "purging the commands failed");
	purged = SPI_processed;
	SPI_finish();
	PG_RETURN_INT64((int64) purged);
}

/* ---------------------------------------------------------------------------
 * Small things
 * ---------------------------------------------------------------------------
 */

static void
read_part(FunctionCallInfo fcinfo, int argno, const char *what,
		  ResourceName *part)
{
	text *value;
	int len;

	if (PG_ARGISNULL(argno))
		fencing_bad_argument(what, "NULL", "Give a text of 1 to 512 bytes.");
	value = PG_GETARG_TEXT_PP(argno);
	len = VARSIZE_ANY_EXHDR(value);
	if (len == 0 || len > FENCING_RESOURCE_MAX)
		fencing_bad_argument(what, len == 0 ? "empty" : "too long",
							 "Give a text of 1 to 512 bytes.");
	part->len = len;
	text_to_cstring_buffer(value, part->data, sizeof(part->data));
}

/* Arguments scope and key. */
static void
read_name(FunctionCallInfo fcinfo, CommandName *name)
{
	uint32 objid;
	uint16 objsubid;

	read_part(fcinfo, 0, "scope", &name->scope);
	read_part(fcinfo, 1, "key", &name->key);
	fencing_command_id(name->scope.data, name->scope.len, name->key.data,
					   name->key.len, &name->id);

	/* bytes of a digest are as good as any hash */
	memcpy(&objid, name->id.data, sizeof(objid));
	memcpy(&objsubid, name->id.data + sizeof(objid), sizeof(objsubid));
	SET_LOCKTAG_OBJECT(name->tag, MyDatabaseId,
					   fencing_store_oid(STORE_COMMANDS), objid, objsubid);
}

/*
 * Finds a command's row as it is when no other transaction is changing it;
 * without "wait" it is an error if one does.
 */
static bool
read_settled(Store *store, const CommandName *name, bool wait, Record *record)
{
	InFlight in_flight;

	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (!fencing_store_peek(store, (const char *) name->id.data, UUID_LEN,
								&in_flight))
			return false;
		if (!TransactionIdIsValid(in_flight.xid))
			break;
		if (!wait)
			fencing_command_in_progress(name->scope.data, name->key.data,
										false);
		fencing_store_wait(store, &in_flight);
	}
	copy_record(store, record);
	return true;
}

/*
 * Locks the row that was found.  The lock on the name keeps the functions here
 * from it, but not what is done to the table by hand.
 */
static void
lock_row(Store *store, const CommandName *name)
{
	bool locked;

	if (!fencing_store_lock_peeked(store, &locked))
		fencing_command_in_progress(name->scope.data, name->key.data, false);
}

/* Copies what is in the row at hand into the current context. */
static void
copy_record(Store *store, Record *record)
{
	bool isnull;
	Datum value;
	char *state;

	memset(record, 0, sizeof(*record));
	record->token = DatumGetInt64(
		fencing_store_value(store, STORE_ATT_TOKEN, &isnull));
	state = TextDatumGetCString(
		fencing_store_value(store, COMMANDS_ATT_STATE, &isnull));
	record->done = strcmp(state, STATE_DONE) == 0;
	value = fencing_store_value(store, COMMANDS_ATT_REQUEST, &isnull);
	if (!isnull)
	{
		bytea *digest = DatumGetByteaPP(value);

		record->has_digest = true;
		memcpy(record->digest, VARDATA_ANY(digest),
			   Min(VARSIZE_ANY_EXHDR(digest), REQUEST_DIGEST_LENGTH));
	}
	value = fencing_store_value(store, COMMANDS_ATT_OUTCOME, &isnull);
	record->outcome = isnull ? NULL : DatumGetJsonbPCopy(value);
	record->attempts = DatumGetInt32(
		fencing_store_value(store, COMMANDS_ATT_ATTEMPTS, &isnull));
	value = fencing_store_value(store, COMMANDS_ATT_TAKEOVER, &isnull);
	record->takeover_at = isnull ? DT_NOEND : DatumGetTimestampTz(value);
}

static void
insert_record(Store *store, const Begun *command, bool done, Jsonb *outcome,
			  TimestampTz takeover_at)
{
	Datum values[COMMANDS_NATTS] = {0};
	bool nulls[COMMANDS_NATTS] = {false};
	const CommandName *name = &command->name;

	values[STORE_ATT_RESOURCE - 1] = UUIDPGetDatum(&name->id);
	values[STORE_ATT_TOKEN - 1] = Int64GetDatum(command->token);
	values[STORE_ATT_UPDATED - 1] = TimestampTzGetDatum(GetCurrentTimestamp());
	values[COMMANDS_ATT_SCOPE - 1] = PointerGetDatum(
		cstring_to_text_with_len(name->scope.data, name->scope.len));
	values[COMMANDS_ATT_KEY - 1] = PointerGetDatum(
		cstring_to_text_with_len(name->key.data, name->key.len));
	values[COMMANDS_ATT_STATE - 1] = CStringGetTextDatum(done ? STATE_DONE
															  : STATE_PENDING);
	nulls[COMMANDS_ATT_REQUEST - 1] = !command->has_digest;
	if (command->has_digest)
	{
		bytea *digest = palloc(VARHDRSZ + REQUEST_DIGEST_LENGTH);

		SET_VARSIZE(digest, VARHDRSZ + REQUEST_DIGEST_LENGTH);
		memcpy(VARDATA(digest), command->digest, REQUEST_DIGEST_LENGTH);
		values[COMMANDS_ATT_REQUEST - 1] = PointerGetDatum(digest);
	}
	nulls[COMMANDS_ATT_OUTCOME - 1] = outcome == NULL;
	values[COMMANDS_ATT_OUTCOME - 1] = PointerGetDatum(outcome);
	values[COMMANDS_ATT_ATTEMPTS - 1] = Int32GetDatum(command->attempts);
	values[COMMANDS_ATT_BEGUN - 1] = TimestampTzGetDatum(command->begun_at);
	nulls[COMMANDS_ATT_TAKEOVER - 1] = done;
	values[COMMANDS_ATT_TAKEOVER - 1] = TimestampTzGetDatum(takeover_at);

	fencing_store_add_row(store, values, nulls);
}

static Begun *
find_begun(const CommandName *name)
{
	slist_iter iter;

	slist_foreach(iter, &begun)
	{
		Begun *command = slist_container(Begun, node, iter.cur);

		if (memcmp(&command->name.id, &name->id, sizeof(pg_uuid_t)) == 0)
			return command;
	}
	return NULL;
}

/*
 * Begun and finished in one subtransaction, a command needs to be remembered no
 * longer, nor the lock: its row goes or stays with it.  Returns whether that is
 * so.
 */
static bool
note_finished(Begun *command)
{
	command->finished_in = GetCurrentSubTransactionId();
	if (command->finished_in != command->subid)
		return false;
	slist_delete(&begun, &command->node);
	return true;
}

/*
 * The lock on a command's name.  It belongs to the subtransaction, not to the
 * statement: another one may have to give it back.
 */
static bool
lock_name(const CommandName *name, bool wait)
{
	ResourceOwner owner = CurrentResourceOwner;
	bool locked;

	/* an error leaves the owner to be set by the abort */
	CurrentResourceOwner = CurTransactionResourceOwner;
	locked = LockAcquire(&name->tag, COMMAND_LOCKMODE, false, !wait) !=
		LOCKACQUIRE_NOT_AVAIL;
	CurrentResourceOwner = owner;
	return locked;
}

static void
unlock_name(const CommandName *name)
{
	ResourceOwner owner = CurrentResourceOwner;

	CurrentResourceOwner = CurTransactionResourceOwner;
	LockRelease(&name->tag, COMMAND_LOCKMODE, false);
	CurrentResourceOwner = owner;
}

static Datum
answer_datum(FunctionCallInfo fcinfo, const CommandName *name,
			 const Answer *answer)
{
	TupleDesc desc;
	Datum values[5] = {0};
	bool nulls[5] = {false};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE ||
		desc->natts != lengthof(values))
		elog(ERROR, "the answer about a command is not what it should be");
	nulls[0] = answer->state == NULL;
	if (answer->state != NULL)
		values[0] = CStringGetTextDatum(answer->state);
	nulls[1] = answer->outcome == NULL;
	values[1] = PointerGetDatum(answer->outcome);
	nulls[2] = answer->token == 0;
	values[2] = Int64GetDatum(answer->token);
	nulls[3] = answer->state == NULL;
	values[3] = UUIDPGetDatum(&name->id);
	nulls[4] = answer->state == NULL;
	values[4] = Int32GetDatum(answer->attempts);
	return HeapTupleGetDatum(
		heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

static void
xact_callback(XactEvent event, void *arg)
{
	slist_iter iter;

	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			slist_foreach(iter, &begun)
			{
				Begun *command = slist_container(Begun, node, iter.cur);

				if (command->finished_in == InvalidSubTransactionId)
					fencing_command_unfinished(command->name.scope.data,
											   command->name.key.data);
			}
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			slist_init(&begun); /* the memory goes with its context */
			break;
		default:
			break;
	}
}

static void
subxact_callback(SubXactEvent event, SubTransactionId mySubid,
				 SubTransactionId parentSubid, void *arg)
{
	slist_mutable_iter iter;

	if (event != SUBXACT_EVENT_COMMIT_SUB && event != SUBXACT_EVENT_ABORT_SUB)
		return;
	slist_foreach_modify(iter, &begun)
	{
		Begun *command = slist_container(Begun, node, iter.cur);
		bool aborted = event == SUBXACT_EVENT_ABORT_SUB;

		if (command->finished_in == mySubid)
			command->finished_in = aborted ? InvalidSubTransactionId
										   : parentSubid;
		if (command->subid != mySubid)
			continue;
		command->subid = parentSubid;
		if (aborted || command->finished_in == parentSubid)
			slist_delete_current(&iter);
	}
}
