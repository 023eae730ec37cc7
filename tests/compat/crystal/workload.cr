# What a Crystal program asks of a collector: trees, fibers and channels, threads of the scheduler where
# there are several, strings, hashes, big integers, finalizers, weak references, exceptions.
require "weak_ref"

class Node
  getter left : Node?
  getter right : Node?

  def initialize(@left = nil, @right = nil)
  end

  def count : Int32
    1 + (left.try(&.count) || 0) + (right.try(&.count) || 0)
  end
end

def build(depth) : Node
  depth == 0 ? Node.new : Node.new(build(depth - 1), build(depth - 1))
end

long_lived = build(17)
sum = 0_i64
150.times { sum += build(13).count }
puts "trees: #{sum} #{long_lived.count}"

# Fibers: each has a stack that holds the only reference to its tree while it waits.
start = Channel(Nil).new
results = Channel(Int32).new
1000.times do |i|
  spawn do
    tree = build(6)
    start.receive
    bytes = Bytes.new(100 + i, (i % 256).to_u8)
    Fiber.yield
    results.send tree.count + bytes.size
  end
end
1000.times { start.send nil }
GC.collect
total = 0
1000.times { total += results.receive }
puts "fibers: #{total}"

pipeline = Channel(Array(String)).new(16)
counts = Channel(Int32).new
4.times do
  spawn do
    n = 0
    while words = pipeline.receive?
      n += words.map(&.size).sum
    end
    counts.send n
  end
end
4000.times { |i| pipeline.send (0..40).map { |j| "word-#{(i * j) % 1000}" } }
pipeline.close
puts "channels: #{(0...4).sum { counts.receive }}"

table = {} of String => Array(Int32)
300_000.times { |i| (table["key#{(i.to_i64 * 48271 % 65537) % 20_000}"] ||= [] of Int32) << i }
puts "hash: #{table.size} #{table.values.sum(&.size)}"

text = String.build { |io| 200_000.times { |i| io << i.to_s(16) << ' ' } }
puts "strings: #{text.size} #{text.split.uniq.size}"

sorted = Array.new(500_000) { |i| (i.to_i64 * 7919 % 1_000_003).to_s }.sort
puts "sort: #{sorted.first} #{sorted.last}"

caught = 0
20_000.times do |i|
  begin
    raise "error #{i}" if i % 2 == 0
  rescue ex
    caught += ex.message.not_nil!.size
  end
end
puts "exceptions: #{caught}"

class Finalized
  @@count = Atomic(Int32).new(0)

  def self.count
    @@count.get
  end

  def initialize(@payload : Array(Int32))
  end

  def finalize
    @@count.add(1)
  end
end

def make_finalized(n)
  n.times { |i| Finalized.new([i]) }
end

make_finalized(20_000)
5.times { GC.collect; Fiber.yield }
puts "finalizers: #{Finalized.count > 19_000 && Finalized.count <= 20_000}"

kept = (0...1000).map { |i| [i] }
refs = kept.map { |a| WeakRef.new(a) }
GC.collect
puts "weak references: #{refs.each_with_index.all? { |r, i| r.value.try(&.same?(kept[i])) }}"

stats = GC.stats
puts "statistics: #{stats.heap_size > 0 && stats.total_bytes > stats.heap_size}"
