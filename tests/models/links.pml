/* SPDX-License-Identifier: Apache-2.0 */
/* How partners on three hosts connect: runtime/comm/comm_tcp_join.c, and comm_links.c, which tries the links.
 *
 * All listen and agree on it; each calls those before it, and all agree; each says hello to those before it and hears
 * those after it, all agree and shut their ports; then they try the links, and all agree. A frame is a kind, the
 * listener's number, the ranks from and to which a hello goes, and whether its tag was made by somebody who knows the
 * secret, for just these; rendezvous.pml has the caller's number too. hd_rendezvous_agree is one step here, which ends
 * when all have voted, or when a rank is killed.
 *
 * Rank 0's port may be refused or filtered for rank 2, or a rank is killed; or a stranger acts up to three times: it
 * connects to a port and says nothing, or sends hellos without a tag or those that it heard, and it may have the place
 * of the callee of one call, where it hands on a challenge.
 *
 * Checked:
 * - every rank trains or ends with a cause (no process waits for ever, which spin calls an invalid end state), and all
 *   train or none, unless one is killed;
 * - a rank admits a connection of rank f only after f has answered its challenge by a hello to just this rank;
 * - nobody listens when a rank trains;
 * - all train unless the port is shut, a rank is killed, or the stranger has somebody's place.
 * A deadline passes when nothing else can happen (`timeout`). */
#define CONNECTIONS 5
#define NOBODY 3

mtype = { HD_WIRE_CHALLENGE, HD_WIRE_HELLO, HD_WIRE_WELCOME } /* enum hd_wire_kind */
mtype = { CONNECT, CLOSED }                                   /* TCP */
mtype = { REFUSED, FILTERED }                                 /* firewalls */
mtype = { NOT_REACHED, NOT_HEARD, OF_ANOTHER }                /* causes */

chan inbox[3] = [9] of { byte, mtype, byte, byte, byte, bool } /* of a listener: a connection, then a frame */
chan down[CONNECTIONS] = [4] of { mtype, byte, bool }          /* to the caller: a kind, the number, the tag */
byte next, owner[CONNECTIONS] = NOBODY, n_votes[4];            /* owner: who listens at the other end */
bool against[4], listens[3], killed[3], over[3], is_killed, stands_in, met;
mtype cause[3], shut;
byte admitted[3], answered[CONNECTIONS]; /* bit f: of rank f; answered: the challenge, to its owner */
byte n_acts, mine = CONNECTIONS, place = CONNECTIONS, hello[3]; /* the stranger; hello: that it heard */
bool has_heard;

#define BIT(r) (1 << r)
#define OTHERS(r) (r == 0 -> 6 : (r == 1 -> 4 : 0)) /* those after r, by bits */
#define SHUT(to) (shut != 0 && r == 2 && to == 0)

inline agree(round) {
    atomic { n_votes[round]++; against[round] = (against[round] || cause[r] != 0) };
    atomic {
        n_votes[round] == 3 || is_killed ->
        if
        :: against[round] || n_votes[round] < 3 -> cause[r] = (cause[r] == 0 -> OF_ANOTHER : cause[r]); goto done
        :: else
        fi
    }
}

inline call(to, c) { /* call_partner */
    if
    :: atomic { listens[to] && next < CONNECTIONS && !SHUT(to) ->
                c = next; next++; owner[c] = to; inbox[to]!c,CONNECT,0,0,0,false }
    :: atomic { stands_in && next < CONNECTIONS -> stands_in = false; met = true; c = next; next++; place = c }
    :: atomic { !listens[to] || (SHUT(to) && shut == REFUSED) -> cause[r] = NOT_REACHED }
#ifndef FAULT_FILTERED_PORT_AWAITED
    :: atomic { timeout -> cause[r] = NOT_REACHED }
#endif
    fi
}

inline greet(to, c) { /* greet_partner: where the first connection fails, it calls again */
    do
    :: atomic { down[c]?HD_WIRE_CHALLENGE,l,true ->
        answered[l] = answered[l] | (owner[l] == to -> BIT(r) : 0);
        hello[0] = l; hello[1] = r; hello[2] = to; has_heard = true;
        if
        :: owner[c] != NOBODY -> inbox[owner[c]]!c,HD_WIRE_HELLO,l,r,to,true
        :: else
        fi }
    :: atomic { down[c]?HD_WIRE_WELCOME,_,true -> break }
    :: atomic { down[c]?[CLOSED,_,_] || down[c]?[HD_WIRE_CHALLENGE,_,false] || down[c]?[HD_WIRE_WELCOME,_,false] ->
                down[c]?_,_,_; owner[c] = NOBODY; place = CONNECTIONS };
       call(to, c);
       if :: cause[r] != 0 -> break :: else fi
    :: atomic { timeout -> cause[r] = NOT_REACHED; break }
    od
}

inline shut_port() { /* what waits to be accepted, or is nobody's, is closed with the port */
    atomic {
        listens[r] = false;
        for (i : 0 .. CONNECTIONS - 1) {
            if :: owner[i] == r && !(taken & BIT(i)) -> down[i]!CLOSED,0,false; owner[i] = NOBODY :: else fi
        }
    }
}

#ifdef FAULT_RECEIVER_NOT_COMPARED
#define FITS (f > r)
#else
#define FITS (f > r && to == r)
#endif
#ifdef FAULT_NONCE_NOT_COMPARED
#define PROVES (kind == HD_WIRE_HELLO && ok)
#else
#define PROVES (kind == HD_WIRE_HELLO && ok && l == c)
#endif

inline hear() { /* hear_partners */
    do
    :: atomic { admitted[r] == OTHERS(r) -> break }
    :: atomic { admitted[r] != OTHERS(r) && nempty(inbox[r]) -> inbox[r]?c,kind,l,f,to,ok;
        if
        :: kind == CONNECT -> down[c]!HD_WIRE_CHALLENGE,c,true
#ifdef FAULT_SILENT_ONE_AWAITED
           ; inbox[r]??eval(c),kind,l,f,to,ok
#endif
        :: else
        fi;
        if
        :: PROVES && FITS -> assert(answered[c] & BIT(f)); /* else somebody joins who does not know the secret */
           admitted[r] = admitted[r] | BIT(f); taken = taken | BIT(c); down[c]!HD_WIRE_WELCOME,c,true
        :: kind == HD_WIRE_HELLO && !(PROVES && FITS) && owner[c] == r -> down[c]!CLOSED,0,false; owner[c] = NOBODY
        :: else
        fi;
        c = 0; kind = 0; l = 0; f = 0; to = 0; ok = false }
    :: atomic { timeout -> cause[r] = NOT_HEARD; break }
    od
}

proctype Rank(byte r) {
    byte first, second, c, l, f, to, i, taken; /* taken: bit c: connection c is of a rank */
    mtype kind;
    bool ok;
    {
        listens[r] = true;
        agree(0);
        if :: r > 0 -> call(0, first) :: else fi;
        if :: r > 1 && cause[r] == 0 -> call(1, second) :: else fi;
        agree(1);
#ifdef FAULT_SHUT_BEFORE_ALL_CAME
        shut_port();
#endif
        if :: r > 0 -> greet(0, first) :: else fi;
        if :: r > 1 && cause[r] == 0 -> greet(1, second) :: else fi;
        if :: cause[r] == 0 -> hear() :: else fi;
        agree(2);
#ifndef FAULT_LISTENS_ON
        shut_port();
#endif
        agree(3); /* of the trial of the links */
        assert(!listens[0] && !listens[1] && !listens[2]);
done:   atomic { shut_port(); over[r] = true }
    } unless { killed[r] }
}

/* It makes frames without a tag (`false`) and sends what it heard. */
active proctype Stranger() {
    byte at;
end:
    do
    :: atomic { n_acts > 0 && mine == CONNECTIONS && next < CONNECTIONS -> select(at : 0 .. 1);
        if
        :: listens[at] -> n_acts--; mine = next; next++; owner[mine] = at; inbox[at]!mine,CONNECT,0,0,0,false
        :: else
        fi }
    :: atomic { n_acts > 0 && mine < CONNECTIONS && owner[mine] != NOBODY -> n_acts--;
        if
        :: inbox[at]!mine,HD_WIRE_HELLO,mine,2,at,false
        :: has_heard -> inbox[at]!mine,HD_WIRE_HELLO,hello[0],hello[1],hello[2],true
        fi }
    :: atomic { n_acts > 0 && place < CONNECTIONS -> n_acts--;
        if
        :: down[place]!HD_WIRE_CHALLENGE,0,false
        :: mine < CONNECTIONS && nempty(down[mine % CONNECTIONS]) -> down[mine]?_,_,_; down[place]!HD_WIRE_CHALLENGE,mine,true
        :: down[place]!HD_WIRE_WELCOME,0,false
        fi }
    :: atomic { n_acts > 0 -> n_acts = 0; stands_in = false }
    od
}

proctype Kill() {
    byte r, i;
    atomic {
        select(r : 0 .. 2);
        if
        :: !over[r] -> killed[r] = true; over[r] = true; is_killed = true; listens[r] = false;
           for (i : 0 .. CONNECTIONS - 1) {
               if :: owner[i] == r -> down[i]!CLOSED,0,false; owner[i] = NOBODY :: else fi
           }
        :: else
        fi
    }
}

init {
    byte r;
    atomic {
        if :: shut = REFUSED :: shut = FILTERED :: run Kill() :: n_acts = 3; stands_in = true fi;
        run Rank(0); run Rank(1); run Rank(2)
    };
    over[0] && over[1] && over[2];
    assert(is_killed || (cause[0] == 0 && cause[1] == 0 && cause[2] == 0) ||
           (cause[0] != 0 && cause[1] != 0 && cause[2] != 0));
    assert(cause[0] == 0 || shut != 0 || is_killed || met)
}
