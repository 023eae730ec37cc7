/* The rules of generational mode (docs/design/collection.md) for two mutators: minor collections
 * that scan roots and written old objects only, and full ones, for which old and young are both white.
 * After a full one objects may be born old; then the next is full, too.
 *
 * An object has a page of its own, one mark byte and one field. Pages are armed in the stop that ends a
 * collection, if they have an old object; writes to others are not noted. Filling a run reads the
 * colour in one step and writes the byte in another, in a critical section; mutator 0 alone allocates. What
 * must hold: no object that a mutator can reach is reclaimed.
 */

#ifndef OPERATIONS
#define OPERATIONS 9
#endif
#define CYCLES 3
#define OBJECTS 3
#define NIL OBJECTS

#define FREE 0
#define OLD 1   /* the live epoch */
#define BLACK 2 /* the other one, in a full collection */
#define YOUNG(y) (4 << (y))

#define BIT(o) (1 << (o))
#define HAS(set, o) (((set) >> (o)) & 1)

byte mark[OBJECTS];
byte field[OBJECTS];
byte armed, dirty;
byte r0[2], r1[2];
byte held[2];
bit critical[2];
byte new_mark = OLD;
bit young;
bit tracks; /* the next collection may be minor */
byte left = OPERATIONS;

byte grey;
byte seen;
byte at, dead;

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
       dirty = dirty | (BIT(r0[m]) & armed);
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
       dirty = dirty | (BIT(r1[m]) & armed);
       field[r1[m]] = NIL
     }
  od
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

inline hide(m) {
  if
  :: held[m] != NIL -> mark[held[m]] = FREE
  :: else
  fi
}
inline restore(m, old) { /* `old`: what is the live epoch from here on */
  if
  :: held[m] != NIL -> mark[held[m]] = (new_mark == OLD -> old : new_mark)
  :: else
  fi
}

/* With the world stopped: marks from `seen` and `grey`, checks, gives back what is white (a mask), and
 * decides what objects are born with. */
inline mark_and_sweep(white, black, may_track) {
  reach_from_roots();
  do
  :: seen != 0 ->
     at = LOWEST(seen);
     seen = seen & ~BIT(at);
     if
     :: (mark[at] & (white)) != 0 -> mark[at] = black; grey = grey | BIT(at)
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
  tracks = may_track;
  at = 0;
  dead = white;
#ifndef SAME_YOUNG
  young = 1 - young;
#endif
  new_mark = (tracks -> YOUNG(young) : OLD);
  restore(0, black);
  restore(1, black);
  do
  :: at < OBJECTS ->
     if
     :: (mark[at] & dead) != 0 -> mark[at] = FREE
     :: mark[at] == BLACK -> mark[at] = OLD
     :: else
     fi;
     at++
  :: else -> break
  od;
  at = 0;
  dead = 0
}

/* In the same stop. */
inline arm() {
  at = 0;
  armed = 0;
  do
  :: at < OBJECTS && tracks ->
     if
     :: mark[at] == OLD -> armed = armed | BIT(at)
     :: else
     fi;
     at++
  :: else -> break
  od;
  at = 0
}
#ifdef PROMOTED_UNARMED
#define ARM(minor) if :: (minor) -> skip :: else -> arm() fi
#else
#define ARM(minor) arm()
#endif

inline minor() {
  d_step {
    tracks && !critical[0] && !critical[1] ->
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
    mark_and_sweep(YOUNG(young), OLD, 1);
    ARM(1)
  }
#ifdef LATE_CLEAR
  dirty = 0
#endif
}

inline major(may_track) {
  d_step {
    !critical[0] && !critical[1] ->
    hide(0);
    hide(1);
    dirty = 0;
#ifdef OLD_ALONE
    mark_and_sweep(OLD, BLACK, may_track);
#else
    mark_and_sweep(OLD | YOUNG(young), BLACK, may_track);
#endif
    ARM(0)
  }
}

proctype collector() {
  byte cycles;
  do
  :: cycles < CYCLES && tracks -> cycles++; minor()
  :: cycles < CYCLES -> cycles++; major(1)
  :: cycles < CYCLES -> cycles++; major(0)
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
    held[1] = NIL;
    /* As after a full collection. */
    tracks = 1;
    armed = BIT(0);
    new_mark = YOUNG(young)
  }
  atomic {
    run mutator(0);
    run mutator(1);
    run collector()
  }
}
