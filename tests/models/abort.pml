/* SPDX-License-Identifier: Apache-2.0 */
/* How a failure ends all ranks: runtime/comm/comm.c and comm_message.c (the memory of a host), runtime/engine/failure.c
 * (the latch), runtime/ranks/rendezvous_watch.c (the watch), runner/train/run.c and base/monitor.c (who tells whom).
 *
 * Ranks 0 and 1 share host 0, and rank 2 has host 1; with -D ROOT_ALONE rank 0 has host 0, and the others share host 1.
 * One or two of these happen, at any time: a task fails, a task does not return, a rank is killed, the network between
 * the hosts breaks while the rendezvous lives, all ranks get a signal. Each is a cause and has a number. What only
 * follows from a cause, such as a connection that is closed because its rank leaves, is FOLLOWED.
 *
 * Checked:
 * - every rank ends (no process waits for ever, which spin calls an invalid end state) and tells a cause;
 * - after one cause every rank tells this one;
 * - of two causes on two hosts no rank can know which came first. Each rank tells one of the two, or UNWRITTEN
 *   ("another rank failed") where the rank that was to write the reason was killed while it wrote.
 * - a rank that did not fail itself tells what was written first in the memory of its host.
 * A deadline passes when nothing else can happen (`timeout`). If `hasty`, it may pass at any time before as well: then
 * too all ranks end and tell a cause, but they may take what followed for the cause. */
#ifdef ROOT_ALONE
#define HOST(r) (r > 0)
#else
#define HOST(r) (r > 1)
#endif

mtype = { HD_COMM_OK, HD_COMM_ABORTING, HD_COMM_ABORTED } /* enum hd_comm_abort */
mtype = { HD_WIRE_FAIL, HD_WIRE_LOST, HD_WIRE_BYE }       /* enum hd_wire_kind */
mtype = { CLOSED }                                        /* TCP: the other end is gone */

#define FAILS(r) (1 + r) /* its task fails or does not return */
#define KILLS(r) (4 + r)
#define CUT 7
#define SIGNAL 8
#define FOLLOWED 9
#define UNWRITTEN 10

byte n_causes, max_causes; /* that have happened, that are to happen */
byte hang = FOLLOWED; /* what a watchdog names */
bool happened[11], hasty, signalled, killed[3], hangs[3], over[3];
byte broken[3], latch[3]; /* causes: of broken links, and in the latch, which a rank tells in the end */
bool own[3];                       /* the latch holds a failure of the rank itself */
mtype abort[2] = HD_COMM_OK; /* in the memory of a host, with the next two */
byte reason[2], writer[2], first[2]; /* first: the reason that was written first, for the check */
chan up[3] = [6] of { mtype, byte } /* rank r to 0: a kind, a cause */
chan down[3] = [6] of { mtype, byte }

#define DEADLINE (hasty || timeout)
#define HAPPENS(cause) n_causes < max_causes && !happened[cause] -> n_causes++; happened[cause] = true
#define BREAKS(r) (!over[r] && !hangs[r] && latch[r] == 0 && broken[r] != 0 && abort[HOST(r)] == HD_COMM_OK) /* is within its patience */
#define LATE (timeout && abort[0] != HD_COMM_ABORTING && abort[1] != HD_COMM_ABORTING && \
                        !BREAKS(0) && !BREAKS(1) && !BREAKS(2)) /* the watchdog's time is longer */

/* hd_comm_abort. A rank may be killed between its two steps; what it does between others is one step. */
#ifdef FAULT_LATER_ABORT_COUNTS
#define FREE(r) true
#else
#define FREE(r) (abort[HOST(r)] == HD_COMM_OK)
#endif
inline comm_abort(r, cause) {
    if :: first[HOST(r)] == 0 -> first[HOST(r)] = cause :: else fi;
    if :: FREE(r) -> abort[HOST(r)] = HD_COMM_ABORTING; reason[HOST(r)] = cause; writer[HOST(r)] = r :: else fi
}
inline finish_abort(r) {
    atomic {
        if
        :: abort[HOST(r)] == HD_COMM_ABORTING && writer[HOST(r)] == r -> abort[HOST(r)] = HD_COMM_ABORTED
        :: else
        fi
    }
}

inline latch_own(r, cause) { latch[r] = cause; own[r] = true; comm_abort(r, cause) } /* hd_session_fail */

/* hd_session_poll: guards for what it finds, and what it does. */
#ifdef FAULT_OWN_FAILURE_IGNORED
#define WRITTEN(r) (abort[HOST(r)] == HD_COMM_ABORTED && writer[HOST(r)] != r)
#else
#define WRITTEN(r) (abort[HOST(r)] == HD_COMM_ABORTED)
#endif
#ifdef FAULT_HALF_WRITTEN_AWAITED
#define UNFINISHED(r) false
#else
#define UNFINISHED(r) (abort[HOST(r)] == HD_COMM_ABORTING && DEADLINE)
#endif
inline take_reason(r) { latch[r] = reason[HOST(r)]; own[r] = (writer[HOST(r)] == r) }

inline send(r, kind, cause, i) { /* rank 0 to all, another rank to rank 0 */
    for (i : 1 .. 2) {
        if :: r == 0 && !over[i] -> down[i]!kind,cause :: r == i && !over[0] -> up[i]!kind,cause :: else fi
    }
}

/* The process is gone: its connections end, and its links to other hosts break. */
inline close_all(r, cause, i) {
    send(r, CLOSED, cause, i);
    for (i : 0 .. 2) { if :: HOST(i) != HOST(r) && !over[i] && broken[i] == 0 -> broken[i] = FOLLOWED :: else fi }
    over[r] = true; latch[r] = 0; own[r] = false; hangs[r] = false; broken[r] = 0
}

inline tell_ranks(r, i) { /* hd_rendezvous_fail, or hd_rendezvous_pass_on for another rank's failure */
    if
    :: r > 0 && own[r] -> send(r, HD_WIRE_FAIL, latch[r], i)
    :: r == 0 || !own[r] -> send(r, HD_WIRE_LOST, latch[r], i)
    fi
}

/* The threads that work, and the monitor, which acts while a task does not return. */
proctype Main(byte r) {
    byte i;
    {
        do
        :: atomic { WRITTEN(r) -> take_reason(r); break }
        :: atomic { UNFINISHED(r) -> latch[r] = UNWRITTEN; break }
        :: atomic { signalled -> latch_own(r, SIGNAL); break }
        :: atomic { HAPPENS(FAILS(r)); latch_own(r, FAILS(r)); break }
        :: atomic { HAPPENS(FAILS(r)); hangs[r] = true; hang = FAILS(r); break }
        :: atomic { BREAKS(r) && DEADLINE -> comm_abort(r, broken[r]) }; finish_abort(r)
        :: atomic { LATE && FREE(r) -> comm_abort(r, hang) }; finish_abort(r)
        od;
        finish_abort(r);
        do
        :: atomic { !hangs[r] -> break }
        :: atomic { hangs[r] && latch[r] == 0 && WRITTEN(r) -> take_reason(r) }
        :: atomic { hangs[r] && latch[r] == 0 && UNFINISHED(r) -> latch[r] = UNWRITTEN }
        :: atomic { hangs[r] && latch[r] == 0 && signalled -> latch_own(r, SIGNAL) }; finish_abort(r)
        :: atomic { hangs[r] && latch[r] == 0 && LATE && FREE(r) -> comm_abort(r, hang) }; finish_abort(r)
        :: atomic { hangs[r] && latch[r] == SIGNAL && DEADLINE -> break }
        :: atomic { hangs[r] && latch[r] != 0 && LATE -> own[r] = true; break }
        od;
        atomic {
            assert(latch[r] != 0); /* else its error has no cause */
            assert(hasty || happened[latch[r]] || (latch[r] == UNWRITTEN && n_causes == 2));
            assert(own[r] || latch[r] == first[HOST(r)] || latch[r] == UNWRITTEN);
            if
            :: latch[r] == SIGNAL && hangs[r] /* the process is ended, and only closes */
#ifdef FAULT_BYSTANDER_SAYS_BYE
            :: !own[r] -> send(r, HD_WIRE_BYE, 0, i)
            :: own[r] -> tell_ranks(r, i)
#else
            :: else -> tell_ranks(r, i)
#endif
            fi;
            close_all(r, FOLLOWED, i)
        }
    } unless { killed[r] }
}

proctype WatchRoot(byte r) {
    byte cause;
    mtype kind;
    {
        if
        :: over[r]
        :: down[r]?kind,cause ->
           if :: atomic { kind != HD_WIRE_BYE -> comm_abort(r, cause) }; finish_abort(r) :: else fi
        fi
    } unless { killed[r] }
}

proctype WatchRanks() {
    byte cause, i;
    mtype kind;
    {
        do
        :: over[0] -> break
        :: atomic { up[1]?kind,cause -> if :: kind != HD_WIRE_BYE -> goto lost :: else -> up[1]?CLOSED,_ fi }
        :: atomic { up[2]?kind,cause -> if :: kind != HD_WIRE_BYE -> goto lost :: else -> up[2]?CLOSED,_ fi }
        od;
        goto done;
lost:   atomic {
            send(0, HD_WIRE_LOST, cause, i);
            comm_abort(0, cause)
        };
        finish_abort(0);
done:   skip
    } unless { killed[0] }
}

/* What happens to ranks from outside. */
active proctype World() {
    byte r, i;
end:
    do
    :: atomic { HAPPENS(SIGNAL); signalled = true }
    :: atomic { HAPPENS(CUT); for (i : 0 .. 2) { if :: broken[i] == 0 -> broken[i] = CUT :: else fi } }
    :: atomic {
        n_causes < max_causes; select(r : 0 .. 2);
        if
        :: !over[r] && !killed[r] -> n_causes++; happened[KILLS(r)] = true; killed[r] = true;
           close_all(r, KILLS(r), i)
        :: else
        fi
       }
    od
}

init {
    byte r;
    atomic {
        if :: max_causes = 2 :: max_causes = 1 :: max_causes = 1; hasty = true fi;
        for (r : 0 .. 2) { run Main(r) };
        run WatchRanks(); run WatchRoot(1); run WatchRoot(2)
    }
    over[0] && over[1] && over[2]
}
