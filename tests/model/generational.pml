/* The rules of generational mode (docs/concurrent_cycle.md) for two mutators: minor cycles that scan
 * roots and dirty old objects only, and full ones, before which what is young is recoloured old
 * while the program runs.
 *
 * An object has a page of its own, one mark byte and one field. Filling a run reads the colour in one
 * step and writes the byte in another, in a critical section; mutator 0 alone allocates. What must
 * hold: no object that a mutator can reach is reclaimed.
 */

#ifndef OPERATIONS
#define OPERATIONS 6
#endif
#define CYCLES 2
#define OBJECTS 3
#define NIL OBJECTS

#define FREE 0
#define OLD 1   /* the live epoch; white in a full cycle */
#define YOUNG 2 /* the other one; black in a full cycle */

#define BIT(o) (1 << (o))
#define HAS(set, o) (((set) >> (o)) & 1)

byte mark[OBJECTS];
byte field[OBJECTS];
byte dirty;
byte r0[2], r1[2];
byte held[2];
bit critical[2];
#ifdef NEW_IS_OLD
#define INITIAL OLD
#else
#define INITIAL YOUNG
#endif
byte new_mark = INITIAL;
byte left = OPERATIONS;

byte grey;
byte seen;
byte at;

#define CHECK(o) assert((o) == NIL || mark[o] != FREE)

inline fill(m, o) { /* in two steps; nobody else takes the slot, which is of a page of this thread's */
  critical[m] = 1;
  held[m] = o;
  colour = new_mark
}

proctype mutator(bit m) {
  byte x;
  byte colour;
end:
  do
  :: atomic { left > 0 && r0[m] != NIL && r1[m] != field[r0[m]] -> left--; r1[m] = field[r0[m]]; CHECK(r1[m]) }
  :: d_step { left > 0 && r0[m] != r1[m] -> left--; x = r0[m]; r0[m] = r1[m]; r1[m] = x; x = 0 }
  :: atomic { left > 0 && r1[m] != NIL -> left--; r1[m] = NIL }
  :: d_step {
       left > 0 && r0[m] != NIL && field[r0[m]] != r1[m] ->
       left--;
       CHECK(r0[m]);
       dirty = dirty | BIT(r0[m]);
       field[r0[m]] = r1[m]
     }
  :: atomic {
       m == 0 && left > 0 && held[m] == NIL && mark[1] == FREE -> left--; fill(m, 1)
     }
     atomic { mark[held[m]] = colour; colour = 0; critical[m] = 0 }
  :: atomic {
       m == 0 && left > 0 && held[m] == NIL && mark[2] == FREE -> left--; fill(m, 2)
     }
     atomic { mark[held[m]] = colour; colour = 0; critical[m] = 0 }
  :: d_step {
       left > 0 && held[m] != NIL && r1[m] == NIL ->
       left--;
       r1[m] = held[m];
       held[m] = NIL;
       CHECK(r1[m]);
       dirty = dirty | BIT(r1[m]);
       field[r1[m]] = NIL
     }
  od
}

/* A thread has left its critical section; its run gets the new colour. */
inline handshake(m) {
  d_step {
#ifdef NO_HANDSHAKE
    true ->
#else
    !critical[m] ->
    if
    :: held[m] != NIL -> mark[held[m]] = new_mark
    :: else
    fi;
#endif
    skip
  }
}

#define LOWEST(s) (HAS(s, 0) -> 0 : (HAS(s, 1) -> 1 : 2))

inline reach(o) {
  if
  :: (o) != NIL -> seen = seen | BIT(o)
  :: else
  fi
}
inline reach_from_roots() {
  reach(r0[0]);
  reach(r1[0]);
  reach(r0[1]);
  reach(r1[1])
}

/* With the world stopped: marks from `seen` and `grey`, checks, and gives back what is white. */
inline mark_and_sweep(white, black) {
  reach_from_roots();
  do
  :: seen != 0 ->
     at = LOWEST(seen);
     seen = seen & ~BIT(at);
     if
     :: mark[at] == white -> mark[at] = black; grey = grey | BIT(at)
     :: else
     fi
  :: seen == 0 && grey != 0 ->
     at = LOWEST(grey);
     grey = grey & ~BIT(at);
     reach(field[at])
  :: seen == 0 && grey == 0 -> break
  od;
  reach_from_roots();
  do
  :: (seen & ~grey) != 0 ->
     at = LOWEST(seen & ~grey);
     grey = grey | BIT(at);
     assert(mark[at] == black);
     reach(field[at])
  :: else -> break
  od;
  seen = 0;
  grey = 0;
  at = 0;
  do
  :: at < OBJECTS ->
     if
     :: mark[at] == white -> mark[at] = FREE
     :: mark[at] == black -> mark[at] = OLD
     :: else
     fi;
     at++
  :: else -> break
  od;
  at = 0
}

inline hide(m) {
  if
  :: held[m] != NIL -> mark[held[m]] = FREE
  :: else
  fi
}
inline restore(m) {
  if
  :: held[m] != NIL -> mark[held[m]] = INITIAL
  :: else
  fi
}

inline minor() {
  d_step {
    !critical[0] && !critical[1] ->
    hide(0);
    hide(1);
#ifndef NO_REMEMBERED
    at = 0;
    do
    :: at < OBJECTS ->
       if
       :: HAS(dirty, at) && mark[at] == OLD -> grey = grey | BIT(at)
       :: else
       fi;
       at++
    :: else -> break
    od;
#endif
#ifndef LATE_CLEAR
    dirty = 0;
#endif
    mark_and_sweep(YOUNG, OLD);
    restore(0);
    restore(1)
  }
#ifdef LATE_CLEAR
  dirty = 0;
#endif
}

inline major() {
  new_mark = OLD;
  handshake(0);
  handshake(1);
  at = 0;
  do
  :: at < OBJECTS ->
     atomic {
       if
       :: mark[at] == YOUNG -> mark[at] = OLD
       :: else
       fi;
       at++
     }
  :: else -> break
  od;
  at = 0;
  d_step {
    !critical[0] && !critical[1] ->
    hide(0);
    hide(1);
    dirty = 0;
    mark_and_sweep(OLD, YOUNG);
    new_mark = INITIAL;
    restore(0);
    restore(1)
  }
}

proctype collector() {
  byte cycles;
  do
  :: cycles < CYCLES -> cycles++; minor()
  :: cycles < CYCLES -> cycles++; major()
  :: break
  od
}

init {
  d_step {
    mark[0] = OLD;
    field[0] = NIL;
    field[1] = NIL;
    field[2] = NIL;
    r0[0] = 0;
    r1[0] = NIL;
    held[0] = NIL;
    r0[1] = NIL;
    r1[1] = 0;
    held[1] = NIL
  }
  atomic {
    run mutator(0);
    run mutator(1);
    run collector()
  }
}
