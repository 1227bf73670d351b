/*
 * fencing.pml: a model of the protocol, for spin.
 *
 * Workers take a lease with a token, claim the resource, write with the token,
 * and release the lease.  Anything may happen at any moment: a worker is slow
 * (the others run on, as often as they like), crashes in the middle of a
 * transaction, or its lease ends; the lock server loses what it knows; the
 * database fails over to a standby that missed the last values of its sequence.
 *
 * What is checked is in the assertions:
 *
 *  - no write with an older token commits after a newer claim has committed;
 *  - a token is larger than every one handed out before for the resource, so
 *    none comes twice.
 *
 * Macros leave one part of the protocol out, to see that it is needed:
 *
 *	NO_LOCK		the mark is compared without being locked
 *	NO_RECHECK	it is locked, and compared as it was before the wait
 *	COUNTER_ALONE	tokens are those of the lock server's counter
 *	NO_TIMELINE	a promoted server goes on where its copy of the sequence is
 */

#ifndef WORKERS
#define WORKERS 3
#endif
#ifndef RESOURCES
#define RESOURCES 2
#endif
#ifndef ENDS		/* of leases, before their holders are through */
#define ENDS 1
#endif
#ifndef FLUSHES		/* of the lock server */
#define FLUSHES 1
#endif
#ifndef FAILOVERS
#define FAILOVERS 1
#endif
#if RESOURCES > 1
#define NO_TRANSACTION (!exclusive[0] && shared[0] == 0 && !exclusive[1] && shared[1] == 0)
#else
#define NO_TRANSACTION (!exclusive[0] && shared[0] == 0)
#endif
#define TIMELINE 40	/* more than a timeline ever hands out here */

/* What PostgreSQL holds, committed. */
byte sequence = 0;		/* last token handed out; never rolled back */
byte timeline = 0;
byte mark[RESOURCES];

/* The locks on the marks, which end with a transaction. */
byte shared[RESOURCES];		/* holders of an equal token */
bool exclusive[RESOURCES];	/* somebody is raising it */

/* What the lock server holds. */
byte lease[RESOURCES];		/* token of the lease, 0: nobody has it */
byte counter[RESOURCES];

/* What an observer has seen; nothing in the protocol reads it. */
byte handed_out[RESOURCES];	/* the highest token */
byte claimed[RESOURCES];	/* the highest one whose claim has committed */

byte working = WORKERS;

inline next_token(above)
{
	/* larger than what was handed out, and than a number from elsewhere */
	if
	:: sequence < above -> sequence = above
	:: else
	fi;
#ifndef NO_TIMELINE
	if
	:: sequence < timeline * TIMELINE -> sequence = sequence + timeline * TIMELINE
	:: else
	fi;
#endif
	sequence = sequence + 1
}

/* One transaction that claims (raises the mark) or writes (shows the token). */
inline transaction(r, token, is_write)
{
	/* the look that decides which lock is needed */
	atomic {
		seen = mark[r];
		if
		:: token < seen -> goto over		/* stale */
		:: else
		fi;
		raises = token > seen
	}
#ifndef NO_LOCK
	/* the wait for it, and the comparison that counts */
	atomic {
		if
		:: raises && !exclusive[r] && shared[r] == 0 -> exclusive[r] = true
		:: !raises && !exclusive[r] -> shared[r]++
		fi;
#ifndef NO_RECHECK
		if
		:: token < mark[r] ->			/* stale */
			if
			:: raises -> exclusive[r] = false
			:: else -> shared[r]--
			fi;
			goto over
		:: else
		fi
#endif
	}
#endif
	if
	:: true ->			/* commit: all of it at once */
		atomic {
			assert(!is_write || token >= claimed[r]);
			if
			:: raises && token > mark[r] -> mark[r] = token
			:: else
			fi;
			if
			:: !is_write && token > claimed[r] -> claimed[r] = token
			:: else
			fi;
#ifndef NO_LOCK
			if
			:: raises -> exclusive[r] = false
			:: else -> shared[r]--
			fi
#endif
		}
	:: true ->			/* crash: nothing of it happened */
#ifndef NO_LOCK
		atomic {
			if
			:: raises -> exclusive[r] = false
			:: else -> shared[r]--
			fi
		}
#endif
		goto over
	fi;
	seen = 0;
	raises = false
}

proctype Worker(byte n)
{
	byte r, token, seen, number;
	bool raises;

	/*
	 * Workers are alike, and so are resources: all on one, or two and the
	 * rest, are all the ways there are to share three workers among two.
	 */
	if
	:: r = 0
#if RESOURCES > 1
	:: n > 1 -> r = 1
#endif
	fi;

	/*
	 * The lease and the counter, in one step of the lock server.  (A worker
	 * may wait here for ever, when no more leases end in this model.)
	 */
end_wait:
	atomic {
		lease[r] == 0 ->
		counter[r] = counter[r] + 1;
		number = counter[r];
		lease[r] = 255		/* somebody's */
	}
	/* ... and the token, a step later */
	atomic {
#ifdef COUNTER_ALONE
		token = number;
#else
		next_token(number);
		token = sequence;
#endif
		number = 0;		/* (forgotten, to have fewer states) */
		assert(token > handed_out[r]);
		handed_out[r] = token;
		if
		:: lease[r] == 255 -> lease[r] = token
		:: else			/* it has ended already, or been lost */
		fi;
		if
		:: counter[r] < token -> counter[r] = token
		:: true			/* the message was lost */
		fi
	}

	transaction(r, token, false);	/* claim */
	/* read, think, be paused for any time */
	transaction(r, token, true);	/* write */

over:
	atomic {
		seen = 0;
		raises = false;
		if
		:: lease[r] == token -> lease[r] = 0
		:: true			/* crashed, or the release was lost */
		fi;
		r = 0;
		token = 0;
		working--
	}
}

/* Time passes: leases end, whoever holds them. */
proctype Clock()
{
	byte ends = 0;

end_clock:
	do
	:: atomic { ends < ENDS && lease[0] != 0 -> lease[0] = 0; ends++ }
#if RESOURCES > 1
	:: atomic { ends < ENDS && lease[1] != 0 -> lease[1] = 0; ends++ }
#endif
	:: ends == ENDS || working == 0 -> break
	od
}

proctype Faults()
{
	byte flushes = 0, failovers = 0;

end_faults:
	do
	:: atomic {			/* the lock server begins empty */
		flushes < FLUSHES ->
		lease[0] = 0;
		counter[0] = 0;
#if RESOURCES > 1
		lease[1] = 0;
		counter[1] = 0;
#endif
		flushes++
	   }
	:: atomic {			/* a standby is promoted that knows some of it */
		failovers < FAILOVERS && NO_TRANSACTION ->
		do
		:: sequence > 0 -> sequence--
		:: break
		od;
		timeline++;
		failovers++
	   }
	:: working == 0 -> break
	od
}

init {
	byte i = 0;

	atomic {
		do
		:: i < WORKERS -> run Worker(i); i++
		:: else -> break
		od;
		run Clock();
		run Faults()
	}
}
