"""Gleaner's heap in gdb: docs/reference/heap.md.

    (gdb) source PREFIX/share/gleaner/gleaner_gdb.py
    (gdb) help gleaner

Only reads memory and registers: works on a process and on a core file alike, and calls nothing in
either.

How it knows the layout. The library is compiled with -g1, which describes no variables and no
types. The few files that define the heap's globals are compiled with -g2 (CMakeLists.txt), so the
debug information has these with all types that can be reached from them. Fields are read by their
names, enumerators are printed by theirs, and nothing of the layout is repeated here. A name that is
no longer there is an error that names it. What is left to be known are meanings: of mark bytes
(alloc/page.h), of the two low bits of a thread's state word (platform/threads/stop_world.h), of a run
(alloc/thread_heap.h).

A process may have several such libraries (a program on libgc.so.1 under libgleaner_malloc.so). Each
that has a heap is an Instance; an address belongs to the one that has reserved it.
"""

import os
import struct

import gdb

GLEANER = "gleaner::"
DISCLAIMING = 16  # kDisclaiming
NO_PAGE = 2**32 - 1  # kNoPage
WORD = 8
RED_ZONE = 128  # x86-64: below the stack pointer
KINDS = ("atomic", "normal", "uncollectable", "atomic uncollectable")
UNCOLLECTABLE = (2, 3)
PAGE_SHIFT = 14
PAGE = 1 << PAGE_SHIFT
MARKS_PER_PAGE = PAGE // 16
ONE_FREE_SLOT = 8  # Standing::kOneFree
AT_ONCE = 1 << 20  # bytes read from the process

# --- Values ---


def members(type_):
    """What an object of the type has: no static members."""
    return [field for field in type_.strip_typedefs().fields() if hasattr(field, "bitpos")]


def strip(value):
    """A number out of what wraps it: Atomic, std::atomic."""
    while value.type.strip_typedefs().code == gdb.TYPE_CODE_STRUCT:
        value = value[members(value.type)[0]]
    return value


def enumerators(type_):
    """Those of an enum, or of an Atomic of one, by value: {1: "marking"} for kMarking."""
    while type_.strip_typedefs().code == gdb.TYPE_CODE_STRUCT:
        type_ = members(type_)[0].type
    return {field.enumval: words_of(field.name) for field in type_.strip_typedefs().fields()}


def number(value):
    return int(strip(value))


def name(value):
    return enumerators(value.type).get(number(value), str(number(value)))


def words_of(enumerator):
    text = enumerator.rsplit("::", 1)[-1].removeprefix("k")
    return "".join(" " + c.lower() if c.isupper() else c for c in text).strip()


def layout(type_, prefix=0):
    """Name of each field: (offset, field), those of anonymous members included."""
    found = {}
    for field in members(type_):
        offset = prefix + field.bitpos // 8
        if not field.name:
            found.update(layout(field.type, offset))
        else:
            found[field.name] = (offset, field)
    return found


def read(address, length):
    return bytes(gdb.selected_inferior().read_memory(address, length))


def words(begin, end):
    """(address, words) of the readable pieces of [begin, end)."""
    at = (begin + WORD - 1) & -WORD
    end &= -WORD
    while at < end:
        length = min(AT_ONCE - at % AT_ONCE, end - at)
        try:
            yield at, memoryview(read(at, length)).cast("Q")
        except gdb.MemoryError:
            if length > 4096 - at % 4096:
                stop = at + length
                while at < stop:
                    part = min(4096 - at % 4096, stop - at)
                    try:
                        yield at, memoryview(read(at, part)).cast("Q")
                    except gdb.MemoryError:
                        pass
                    at += part
                continue
        at += length


def pointers(begin, end, low, high):
    """(address, word) for what lies in [begin, end) and points into [low, high]."""
    for at, piece in words(begin, end):
        for i, word in enumerate(piece):
            if low <= word <= high:
                yield at + i * WORD, word


def symbol_at(address):
    text = gdb.execute(f"info symbol {address:#x}", to_string=True).strip()
    return "" if text.startswith("No symbol") else text


# --- The library ---


class Instance:
    """A library, or a program that has it in itself, with a heap."""

    def __init__(self, objfile):
        self.objfile = objfile
        self.path = objfile.filename

    def symbol(self, path, name_):
        """gleaner::<path>::<name>, also of an anonymous namespace."""
        plain = self.objfile.lookup_global_symbol(f"{GLEANER}{path}::{name_}")
        hidden = plain or self.objfile.lookup_static_symbol(
            f"{GLEANER}{path}::(anonymous namespace)::{name_}")
        if hidden is None:
            raise gdb.GdbError(f"{self.path}: there is no {path}::{name_}: this script is not that "
                               "library's")
        return hidden.value()

    def is_there(self):
        return self.objfile.lookup_global_symbol(f"{GLEANER}alloc::g_space") is not None

    def load(self):
        """Reads what every command needs. The process may run on between two commands."""
        space = self.symbol("alloc", "g_space")
        self.base, self.bytes = number(space["base"]), number(space["bytes"])
        if self.base == 0:
            return False
        self.registry = self.symbol("runtime", "g_registry")
        self.has_collector = number(self.registry["records"]["max_"]) != 0
        self.info_address, self.meta_address = number(space["info"]), number(space["meta"])
        self.marks_address = number(space["marks"])
        self.scanned_end = number(space["scanned_end"])
        self.pointer_free_begin = number(space["pointer_free_begin"])
        self.page_count = self.bytes >> PAGE_SHIFT
        info_type = space["info"].type.target().strip_typedefs()
        meta_type = space["meta"].type.target().strip_typedefs()
        self.info_bytes, self.meta_bytes = info_type.sizeof, meta_type.sizeof
        self.info_fields, self.meta_fields = layout(info_type), layout(meta_type)
        self.states = enumerators(self.info_fields["state"][1].type)
        self.listings = enumerators(gdb.lookup_type(GLEANER + "alloc::Listing"))
        for atomic in ("g_dead_mark", "g_epoch", "g_young"):
            setattr(self, atomic, number(self.symbol("alloc", atomic)))
        marker = self.symbol("gc", "g_collector")["marker_"]
        self.white, self.black = number(marker["white_"]), number(marker["black_"])
        self.threads = [Thread(self, value) for value in self.thread_records()]
        self.runs = {}
        shared = self.symbol("alloc", "g_shared")
        for i in range(number(shared["count"])):
            for run in Run.all_of(shared["heaps"]["data_"][i].dereference()):
                self.runs.setdefault(run.page, []).append(run)
        return True

    def thread_records(self):
        if not self.has_collector:
            return []
        record_type = self.registry["free"].type  # Thread*
        data = self.registry["records"]["data_"]
        return [data[i].cast(record_type).dereference()
                for i in range(number(self.registry["count"]))]

    def thread_of_heap(self, index):
        for thread in self.threads:
            if thread.heap == index:
                return thread
        return None

    def describe_heap(self, index):
        thread = self.thread_of_heap(index)
        if thread:
            return f"{index}, of {thread}"
        if index == 0:
            return "0, of no thread"
        return f"{index}, of a thread that has ended"

    # --- Pages ---

    def reserves(self, address):
        return self.base <= address < self.base + self.bytes

    def contains(self, address):
        page = (address - self.base) >> PAGE_SHIFT
        return self.reserves(address) and (page < self.scanned_end or
                                           page >= self.pointer_free_begin)

    def address_of(self, page):
        return self.base + (page << PAGE_SHIFT)

    def pages(self, begin, end):
        """The pages [begin, end)."""
        infos = read(self.info_address + begin * self.info_bytes, (end - begin) * self.info_bytes)
        metas = read(self.meta_address + begin * self.meta_bytes, (end - begin) * self.meta_bytes)
        for i in range(end - begin):
            yield Page(self, begin + i, infos[i * self.info_bytes:(i + 1) * self.info_bytes],
                       metas[i * self.meta_bytes:(i + 1) * self.meta_bytes])

    def page(self, number_):
        return next(self.pages(number_, number_ + 1))

    def all_pages(self):
        for begin, end in ((0, self.scanned_end), (self.pointer_free_begin, self.page_count)):
            for at in range(begin, end, 4096):
                yield from self.pages(at, min(at + 4096, end))

    # --- Colours ---

    def is_in_use(self, mark):
        """IsInUse of alloc/page.h; while a stop marks, what is white may be dead."""
        return mark != 0 and mark & self.g_dead_mark == 0

    def count_in_use(self, marks):
        return sum(marks.count(mark) for mark in set(marks) if self.is_in_use(mark))

    def colour(self, mark):
        """What a mark byte means now: a word, and why."""
        if mark == 0:
            return "free", "nothing is allocated here"
        if mark == DISCLAIMING:
            return "unreachable", "its kind's disclaim procedure has not been asked yet"
        if mark & self.g_dead_mark:
            return "dead", "not reached by the last collection; the sweep has yet to come here"
        if self.white:
            if mark & self.white:
                return "white", "allocated, not reached by this cycle yet"
            if mark == self.black:
                return "black", "reached by this cycle, or allocated since it began"
        if mark == self.g_young:
            return "young", "allocated since the last collection"
        if mark == self.g_epoch:
            return "live", "allocated; the mark is the live epoch"
        return "dead", "a mark of an earlier cycle; the sweep has yet to come here"


class Page:
    """One row of the tables, as it was read."""

    def __init__(self, instance, number_, info, meta):
        self.instance, self.number = instance, number_
        self.address = instance.address_of(number_)
        self.info, self.meta = info, meta
        self.state = instance.states[self.of_info("state")]
        self.kind = self.of_info("kind")
        self.slot_bytes = self.slots = 0
        if self.state == "small":
            self.slot_bytes, self.slots = self.of_info("slot_bytes"), self.of_info("slot_count")
        elif self.state == "large":
            self.slot_bytes, self.slots = self.of_info("object_bytes"), 1

    def get(self, fields, row, name_):
        offset, field = fields[name_]
        return int.from_bytes(row[offset:offset + field.type.sizeof], "little")

    def of_info(self, name_):
        return self.get(self.instance.info_fields, self.info, name_)

    def of_meta(self, name_):
        return self.get(self.instance.meta_fields, self.meta, name_)

    def kind_name(self):
        made = f"made by the program, number {self.kind}"
        return KINDS[self.kind] if self.kind < len(KINDS) else made

    def is_pointer_free(self):
        return self.of_info("contents") == 1

    def listing(self):
        return self.instance.listings.get(self.of_meta("standing_word") % ONE_FREE_SLOT, "?")

    def marks(self):
        return read(self.instance.marks_address + self.number * MARKS_PER_PAGE, self.slots)

    def count(self):
        """Slots that are allocated, and slots in runs."""
        marks = self.marks()
        allocated, unused = self.instance.count_in_use(marks), 0
        for run in self.instance.runs.get(self.number, ()):
            begin, end = (max(0, at - self.address) // self.slot_bytes for at in (run.begin, run.end))
            allocated -= self.instance.count_in_use(marks[begin:end])
            unused += end - begin
        return allocated, unused


class Object:
    def __init__(self, page, slot, mark):
        self.page, self.slot, self.mark = page, slot, mark
        self.bytes = page.slot_bytes
        self.base = page.address + slot * page.slot_bytes

    @classmethod
    def at(cls, instance, address):
        """The slot that an address points into, allocated or not; None if there is none."""
        page = instance.page((address - instance.base) >> PAGE_SHIFT)
        if page.state == "tail":
            page = instance.page(page.number - page.of_info("pages_back"))
        if page.slots == 0:
            return None
        slot = (address - page.address) // page.slot_bytes if page.state == "small" else 0
        return cls(page, slot, page.marks()[slot]) if slot < page.slots else None

    def run(self):
        """The run that has the slot, if it is not handed out yet."""
        for run in self.page.instance.runs.get(self.page.number, ()):
            if run.begin <= self.base < run.end:
                return run
        return None

    def is_allocated(self):
        return (self.page.instance.is_in_use(self.mark) and self.mark != DISCLAIMING and
                self.run() is None)

    def __str__(self):
        return f"{self.base:#x}, {self.bytes} bytes, {self.page.kind_name()}"

    def place(self, word):
        """Where in the object a pointer to it leads."""
        if word == self.base:
            return "its base"
        return "one past its end" if word == self.base + self.bytes else f"base + {word - self.base}"


class Run:
    """Slots [begin, end) of a page, set aside for a thread and not handed out: alloc/thread_heap.h.
    Their marks are those of new objects, or 0 while a stop marks."""

    def __init__(self, heap, page, begin, end):
        self.heap, self.page, self.begin, self.end = heap, page, begin, max(begin, end)

    @classmethod
    def all_of(cls, heap):
        index = number(heap["index"])
        for kind in range(number(heap["kinds_"])):
            runs, bumps = heap["runs"][kind], heap["bumps"][kind]
            for size_class in range(runs.type.range()[1] + 1):
                page = number(runs[size_class]["page"])
                if page != NO_PAGE:
                    yield cls(index, page, number(runs[size_class]["begin"]),
                              number(bumps[size_class]["cur"]))


class Thread:
    """A registered thread."""

    def __init__(self, instance, value):
        self.value = value
        self.tid = number(value["tid"])
        self.thread_pointer = number(value["thread_pointer"])
        self.stack = (number(value["stack"]["begin"]), number(value["stack"]["end"]))
        self.tls = (number(value["static_tls"]["begin"]), number(value["static_tls"]["end"]))
        self.heap = number(value["heap"].dereference()["index"])
        self.stack_pointer = number(value["stack_pointer"])
        word = number(value["state"])
        self.state = ("running", "blocked", "parked")[word & 3]  # StateWord
        self.gdb = None
        for thread in gdb.selected_inferior().threads():
            if self.tid in (thread.ptid[1], thread.ptid[2]):
                self.gdb = thread

    def __str__(self):
        number_ = f" (gdb thread {self.gdb.num})" if self.gdb else ""
        return f"thread {self.tid}{number_}"

    def live_from(self, stack_pointer):
        """Where the part of the stack begins that is a root."""
        if self.state == "running" or self.stack_pointer == 0:
            return stack_pointer - RED_ZONE
        return self.stack_pointer


# --- What commands share ---


def instances():
    """The heaps of the process; an error that says what is missing if there is none."""
    if gdb.selected_inferior().pid == 0:
        raise gdb.GdbError("there is no process and no core file: gdb -p PID, or gdb PROGRAM CORE")
    here = [Instance(objfile) for objfile in gdb.objfiles() if objfile.is_valid()]
    libraries = [instance for instance in here if instance.is_there()]
    if not libraries:
        names = [i.path for i in here
                 if os.path.basename(i.path or "").startswith(("libgleaner.so", "libgleaner_malloc"))
                 or i.objfile.lookup_global_symbol("GC_malloc")]
        try:
            gdb.parse_and_eval("(long)&gleaner_version")
            found = True
        except gdb.error:
            found = bool(names)
        if found:
            where = names[0] if names else symbol_object("gleaner_version")
            raise gdb.GdbError(f"{where}: Gleaner without debug information: it was stripped; use a "
                               "library that is not, or put its debug file where gdb looks")
        raise gdb.GdbError("not a process with Gleaner: no loaded object has its heap (of a core "
                           "file gdb needs the program, too: gdb PROGRAM CORE)")
    started = [instance for instance in libraries if instance.load()]
    if not started:
        raise gdb.GdbError(f"{libraries[0].path}: the heap has not been used yet")
    with_collector = [instance for instance in started if instance.has_collector]
    if not with_collector:
        raise gdb.GdbError(f"{started[0].path}: a malloc without a collector (GLEANER_COLLECT is "
                           "not set): there are no roots, no colours and no cycles")
    return with_collector


def symbol_object(symbol):
    text = gdb.execute(f"info symbol {symbol}", to_string=True).strip()
    return text.split(" of ", 1)[1] if " of " in text else gdb.current_progspace().filename


def parse_address(text):
    if not text:
        raise gdb.GdbError("an address is missing: any expression of gdb's that is one")
    try:
        value = gdb.parse_and_eval(text)
    except gdb.error as error:
        raise gdb.GdbError(str(error)) from None
    if value.type.strip_typedefs().code == gdb.TYPE_CODE_ARRAY:
        value = value.address
    return int(value.cast(gdb.lookup_type("unsigned long"))) & (2**64 - 1)


def heap_of(address):
    """The instance an address belongs to; an error if it is no heap's."""
    found = instances()
    for instance in found:
        if not instance.reserves(address):
            continue
        if instance.contains(address):
            return instance
        raise gdb.GdbError(f"{address:#x} is reserved for the heap and not in use: no page has ever "
                           "been there")
    ranges = ", ".join(f"{i.base:#x} to {i.base + i.bytes:#x}" for i in found)
    raise gdb.GdbError(f"{address:#x} is not in the heap ({ranges})")


class Command(gdb.Command):
    """Runs `show`; keeps the selected thread and frame."""

    def __init__(self, name_):
        super().__init__(f"gleaner {name_}", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        thread = gdb.selected_thread()
        try:
            frame = gdb.selected_frame()
        except gdb.error:
            frame = None
        try:
            self.show(argument)
        except gdb.MemoryError as error:
            raise gdb.GdbError(f"{error} (the heap's tables cannot be read: is the core file whole, "
                               "and of this program?)") from None
        finally:
            if thread is not None and thread.is_valid():
                thread.switch()
                if frame is not None and frame.is_valid():
                    frame.select()


class Prefix(gdb.Command):
    """Gleaner's heap: pages, objects and roots of a process or core file."""

    def __init__(self):
        super().__init__("gleaner", gdb.COMMAND_DATA, gdb.COMPLETE_NONE, True)

    def invoke(self, argument, from_tty):
        if argument:
            raise gdb.GdbError(f"gleaner: there is no command {argument}: help gleaner lists them")
        gdb.execute("help gleaner")


# --- The commands ---


class Address(Command):
    """gleaner address ADDR: the page and the object of an address, what its mark byte means now, and
whose thread heap it belongs to."""

    def show(self, argument):
        address = parse_address(argument)
        instance = heap_of(address)
        page = instance.page((address - instance.base) >> PAGE_SHIFT)
        head = page
        if page.state == "tail":
            head = instance.page(page.number - page.of_info("pages_back"))
        side = "scanned" if page.number < instance.pointer_free_begin else "pointer-free"
        state = page.state
        if head is not page:
            state += f" of the large object of page {head.number}"
        if head.slots:
            state += f", {head.listing()}"
        print(f"page    {page.number} at {page.address:#x} of the {side} space: {state}")
        if head.slots == 0:
            print("object  none: the page has no objects")
            return
        print(f"kind    {head.kind_name()}")
        if head.state == "small":
            allocated, unused = head.count()
            print(f"slots   {head.slots} of {head.slot_bytes} bytes (size class "
                  f"{head.of_info('size_class')}): {allocated} allocated, {unused} in a run, "
                  f"{head.slots - allocated - unused} free")
        found = Object.at(instance, address)
        if found is None:
            print("object  none: the waste behind the last slot")
            return
        print(f"object  {found.base:#x}, {found.bytes} bytes: the address is at +"
              f"{address - found.base}")
        colour, why = instance.colour(found.mark)
        print(f"mark    {found.mark}: {colour}: {why}")
        run = found.run()
        if run is not None:
            print(f"run     of heap {run.heap}: set aside for its thread, not handed out yet")
        if head.state == "small":
            print(f"heap    {instance.describe_heap(head.of_meta('owner'))}")
        else:
            print("heap    none: large objects have pages of their own")


class Roots(Command):
    """gleaner roots ADDR [-heap] [-all]: what points into the object at an address: words of the
program's data, of threads' stacks, registers and thread-local storage, of fibers, and uncollectable
objects. -heap: also other objects of the heap. -all: every word, not only the first 32 of a
sort."""

    MAX_SHOWN = 32

    def show(self, argument):
        options = set()
        rest = argument
        while rest and rest.rsplit(None, 1)[-1] in ("-heap", "-all"):
            rest, _, option = rest.rstrip().rpartition(" ")
            options.add(option)
        address = parse_address(rest)
        instance = heap_of(address)
        found = Object.at(instance, address)
        if found is None:
            raise gdb.GdbError(f"{address:#x} is in no object: see gleaner address")
        print(f"object {found}: {instance.colour(found.mark)[0]}")
        if not found.is_allocated():
            print("It is not allocated: words that point to it keep nothing.")
        self.max_shown = 2**62 if "-all" in options else self.MAX_SHOWN
        self.object, self.instance = found, instance
        self.low, self.high = found.base, found.base + found.bytes
        self.total = 0
        if found.page.kind in UNCOLLECTABLE and found.is_allocated():
            print("root: the object itself is uncollectable")
            self.total += 1
        self.data()
        for thread in instance.threads:
            self.thread(thread)
        self.fibers()
        self.uncollectable()
        if not self.total:
            print("No root points to it.")
        if "-heap" in options:
            self.total = 0
            self.heap()
            if not self.total:
                print("No object of the heap points to it.")

    def list(self, label, begin, end, describe=lambda at: ""):
        """Prints the words of [begin, end) that point to the object; says how many there were."""
        count = 0
        for at, word in pointers(begin, end, self.low, self.high):
            count += 1
            if count <= self.max_shown:
                print(f"{label}: {at:#x}{describe(at)} holds {word:#x}, {self.object.place(word)}")
        if count > self.max_shown:
            print(f"{label}: {count - self.max_shown} more (-all)")
        self.total += count
        return count

    def ranges(self, value):
        """A gc::RangeSet."""
        large = number(value["is_large_"])
        for i in range(number(value["count_"])):
            item = (value["ranges_"]["data_"] if large else value["few_"])[i]
            yield number(item["begin"]), number(item["end"])

    def data(self):
        registry, static = self.instance.registry, self.instance.symbol("runtime", "g_static_roots")
        known = list(self.ranges(registry["main_segments"])) + list(
            self.ranges(registry["library_segments"]))
        if not known:
            print("(The collector has no list of loaded objects yet: data of the program and of "
                  "libraries as\ngdb knows them.)")
            known = sections()
        known += self.ranges(static["added"])
        results = registry["results"]
        slots = results["slots_"]
        if number(results["capacity_"]):
            begin = number(slots)
            known.append((begin, begin + number(results["capacity_"]) *
                          slots.type.target().sizeof))
        excluded = list(self.ranges(static["excluded"]))
        for begin, end in known:
            for low, high in excluded:  # sorted, disjoint
                if low < end and high > begin:
                    self.list("root: data", begin, max(begin, min(low, end)), self.symbol)
                    begin = min(high, end)
            self.list("root: data", begin, end, self.symbol)

    @staticmethod
    def symbol(address):
        text = symbol_at(address)
        return f" ({text})" if text else ""

    def thread(self, thread):
        if thread.gdb is None:
            return
        thread.gdb.switch()
        frame = gdb.newest_frame()
        live = thread.live_from(int(frame.read_register("sp")) & (2**64 - 1))
        if thread.state == "running":
            for register in frame.architecture().registers("general"):
                self.register(thread, frame, register)
        low, high = thread.stack
        if not low <= live < high:  # a fiber, or a stack of the program's own
            end = live + 8 * 2**20
            for begin, end_ in self.fiber_stacks():
                end = end_ if begin <= live < end_ else end
            self.list(f"root: {thread}, stack that is not the thread's own", live, end)
            live = number(thread.value["own_stack_pointer"]) or low
        frames = frames_of(frame)
        self.list(f"root: {thread}, stack", live, high,
                  lambda at: frame_of(frames, at))
        if thread.tls[0] < thread.tls[1] and not low <= thread.tls[0] < high:
            self.list(f"root: {thread}, thread-local storage", *thread.tls)
        self.loaded_tls(thread, frame.architecture().name())

    def register(self, thread, frame, register):
        try:
            value = int(frame.read_register(register.name)) & (2**64 - 1)
        except (gdb.error, TypeError, ValueError, OverflowError):
            return
        if self.low <= value <= self.high and register.name not in ("rip", "pc", "eflags"):
            print(f"root: {thread}, register {register.name} is {value:#x}, "
                  f"{self.object.place(value)}")
            self.total += 1

    def loaded_tls(self, thread, architecture):
        """Blocks of objects loaded at run time, by the C library's table."""
        registry = self.instance.registry
        dtv = {"i386:x86-64": 8, "aarch64": 0}.get(architecture)
        if dtv is None or not number(registry["tls_is_known"]):
            return
        vector = struct.unpack("<Q", read(thread.thread_pointer + dtv, WORD))[0]
        max_id = struct.unpack("<Q", read(vector - 2 * WORD, WORD))[0]
        for i in range(number(registry["module_count"])):
            module = registry["modules"]["data_"][i]
            if number(module["id"]) > max_id:
                continue
            block = struct.unpack("<Q", read(vector + number(module["id"]) * 2 * WORD, WORD))[0]
            if block not in (0, 2**64 - 1):
                self.list(f"root: {thread}, thread-local storage", block,
                          block + number(module["bytes"]))

    def fiber_records(self):
        fibers = self.instance.symbol("runtime", "g_table")
        for i in range(number(fibers["count"])):
            yield fibers["sorted"]["data_"][i].dereference()

    def fiber_stacks(self):
        for fiber in self.fiber_records():
            yield number(fiber["stack"]["begin"]), number(fiber["stack"]["end"])

    def fibers(self):
        for fiber in self.fiber_records():
            state = name(fiber["state"])
            context = fiber["context"]
            self.list("root: context of a fiber", number(context["begin"]), number(context["end"]))
            if state in ("fresh", "suspended"):
                self.list(f"root: {state} fiber {number(fiber.address):#x}, stack",
                          number(fiber["stack_pointer"]), number(fiber["stack"]["end"]))

    def contents(self, wanted, label):
        """Pointers from objects on pages for which wanted(page)."""
        printed = 0
        for page in self.instance.all_pages():
            if page.slots == 0 or page.is_pointer_free() or not wanted(page):
                continue
            end = page.address + page.slots * page.slot_bytes
            # One past the end counts for roots outside the heap alone.
            for at, word in pointers(page.address, end, self.low, self.high - 1):
                holder = Object.at(self.instance, at)
                if holder is None or holder.base == self.object.base or not holder.is_allocated():
                    continue
                self.total += 1
                printed += 1
                if printed <= self.max_shown:
                    print(f"{label}: {at:#x} in object {holder} holds {word:#x}, "
                          f"{self.object.place(word)}")
        if printed > self.max_shown:
            print(f"{label}: {printed - self.max_shown} more (-all)")

    def uncollectable(self):
        self.contents(lambda page: page.kind in UNCOLLECTABLE, "root: uncollectable")

    def heap(self):
        self.contents(lambda page: page.kind not in UNCOLLECTABLE, "heap")


def sections():
    """Writable data of loaded objects, by the names of their sections."""
    found = []
    for line in gdb.execute("info files", to_string=True).splitlines():
        parts = line.split()
        if len(parts) >= 5 and parts[1] == "-" and parts[3] == "is" and parts[4] in (".data", ".bss"):
            if not any(library in line for library in ("libgc.so", "libgleaner")):
                found.append((int(parts[0], 16), int(parts[2], 16)))
    return found


def frames_of(frame):
    """(stack pointer, text) of the frames, from the newest on; not more than 200."""
    found = []
    try:
        while frame is not None and len(found) < 200:
            found.append((int(frame.read_register("sp")) & (2**64 - 1),
                          f" (frame {frame.level()}, {frame.name() or '??'})"))
            frame = frame.older()
    except gdb.error:
        pass
    return found


def frame_of(frames, address):
    """The frame that an address of the stack lies in."""
    text = ""
    for stack_pointer, description in frames:
        if stack_pointer > address:
            break
        text = description
    return text


Prefix()
for command in (Address, Roots):
    command.__doc__ = command.__doc__.strip()
    command(command.__name__.lower())
