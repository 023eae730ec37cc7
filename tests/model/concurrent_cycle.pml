/* The protocol of docs/design/concurrent_cycle.md on a heap of a few objects, for two mutators.
 *
 * An object has a page of its own, one mark byte and one field. Colours are named from where the
 * cycle stands, so a flip renames them: LIVE is allocated, and white while marking; BLACK is marked,
 * or allocated while marking; DEAD is what the flip made of white, until the sweep.
 *
 *   object 0   small, in use at the start; both mutators have it
 *   object 1   large, in use at the start; object 0 points to it
 *   object 2   small, on a page that is committed when somebody allocates there, perhaps in mid-cycle
 *
 * Two mutators do anything that a correct program may, OPERATIONS steps in all, but that only mutator
 * 0 allocates and only mutator 1 frees; the collector makes one cycle with ROUNDS rounds at most. The
 * search looks at every order of their steps. What must hold:
 *   P1  no object that a mutator can reach is reclaimed or handed out again;
 *   P2  a marker reads no memory that was given back, and handed out again, since it found it.
 *
 * Stores are seen by page tracking: the first store to an armed page is noted before it is done,
 * and a fetch, which arms the page again, leaves no store under way. With CARDS, a store is followed
 * by one to the page's card, through a store buffer that keeps their order (TSO); a thread that is
 * stopped has emptied its buffer.
 *
 * run.py has the list of the mistakes that can be switched on, each of which must be found, and of
 * variants, which must not break anything.
 */

#ifndef OPERATIONS
#define OPERATIONS 7
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#define OBJECTS 3
#define NIL OBJECTS
#define LARGE 1
#define LATE 2

#define FREE 0
#define LIVE 1
#define BLACK 2
#define DEAD 3

#define BIT(o) (1 << (o))
#define HAS(set, o) (((set) >> (o)) & 1)

byte mark[OBJECTS];
byte field[OBJECTS];
byte dirty;        /* pages: what the tracker says, or the cards */
byte armed;        /* pages that are tracked */
byte committed;    /* pages there are */
byte swept;        /* pages that this cycle's sweep is done with */
bit given_back;    /* GC_free of the large object while marking: the sweep frees it */

byte r0[2], r1[2]; /* the mutators' registers: the roots */
byte held = NIL;   /* a slot that mutator 0 holds and has not handed out: its run */

byte left = OPERATIONS;

bit marking;       /* allocation is black */
bit sweeping;

/* The marker. */
byte found;        /* objects it has found pointers to, and not looked at their marks */
byte white = NIL;  /* the one of them whose mark it has found white, and not yet written */
byte grey;         /* objects marked and not scanned */
bit stale;         /* it holds memory that was given back and handed out */
byte pending;      /* pages to be scanned again */
byte page;
byte at;

#define MAY_READ(o) (HAS(found | grey, o) || white == (o))

/* What runs are filled with. */
#if defined(WHITE_ALLOCATION)
#define NEW (sweeping -> DEAD : LIVE)
#elif defined(WHITE_WHILE_MARKING)
#define NEW LIVE
#else
#define NEW (marking -> BLACK : LIVE)
#endif

#ifdef ALLOCATE_UNSWEPT
#define LISTED(o) true
#else
#define LISTED(o) (!sweeping || HAS(swept, o))
#endif

/* P1: what a mutator has in hand is allocated. */
#define CHECK(o) assert((o) == NIL || mark[o] == LIVE || mark[o] == BLACK)

#define POINTED_TO(o) (field[0] == (o) || field[1] == (o) || field[2] == (o))
/* A program may give back what it alone has in hand. */
#define IS_MINE(m, o) \
  (r0[m] != (o) && r0[1 - m] != (o) && r1[1 - m] != (o) && !POINTED_TO(o) && !BUFFERED(o))

#ifdef CARDS
byte into[2] = NIL;   /* the object whose field or card a pending store goes to */
byte value[2];
bit pointer_stored[2]; /* is in the buffer */
bit card_stored[2];
bit owes_card[2];      /* between the two instructions */

#define SEEN_BY(m, o) ((pointer_stored[m] && into[m] == (o)) -> value[m] : field[o])
#define BUFFERED(o) \
  (pointer_stored[0] && (into[0] == (o) || value[0] == (o)) || \
   pointer_stored[1] && (into[1] == (o) || value[1] == (o)))
#define BUFFER_IS_EMPTY(m) (!pointer_stored[m] && !card_stored[m])
#ifdef CARD_FIRST
#define MAY_LEAVE_POINTER(m) (!card_stored[m])
#define MAY_LEAVE_CARD(m) true
#else
#define MAY_LEAVE_POINTER(m) true
#define MAY_LEAVE_CARD(m) (!pointer_stored[m])
#endif
#define IS_TRACKED(o) false

inline leave_pointer(m) {
  field[into[m]] = value[m];
  pointer_stored[m] = 0;
  value[m] = 0;
  if
  :: !card_stored[m] && !owes_card[m] -> into[m] = NIL
  :: else
  fi
}
inline leave_card(m) {
  dirty = dirty | BIT(into[m]);
  card_stored[m] = 0;
  if
  :: !pointer_stored[m] && !owes_card[m] -> into[m] = NIL
  :: else
  fi
}
inline drain(m) {
  if
  :: pointer_stored[m] -> leave_pointer(m)
  :: else
  fi;
  if
  :: card_stored[m] -> leave_card(m)
  :: else
  fi
}
#else
#define SEEN_BY(m, o) field[o]
#define BUFFERED(o) false
#define BUFFER_IS_EMPTY(m) true
#define IS_TRACKED(o) HAS(armed, o)
#define drain(m) skip
#endif

#define MAY_TAKE(o) (left > 0 && held == NIL && mark[o] == FREE)
inline take(o) {
  mark[o] = NEW;
  held = o;
  committed = committed | BIT(o);
  if
  :: MAY_READ(o) && o == LARGE -> stale = 1
  :: else
  fi
}

proctype mutator(bit m) {
  byte x;
end:
  do
  /* Load. */
  :: atomic {
       left > 0 && r0[m] != NIL && r1[m] != SEEN_BY(m, r0[m]) ->
       left--;
       r1[m] = SEEN_BY(m, r0[m]);
       CHECK(r1[m])
     }
  /* Move between registers, drop. */
  :: d_step { left > 0 && r0[m] != r1[m] -> left--; x = r0[m]; r0[m] = r1[m]; r1[m] = x; x = 0 }
  :: atomic { left > 0 && r1[m] != NIL -> left--; r1[m] = NIL }

  /* Store a pointer, or nil. */
#ifndef CARDS
  :: d_step {
       left > 0 && r0[m] != NIL && field[r0[m]] != r1[m] ->
       left--;
       CHECK(r0[m]);
       dirty = dirty | (armed & BIT(r0[m]));
       field[r0[m]] = r1[m]
     }
#else
  :: atomic {
       left > 0 && r0[m] != NIL && BUFFER_IS_EMPTY(m) && field[r0[m]] != r1[m] ->
       left--;
       CHECK(r0[m]);
       into[m] = r0[m];
       owes_card[m] = 1;
#ifdef CARD_FIRST
       value[m] = r1[m];
       card_stored[m] = 1
     }
     atomic { owes_card[m] = 0; pointer_stored[m] = 1 }
#else
       value[m] = r1[m];
       pointer_stored[m] = 1;
#ifdef VALUE_IS_DEAD
       r1[m] = NIL
#endif
     }
     atomic {
       owes_card[m] = 0;
#ifdef CARD_IF_CLEAN
       if
       :: !HAS(dirty, into[m]) -> card_stored[m] = 1
       :: else ->
          if
          :: !pointer_stored[m] -> into[m] = NIL
          :: else
          fi
       fi
#else
       card_stored[m] = 1
#endif
     }
#endif
  :: d_step { pointer_stored[m] && MAY_LEAVE_POINTER(m) -> leave_pointer(m) }
  :: d_step { card_stored[m] && MAY_LEAVE_CARD(m) -> leave_card(m) }
#endif

  /* The slow path of allocation: a free slot is found and its byte filled, in a critical section. */
  :: atomic { MAY_TAKE(0) && LISTED(0) && m == 0 -> left--; take(0) }
  :: atomic { MAY_TAKE(LARGE) && !given_back && m == 0 -> left--; take(LARGE) }
  :: atomic { MAY_TAKE(LATE) && LISTED(LATE) && m == 0 -> left--; take(LATE) }
  /* The fast path writes no mark byte. Memory is zeroed ahead of it, which is a store. */
  :: d_step {
       left > 0 && m == 0 && held != NIL && r1[m] == NIL ->
       left--;
       r1[m] = held;
       held = NIL;
       CHECK(r1[m]);
       if
       :: IS_TRACKED(r1[m]) -> dirty = dirty | BIT(r1[m])
       :: else
       fi;
       field[r1[m]] = NIL
     }

  /* GC_free. */
  :: atomic {
       left > 0 && m == 1 && r1[m] != NIL && BUFFER_IS_EMPTY(m) && IS_MINE(m, r1[m]) ->
       left--;
       CHECK(r1[m]);
       if
#ifndef FREE_AT_ONCE
       :: r1[m] == LARGE && marking -> given_back = 1
#endif
#ifdef SMALL_SLOTS_WAIT
       :: r1[m] != LARGE && marking -> skip /* it is garbage from here on, if an unmarked one */
#endif
       :: else -> mark[r1[m]] = FREE
       fi;
       r1[m] = NIL
     }
  od
}

inline arm() {
  d_step {
    dirty = 0;
    armed = committed
  }
}

/* Stops one thread: its run turns black, its roots are noted. */
inline handshake(m) {
  d_step {
    drain(m);
#if !defined(WHITE_ALLOCATION) && !defined(WHITE_WHILE_MARKING)
    if
    :: m == 0 && held != NIL && mark[held] == LIVE -> mark[held] = BLACK
    :: else
    fi;
#endif
    if
    :: r0[m] != NIL -> found = found | BIT(r0[m])
    :: else
    fi;
    if
    :: r1[m] != NIL -> found = found | BIT(r1[m])
    :: else
    fi
  }
}

/* The lowest member of a set. */
#define LOWEST(s) \
  (HAS(s, 0) -> 0 : (HAS(s, 1) -> 1 : (HAS(s, 2) -> 2 : NIL)))

/* Marks until nothing is left to do. Each mark byte is read in one step and written in another. */
inline drain_marker() {
  do
  :: atomic {
       white != NIL ->
       mark[white] = BLACK;
       grey = grey | BIT(white);
       white = NIL
     }
  :: d_step {
       white == NIL && found != 0 ->
       at = LOWEST(found);
       found = found & ~BIT(at);
       if
       :: mark[at] == LIVE -> white = at
       :: else
       fi;
       at = 0
     }
  :: d_step {
       white == NIL && found == 0 && grey != 0 ->
       at = LOWEST(grey);
       grey = grey & ~BIT(at);
       assert(!(at == LARGE && stale)); /* P2 */
       if
       :: field[at] != NIL -> found = found | BIT(field[at])
       :: else
       fi;
       at = 0
     }
  :: white == NIL && found == 0 && grey == 0 -> break
  od;
  stale = 0
}

/* A round, page by page: is it dirty, or new since the last round? Then arm it again, and scan what
 * is marked on it once more; but a page may be hot, and wait for the next round or the last. */
inline round() {
  page = 0;
  do
  :: page < OBJECTS ->
     d_step {
       pending = pending | (dirty & BIT(page));
#ifndef CLEAR_AFTER_SCAN
       dirty = dirty & ~BIT(page);
#endif
#if !defined(CARDS) && !defined(NEW_PAGES_ARE_CLEAN)
       pending = pending | (committed & ~armed & BIT(page));
#endif
       armed = armed | (committed & BIT(page))
     }
     if
     :: d_step {
          HAS(pending, page) ->
          pending = pending & ~BIT(page);
          if
          :: mark[page] == BLACK -> grey = grey | BIT(page)
          :: else
          fi
        }
        drain_marker();
#ifdef CLEAR_AFTER_SCAN
        dirty = dirty & ~BIT(page);
#endif
     :: skip
     fi;
     page++
  :: else -> break
  od;
  page = 0
}

inline reach(o) {
  if
  :: (o) != NIL -> found = found | BIT(o)
  :: else
  fi
}
inline reach_from_roots() {
  reach(r0[0]);
  reach(r1[0]);
  reach(r0[1]);
  reach(r1[1])
}
/* With the world stopped. */
inline finish() {
  drain(0);
  drain(1);
  /* Runs are hidden. */
  if
  :: held != NIL -> mark[held] = FREE
  :: else
  fi;
#ifndef NO_LAST_FETCH
  pending = pending | dirty;
#ifndef CARDS
#ifndef NEW_PAGES_ARE_CLEAN
  pending = pending | (committed & ~armed);
#endif
#endif
#endif
  at = 0;
  do
  :: at < OBJECTS ->
     if
     :: HAS(pending, at) && mark[at] == BLACK -> grey = grey | BIT(at)
     :: else
     fi;
     at++
  :: else -> break
  od;
#ifndef NO_LAST_ROOTS
  reach_from_roots();
#endif
  do
  :: found != 0 ->
     at = LOWEST(found);
     found = found & ~BIT(at);
     if
     :: mark[at] == LIVE -> mark[at] = BLACK; grey = grey | BIT(at)
     :: else
     fi
  :: found == 0 && grey != 0 ->
     at = LOWEST(grey);
     grey = grey & ~BIT(at);
     reach(field[at])
  :: found == 0 && grey == 0 -> break
  od;

  /* The flip. Whatever can be reached is black now: P1. */
  reach_from_roots();
  do
  :: (found & ~grey) != 0 ->
     at = LOWEST(found & ~grey);
     grey = grey | BIT(at);
     assert(mark[at] == BLACK);
     reach(field[at])
  :: else -> break
  od;
  found = 0;
  grey = 0;
  at = 0;
  do
  :: at < OBJECTS ->
     if
     :: mark[at] == LIVE -> mark[at] = DEAD
     :: mark[at] == BLACK -> mark[at] = LIVE
     :: else
     fi;
     at++
  :: else -> break
  od;
  at = 0;
  /* Runs are restored; the pages they are on are swept before the world runs. */
  swept = 0;
#ifndef RUNS_STAY_HIDDEN
  if
  :: held != NIL -> mark[held] = LIVE; swept = swept | BIT(held)
  :: else
  fi;
#endif
  pending = 0;
  dirty = 0;
  armed = 0;
  marking = 0;
  sweeping = 1
}

/* Page by page, while mutators run: a page without live objects becomes a free page. */
inline sweep() {
  bit is_empty;
  at = 0;
  do
  :: at < OBJECTS ->
     if
     :: !HAS(swept, at) ->
        atomic {
          is_empty = mark[at] == FREE || mark[at] == DEAD;
          if
          :: at == LARGE && mark[at] == FREE -> is_empty = 0 /* its pages are with the page space */
          :: at == LARGE && given_back -> given_back = 0; is_empty = 1
          :: else
          fi
        }
        atomic {
          if
          :: is_empty -> mark[at] = FREE; is_empty = 0
          :: else
          fi;
          swept = swept | BIT(at)
        }
     :: else
     fi;
     at++
  :: else -> break
  od;
  at = 0
}

proctype collector() {
  byte rounds;
#ifndef ARM_LATE
  arm();
#endif
  marking = 1;
  handshake(0);
  handshake(1);
#ifdef ARM_LATE
  drain_marker();
  arm();
#endif
  drain_marker();
  do
  :: rounds < ROUNDS -> rounds++; round()
  :: break
  od;
  rounds = 0;
  d_step { finish() }
  sweep();
  d_step { sweeping = 0; swept = 0 }
}

init {
  d_step {
    mark[0] = LIVE;
    field[0] = LARGE;
    mark[LARGE] = LIVE;
    field[LARGE] = NIL;
    field[2] = NIL;
    committed = BIT(0) | BIT(LARGE);
    r0[0] = 0;
    r1[0] = NIL;
    r0[1] = 0;
    r1[1] = NIL
  }
  atomic {
    run mutator(0);
    run mutator(1);
    run collector()
  }
}
