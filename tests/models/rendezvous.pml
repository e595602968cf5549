/* SPDX-License-Identifier: Apache-2.0 */
/* How ranks meet: runtime/ranks/rendezvous.c, rendezvous_join.c, rendezvous_reach.c, pending.c, handshake.c.
 *
 * Rank 0 listens, ranks 1 and 2 connect. Who knows the secret tags a frame by the fresh numbers (nonces) of both ends
 * and the rank. A frame here is a kind, the listener's number, the caller's number, the rank, and whether its tag was
 * made by somebody who knows the secret, for just these. As its number each end takes that of its connection.
 *
 * A stranger knows no secret. It hears all handshakes, and up to three times it connects, sends what has no tag, replays
 * what it heard, or closes; else it says nothing. Once a rank that connects finds it in rank 0's place. A rank may be
 * killed, one may have another config, and one may fail before it trains.
 *
 * Checked:
 * - every rank trains or ends with a cause (no process waits for ever, which spin calls an invalid end state);
 * - rank 0 admits a connection as rank r only after rank r has answered its challenge, and a rank joins only where
 *   rank 0 has welcomed it;
 * - nobody listens when a rank trains;
 * - unless a rank is killed, or the stranger carries a rank's handshake to rank 0, the ranks train, or rank 0 has a
 *   reason to refuse and all ranks end with this one.
 * A deadline passes when nothing else can happen (`timeout`). */
#define CONNECTIONS 4
#define JOIN_DEADLINE (timeout && !greets[1] && !greets[2]) /* is longer than that of a handshake */
#define AFTER_ROOT (timeout && over[0])                     /* a rank waits longer than rank 0 */

mtype = { HD_WIRE_CHALLENGE, HD_WIRE_HELLO, HD_WIRE_WELCOME, HD_WIRE_GO, HD_WIRE_REFUSE, HD_WIRE_FAIL,
          HD_WIRE_DATA }    /* enum hd_wire_kind */
mtype = { CONNECT, CLOSED } /* TCP */
mtype = { NONE, PENDING, JOINED } /* connections at rank 0 */
mtype = { OTHER_CONFIG, NOT_JOINED, LEFT, NO_ANSWER, VOTED, ROOT_GONE } /* causes */

chan inbox = [12] of { byte, mtype, byte, byte, byte, bool }      /* of rank 0: a connection, then a frame */
chan down[CONNECTIONS] = [6] of { mtype, byte, byte, byte, bool } /* frames to the caller */
mtype state[CONNECTIONS + 1] = NONE; /* at rank 0; the last one is no connection. number, rank: of a right hello */
byte next, number[CONNECTIONS], rank[CONNECTIONS], peer[3] = CONNECTIONS, n_joined, other_config;
mtype why, cause[3];
bool listening, greets[3], over[3], trains[3], killed[3], may_fail;
/* The stranger: what it may still do, its connection, that for which it has rank 0's place, and what it heard. */
byte n_acts, mine = CONNECTIONS, imposed = CONNECTIONS, challenge, hello[3], welcome[3];
bool stood_in, relayed, heard_challenge, heard_hello, heard_welcome;
byte answered[CONNECTIONS], welcomed[CONNECTIONS]; /* for the checks: bit r is of rank r */

#define BIT(r) (1 << r)
inline refuse(reason) { if :: why == 0 -> why = reason :: else fi }
inline close_root(i) {
    for (i : 0 .. CONNECTIONS - 1) {
        if :: state[i] != NONE -> down[i]!CLOSED,0,0,0,false; state[i] = NONE :: else fi
    }
    listening = false; over[0] = true
}
inline tell_all(kind, i) {
    for (i : 0 .. CONNECTIONS - 1) {
        if
#ifdef FAULT_REFUSAL_NOT_SENT
        :: state[i] == JOINED && (kind != HD_WIRE_REFUSE || rank[i] == 1) -> down[i]!kind,i,number[i],rank[i],true
#else
        :: state[i] == JOINED -> down[i]!kind,i,number[i],rank[i],true
#endif
        :: else
        fi
    }
}

/* What counts as a hello to connection c. */
#ifdef FAULT_TAG_NOT_CHECKED
#define PROVES (kind == HD_WIRE_HELLO)
#elif defined(FAULT_NONCE_NOT_COMPARED)
#define PROVES (kind == HD_WIRE_HELLO && ok)
#else
#define PROVES (kind == HD_WIRE_HELLO && ok && l == c)
#endif

proctype Root() {
    byte c, l, n, r, i;
    mtype kind;
    bool ok;
    {
        listening = true;
        do /* hd_rendezvous_accept_ranks: once it has a reason to refuse, it may wait a little for others */
        :: atomic { n_joined == 2 || why != 0 -> break }
        :: atomic { JOIN_DEADLINE -> refuse(NOT_JOINED); break }
        :: atomic {
            n_joined < 2 && nempty(inbox) -> inbox?c,kind,l,n,r,ok;
            if
            :: kind == CONNECT -> state[c] = PENDING; down[c]!HD_WIRE_CHALLENGE,c,0,0,true;
               heard_challenge = true; challenge = c
            :: kind == CLOSED && state[c] == JOINED ->
               refuse(LEFT); peer[rank[c]] = CONNECTIONS; n_joined--; state[c] = NONE
            :: kind == CLOSED && state[c] != JOINED -> state[c] = NONE
            :: state[c] == PENDING && PROVES ->
               assert(answered[c] & BIT(r)); /* else somebody joins who does not know the secret */
               relayed = (relayed || c == mine);
               welcomed[c] = welcomed[c] | BIT(r);
               number[c] = n; rank[c] = r;
               down[c]!HD_WIRE_WELCOME,c,n,r,true;
               heard_welcome = true; welcome[0] = c; welcome[1] = n; welcome[2] = r;
               assert(peer[r] == CONNECTIONS); /* a rank that connects again has closed what it had before */
               peer[r] = c; state[c] = JOINED; n_joined++
            :: state[c] == PENDING && kind != CONNECT && kind != CLOSED && !(PROVES) ->
               down[c]!CLOSED,0,0,0,false; state[c] = NONE
            :: else
            fi;
            kind = 0; c = 0; l = 0; n = 0; r = 0; ok = false
           }
        od;
        atomic {
            if :: other_config != 0 -> refuse(OTHER_CONFIG) :: else fi;
            if :: why != 0 -> tell_all(HD_WIRE_REFUSE, i); close_root(i); goto done :: else fi;
#ifndef FAULT_LISTENS_ON
            listening = false;
#endif
            for (i : 0 .. CONNECTIONS - 1) { /* what is no rank's is closed, accepted or not */
                if :: state[i] != JOINED && state[i] != NONE -> down[i]!CLOSED,0,0,0,false; state[i] = NONE :: else fi
            }
        };
        atomic { tell_all(HD_WIRE_GO, i) };
        for (r : 1 .. 2) { /* hd_rendezvous_agree: votes */
            if
            :: atomic { inbox??[eval(peer[r]),kind,_,_,_,_] -> inbox??eval(peer[r]),kind,_,_,_,_;
                if
                :: kind == HD_WIRE_GO
                :: kind == HD_WIRE_FAIL -> refuse(VOTED)
                :: else -> refuse(LEFT)
                fi }
#ifndef FAULT_VOTE_WITHOUT_DEADLINE
            :: atomic { timeout -> refuse(NO_ANSWER) }
#endif
            fi
        };
        if
        :: atomic { why != 0 -> tell_all(HD_WIRE_REFUSE, i); close_root(i) }
        :: atomic { why == 0 -> tell_all(HD_WIRE_GO, i) }; atomic { tell_all(HD_WIRE_DATA, i) };
           assert(!listening);
           atomic { trains[0] = true; over[0] = true }
        fi;
done:   skip
    } unless { killed[0] }
}

/* What comes by rank r's connection c: a frame of rank 0, or anything else. */
#define COMES(kind) down[c]?[kind,eval(c_l),eval(c),eval(r),true]
#define TAKE down[c]?_,_,_,_,_

inline send(kind, l, n) { /* what a rank sends by a connection to the stranger goes nowhere */
    if :: c != imposed && state[c] != NONE -> inbox!c,kind,l,n,r,true :: else fi
}

inline await_root(kind) { /* once this rank has joined */
    if
    :: atomic { COMES(kind) -> TAKE }
    :: atomic { COMES(HD_WIRE_REFUSE) -> TAKE; cause[r] = why; goto done }
    :: atomic { nempty(down[c]) && !COMES(kind) && !COMES(HD_WIRE_REFUSE) -> TAKE; cause[r] = ROOT_GONE; goto done }
    :: atomic { AFTER_ROOT -> cause[r] = NO_ANSWER; goto done }
    fi
}

proctype Rank(byte r) {
    byte c = CONNECTIONS, c_l;
    {
        skip;
again:  atomic {
            send(CLOSED, 0, 0);
            imposed = (c == imposed -> CONNECTIONS : imposed);
            c = CONNECTIONS; greets[r] = false
        };
        if
        :: atomic { listening && next < CONNECTIONS -> c = next; next++; state[c] = PENDING;
                    inbox!c,CONNECT,0,0,0,false; greets[r] = true }
        :: atomic { !stood_in && next < CONNECTIONS -> stood_in = true; c = next; next++; imposed = c; greets[r] = true }
        :: atomic { AFTER_ROOT -> cause[r] = ROOT_GONE; goto done }
        fi;
        if
        :: atomic { down[c]?HD_WIRE_CHALLENGE,c_l,_,_,true -> answered[c_l] = answered[c_l] | BIT(r);
                    hello[0] = c_l; hello[1] = c; hello[2] = r; heard_hello = true; send(HD_WIRE_HELLO, c_l, c) }
        :: atomic { nempty(down[c]) && !down[c]?[HD_WIRE_CHALLENGE,_,_,_,true] -> TAKE; goto again }
        :: atomic { timeout -> goto again }
        fi;
        if
        :: atomic { COMES(HD_WIRE_WELCOME) -> TAKE; assert(welcomed[c_l] & BIT(r)); greets[r] = false }
        :: atomic { nempty(down[c]) && !COMES(HD_WIRE_WELCOME) -> TAKE; goto again }
        :: atomic { timeout -> goto again }
        fi;
        await_root(HD_WIRE_GO);
        if
        :: atomic { send(HD_WIRE_GO, c_l, c) }
        :: atomic { may_fail -> may_fail = false; send(HD_WIRE_FAIL, c_l, c) }
        fi;
        await_root(HD_WIRE_GO);
        await_root(HD_WIRE_DATA);
        assert(!listening);
        trains[r] = true;
done:   over[r] = true
    } unless { atomic { killed[r] -> send(CLOSED, 0, 0) } }
}

/* It makes frames without a tag (`false`) and sends what it heard. */
active proctype Stranger() {
end:
    do
    :: atomic { n_acts > 0 && mine == CONNECTIONS && listening && next < CONNECTIONS ->
                mine = next; next++; n_acts--; state[mine] = PENDING; inbox!mine,CONNECT,0,0,0,false }
    :: atomic { n_acts > 0 && mine < CONNECTIONS && state[mine] == PENDING -> n_acts--;
        if
        :: inbox!mine,HD_WIRE_HELLO,mine,mine,1,false
        :: heard_hello -> inbox!mine,HD_WIRE_HELLO,hello[0],hello[1],hello[2],true
        :: inbox!mine,CLOSED,0,0,0,false
        fi }
    :: atomic { n_acts > 0 && imposed < CONNECTIONS -> n_acts--;
        if
        :: down[imposed]!HD_WIRE_CHALLENGE,0,0,0,false
        :: heard_challenge -> down[imposed]!HD_WIRE_CHALLENGE,challenge,0,0,true
        :: down[imposed]!HD_WIRE_WELCOME,hello[0],hello[1],hello[2],false
        :: heard_welcome -> down[imposed]!HD_WIRE_WELCOME,welcome[0],welcome[1],welcome[2],true
        :: down[imposed]!CLOSED,0,0,0,false
        fi }
    :: atomic { n_acts > 0 -> n_acts = 0 }
    od
}

/* Kills a rank, whose connections are closed. */
proctype Kill() {
    byte r, i;
    if
    :: atomic { select(r : 0 .. 2); killed[r] = !over[r]; over[r] = true; greets[r] = false;
        if :: r == 0 && killed[0] -> close_root(i) :: else fi } :: skip fi
}

init {
    byte r;
    atomic {
        if :: select(other_config : 1 .. 2) :: may_fail = true :: run Kill() :: n_acts = 3 fi;
        run Root(); run Rank(1); run Rank(2)
    };
    over[0] && over[1] && over[2];
    for (r : 0 .. 2) { assert(killed[r] || trains[r] || (r == 0 && why != 0) || cause[r] != 0) };
    if
    :: killed[0] || killed[1] || killed[2] || relayed
    :: else ->
       assert(why == 0 || other_config != 0 || why == VOTED);
       assert(cause[1] == why && cause[2] == why)
    fi
}
