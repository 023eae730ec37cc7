// Rings of the collector trace: threads and their signal handlers emit while another thread drains.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <barrier>
#include <map>
#include <thread>
#include <vector>

#include "observe/trace.h"
#include "tests/support/child.h"

namespace gleaner::platform {
namespace {

struct Record {
  uint32_t thread;
  uint64_t time;
  std::vector<uint64_t> arguments;
};

// What has been drained. A record of the tests' has its number among the thread's as its time, and
// arguments that follow from thread and number, as many as that says.
class Sink {
 public:
  bool Drain(bool all = true) { return DrainTrace(all, Write, this); }

  // Appends whole records only: fails at the first word that is none's.
  static bool Write(void* sink, const uint64_t* words, size_t count) {
    auto* self = static_cast<Sink*>(sink);
    for (size_t at = 0; at < count;) {
      const size_t length = TraceWordsOf(words[at]);
      if (length < 2 || at + length > count) {
        ADD_FAILURE() << "no record at word " << at << " of " << count;
        return false;
      }
      if (TraceEventOf(words[at]) == TraceEvent::kThread) {
        ++self->threads;
      } else if (TraceEventOf(words[at]) == TraceEvent::kThreadEnd) {
        ++self->ended;
      } else {
        self->records.push_back(
            {TraceThreadOf(words[at]), words[at + 1], {words + at + 2, words + at + length}});
      }
      at += length;
    }
    return !self->refuses;
  }

  std::vector<Record> records;
  size_t threads = 0;
  size_t ended = 0;
  bool refuses = false;
};

uint64_t Argument(uint64_t number, uint64_t i) { return number * 16 + i; }

void Emit(uint64_t number) {
  switch (number % 3) {
    case 0:
      return EmitTrace(TraceEvent::kStall, number, {});
    case 1:
      return EmitTrace(TraceEvent::kStall, number, {Argument(number, 0)});
    default:
      return EmitTrace(TraceEvent::kStall, number,
                       {Argument(number, 0), Argument(number, 1), Argument(number, 2),
                        Argument(number, 3), Argument(number, 4)});
  }
}

void CheckRecord(const Record& record) {
  const size_t counts[] = {0, 1, 5};
  ASSERT_EQ(record.arguments.size(), counts[record.time % 3]) << record.time;
  for (size_t i = 0; i < record.arguments.size(); ++i) {
    ASSERT_EQ(record.arguments[i], Argument(record.time, i)) << record.time;
  }
}

class TraceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ResetTraceAfterFork();
    ASSERT_TRUE(StartTrace());
    BeginTraceOfThread(TraceRole::kMutator, "test");
  }
  void TearDown() override {
    EndTraceOfThread();
    StopTrace();
    sink_.Drain();
  }
  Sink sink_;
};

TEST_F(TraceTest, RecordsComeOutWholeAndInOrder) {
  uint64_t number = 0;
  for (int round = 0; round < 2000; ++round) {
    for (int i = 0; i < round % 97; ++i) Emit(number++);
    ASSERT_TRUE(sink_.Drain());
  }
  ASSERT_EQ(sink_.records.size(), number);
  EXPECT_EQ(sink_.threads, 1u);
  for (uint64_t i = 0; i < number; ++i) {
    ASSERT_EQ(sink_.records[i].time, i);
    CheckRecord(sink_.records[i]);
  }
  EXPECT_EQ(DroppedTraceEvents(), 0u);
}

TEST_F(TraceTest, AFullRingDropsAndCounts) {
  constexpr uint64_t kEvents = 10000;
  for (uint64_t i = 0; i < kEvents; ++i) Emit(i);
  sink_.Drain();
  EXPECT_LT(sink_.records.size(), kEvents);
  EXPECT_EQ(sink_.records.size() + DroppedTraceEvents(), kEvents);
  for (const Record& record : sink_.records) CheckRecord(record);
  Emit(kEvents);
  sink_.Drain();
  EXPECT_EQ(sink_.records.back().time, kEvents) << "there is room again";
}

TEST_F(TraceTest, OnlyFullerRingsAreDrainedUnlessAll) {
  sink_.Drain();
  Emit(0);
  sink_.Drain(false);
  EXPECT_TRUE(sink_.records.empty());
  EXPECT_FALSE(IsTraceFilling());
  for (uint64_t i = 1; !IsTraceFilling(); ++i) Emit(i);
  sink_.Drain(false);
  EXPECT_FALSE(sink_.records.empty());
  EXPECT_FALSE(IsTraceFilling());
}

TEST_F(TraceTest, AThreadWithoutARingEmitsNothing) {
  std::thread([] { Emit(1); }).join();
  EndTraceOfThread();
  Emit(2);
  sink_.Drain();
  EXPECT_TRUE(sink_.records.empty());
  EXPECT_EQ(DroppedTraceEvents(), 0u);
}

TEST_F(TraceTest, AWriterThatRefusesEndsTheDrain) {
  Emit(1);
  sink_.refuses = true;
  EXPECT_FALSE(sink_.Drain());
  sink_.refuses = false;
  EXPECT_TRUE(sink_.Drain());
  EXPECT_EQ(sink_.records.size(), 1u) << "what it was given is gone";
}

// Rings are handed from threads that end to others, with what they hold.
TEST_F(TraceTest, EachRecordNamesItsThread) {
  constexpr int kThreads = 3000;
  for (int i = 0; i < kThreads; ++i) {
    std::thread([] {
      BeginTraceOfThread(TraceRole::kMutator, "short");
      Emit(7);
      EndTraceOfThread();
    }).join();
    if (i % 100 == 0) sink_.Drain();
  }
  sink_.Drain();
  ASSERT_EQ(sink_.records.size(), static_cast<size_t>(kThreads));
  EXPECT_EQ(sink_.ended, static_cast<size_t>(kThreads));
  EXPECT_EQ(UntracedThreads(), 0u) << "rings are used again";
  for (size_t i = 1; i < sink_.records.size(); ++i) {
    ASSERT_GT(sink_.records[i].thread, sink_.records[i - 1].thread);
  }
}

// Threads emit while one drains: each record is whole, in its thread's order, and is there or
// counted.
TEST_F(TraceTest, ThreadsEmitWhileOneDrains) {
  constexpr int kThreads = 4;
  constexpr uint64_t kEvents = 40000;
  Atomic<int> running{kThreads};
  std::barrier begun(kThreads);  // else one might go on with the full ring of another
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&running, &begun] {
      BeginTraceOfThread(TraceRole::kMutator, "emitter");
      begun.arrive_and_wait();
      for (uint64_t i = 0; i < kEvents; ++i) Emit(i);
      EndTraceOfThread();
      running.FetchSub(1, memory_order_seq_cst);
    });
  }
  while (running.Load(memory_order_seq_cst) != 0) ASSERT_TRUE(sink_.Drain());
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(sink_.Drain());
  std::map<uint32_t, uint64_t> next;
  for (const Record& record : sink_.records) {
    CheckRecord(record);
    ASSERT_GE(record.time, next[record.thread]);
    next[record.thread] = record.time + 1;
  }
  EXPECT_EQ(next.size(), static_cast<size_t>(kThreads));
  // The notes of a thread may be dropped, too.
  EXPECT_EQ(sink_.records.size() + sink_.threads + sink_.ended + DroppedTraceEvents(),
            kThreads * kEvents + 2 * kThreads + 1);
}

Atomic<uint64_t> g_handled{0};

// Handlers emit at any instruction of EmitTrace, while another thread drains.
TEST_F(TraceTest, HandlersEmitAtAnyInstruction) {
  struct sigaction action = {};
  action.sa_handler = [](int) {
    Emit(3 * 1000000 + 3 * g_handled.FetchAdd(1, memory_order_relaxed));
  };
  struct sigaction before;
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  g_handled.Store(0, memory_order_relaxed);
  Atomic<bool> done{false};
  const pthread_t target = pthread_self();
  std::thread drainer([this, &done] {
    while (!done.Load(memory_order_seq_cst)) sink_.Drain();
  });
  std::thread signaller([target, &done] {
    while (!done.Load(memory_order_seq_cst)) pthread_kill(target, SIGUSR1);
  });
  constexpr uint64_t kHandlers = 1000;
  uint64_t emitted = 0;
  while (g_handled.Load(memory_order_relaxed) < kHandlers) Emit(emitted++);
  done.Store(true, memory_order_seq_cst);
  signaller.join();
  drainer.join();
  ASSERT_EQ(sigaction(SIGUSR1, &before, nullptr), 0);
  sink_.Drain();
  for (const Record& record : sink_.records) CheckRecord(record);
  EXPECT_EQ(sink_.records.size() + DroppedTraceEvents(),
            emitted + g_handled.Load(memory_order_relaxed));
}

// A child of fork has nothing of its parent's, and its own thread is the first.
TEST_F(TraceTest, AChildBeginsAnew) {
  for (uint64_t i = 0; i < 100; ++i) Emit(i);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ResetTraceAfterFork();
    Emit(5);
    Sink sink;
    sink.Drain();
    const bool ok = sink.records.size() == 1 && sink.records[0].time == 5 &&
                    sink.records[0].thread == 1 && sink.threads == 1;
    _exit(ok ? 0 : 1);
  }
  EXPECT_EQ(testing::StatusOf(child), 0);
  sink_.Drain();
  EXPECT_EQ(sink_.records.size(), 100u);
}

}  // namespace
}  // namespace gleaner::platform
