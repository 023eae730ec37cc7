/* The stop handshake of a thread that enters and leaves blocking sections (platform/threads/stop_world.cc,
 * Note [blocking]), with a handler of the program's and the handler of the suspend signal, and a
 * stopper that may give a stop up.
 *
 * A stop's number counts the stops. The thread's state word is kind and tag: the claim of a blocked
 * thread, the number of a running one. Of thread, program's handler and suspend handler only the last
 * that was entered runs (level). What must hold: while the world is stopped, the thread does not touch
 * the heap; each stop that is not given up comes about.
 */

#ifndef STOPS
#define STOPS 3
#endif
#define SECTIONS 3
#define HANDLERS 2
#define GIVE_UPS 1

#define RUNNING 0
#define BLOCKED 1
#define PARKED 2

byte stop; /* g_stop */
byte remaining;
byte asked;
byte kind = RUNNING, tag;
byte number; /* StopRecord::running */
bit signalled;
byte level;
bit stopped, all_stops_are_over;

/* LeaveBlocking; nothing if a handler has left the section. */
inline leave(at, k, t) {
  do
  :: atomic {
       level == at ->
       k = kind;
       t = tag;
       if
       :: k != BLOCKED -> break
       :: else
       fi
     }
#ifndef RUN_ON
     if
     :: atomic { level == at && t != 0 && t == stop } ->
        atomic { level == at && stop != t }
     :: atomic { level == at && (t == 0 || t != stop) } ->
#else
     if
     :: atomic { level == at } ->
#endif
        atomic {
          level == at ->
          if
          :: kind == k && tag == t -> kind = RUNNING; tag = number; break
          :: else
          fi
        }
     fi
  od;
  k = 0;
  t = 0
}

inline count_off() {
  assert(remaining != 0);
  remaining--
}

proctype thread() {
  byte k, t, n;
  bit claimed;
  byte sections = SECTIONS;
  do
  :: sections == 0 -> break
  :: else ->
     sections--;
     atomic { level == 0 -> assert(!stopped) }
     do /* BeginBlocking */
     :: atomic { level == 0 -> t = tag }
        atomic {
          level == 0 ->
          if
          :: kind == RUNNING && tag == t -> kind = BLOCKED; tag = 0; break
          :: else
          fi
        }
     od;
     t = 0;
     atomic { level == 0 -> n = asked }
     if /* AnswerBlocked */
     :: n != 0 ->
#ifdef COUNT_FIRST
        atomic {
          level == 0 ->
          if
          :: asked == n -> asked = 0; count_off()
          :: else
          fi
        }
#endif
        atomic {
          level == 0 ->
          if
          :: kind == BLOCKED && tag == 0 -> tag = n; claimed = 1
          :: else
          fi
        }
#ifndef COUNT_FIRST
        if
        :: claimed ->
#ifdef ANY_STOP
           atomic {
             level == 0 ->
             if
             :: asked != 0 -> asked = 0; count_off()
#else
           atomic {
             level == 0 ->
             if
             :: asked == n -> asked = 0; count_off()
#endif
             :: else
             fi
           }
        :: else
        fi;
#endif
        claimed = 0
     :: else
     fi;
     n = 0;
     leave(0, k, t)
  od;
  atomic { level == 0 -> assert(!stopped) }
}

/* A handler that allocates: EndBlocking, or ChangeRunning. */
proctype handler() {
  byte k, t;
  byte left = HANDLERS;
  do
  :: left == 0 -> break
  :: else ->
     atomic { level == 0 -> level = 1; left-- }
     if
     :: atomic { level == 1 && kind == BLOCKED } -> leave(1, k, t)
     :: atomic { level == 1 && kind == RUNNING -> number++; tag = number }
     fi;
     atomic { level == 1 -> assert(!stopped) }
     atomic { level == 1 -> level = 0 }
  od
}

/* OnSuspendSignal and Park. */
proctype suspend_handler() {
  byte n, before, k, t;
end:
  do
  :: atomic { signalled && level < 2 -> signalled = 0; before = level; level = 2; n = asked; asked = 0 }
     if
     :: n == 0
     :: else ->
        atomic { k = kind; t = tag }
        kind = PARKED;
        count_off();
        stop != n;
        atomic { kind = k; tag = t; k = 0; t = 0 }
     fi;
     atomic { level = before; before = 0; n = 0 }
  od
}

proctype stopper() {
  byte k, t;
  byte give_ups = GIVE_UPS;
  byte s = 1;
  do
  :: s > STOPS -> break
  :: else ->
     remaining = 1;
     stop = s;
     do /* Claim */
     :: atomic {
          k = kind;
          t = tag;
          if
          :: k != BLOCKED -> break
          :: else
          fi
        }
        atomic {
          if
          :: kind == k && tag == t -> tag = s; break
          :: else
          fi
        }
     od;
     if
     :: k == BLOCKED
     :: else ->
        remaining++;
        asked = s;
        if /* SignalAsked */
#ifndef NO_SIGNAL
        :: asked != 0 -> signalled = 1
#else
        :: asked != 0
#endif
        :: asked == 0
        fi
     fi;
     remaining--;
     if
     :: remaining == 0 ->
        stopped = 1;
        assert(kind != RUNNING);
        stopped = 0;
        stop = 0
     :: remaining != 0 && give_ups != 0 -> /* Withdraw, AwaitWithdrawn */
        give_ups--;
        atomic {
          if
          :: asked != 0 -> asked = 0; count_off()
          :: else
          fi
        }
        stop = 0;
        remaining == 0
     fi;
     k = 0;
     t = 0;
     s++
  od;
  all_stops_are_over = 1
}

/* Nothing waits for ever. */
proctype observer() {
  if
  :: timeout -> assert(all_stops_are_over)
  fi
}

init {
  atomic { run thread(); run handler(); run suspend_handler(); run stopper(); run observer() }
}
