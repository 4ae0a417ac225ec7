# Sidekiq.  The same arguments, clock and files as the Python adapters: see tally.py and
# pace.py.  Loaded by Sidekiq's command line in a worker, run directly to add jobs.
require 'json'
require 'sidekiq'

FOLDER = ENV.fetch('BENCH_FOLDER')
JOBS = ENV.fetch('BENCH_JOBS').to_i
BULK = 1_000
TOGETHER = 100
THREADS = 8
NAP_SECONDS = 0.005
LOOK_SECONDS = 0.0003
IDLE_SECONDS = 0.005
PATIENCE_SECONDS = 30
# Writing at each job would release the interpreter's lock, and distort the measurement.
FLUSH_SECONDS = 0.01

redis = { url: "redis://127.0.0.1:#{ENV.fetch('BENCH_PORT')}/0" }
Sidekiq.logger.level = Logger::ERROR
Sidekiq.configure_server { |config| config.redis = redis }
Sidekiq.configure_client { |config| config.redis = redis.merge(size: THREADS) }

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
end

# The runs of this process.
class Tally
  def initialize
    @lock = Mutex.new
    @runs = @first = @last = 0
    @counts = "\0".b * JOBS
    file = File.open("#{FOLDER}/ran.#{Process.pid}", 'wb')
    Thread.new do
      loop do
        sleep FLUSH_SECONDS
        file.pwrite(bytes, 0)
      end
    end
  end

  def add(number, began, ended)
    @lock.synchronize do
      @runs += 1
      @first = began if @first.zero?
      @last = ended
      @counts.setbyte(number, [255, @counts.getbyte(number) + 1].min)
    end
  end

  def bytes
    @lock.synchronize { [@runs, @first, @last].pack('Q<3') + @counts }
  end

  MAKING = Mutex.new

  def self.of_this_process
    MAKING.synchronize { @tally ||= new }
  end
end

class Noop
  include Sidekiq::Worker

  def perform(number)
    at = now
    Tally.of_this_process.add(number, at, at)
  end
end

class Nap
  include Sidekiq::Worker

  def perform(number)
    began = now
    sleep NAP_SECONDS
    Tally.of_this_process.add(number, began, now)
  end
end

class Ping
  include Sidekiq::Worker

  def perform(sent)
    waited = now - sent
    File.open("#{FOLDER}/pings", 'ab') { |file| file.write([waited].pack('Q<')) }
  end
end

TASKS = { 'noop' => Noop, 'nap' => Nap, 'ping' => Ping }.freeze

def arrivals
  (File.size?("#{FOLDER}/pings") || 0) / 8
end

def seconds_since(began)
  (now - began) / 1e9
end

def add_one(task, numbers)
  numbers.each { |number| task.perform_async(number) }
end

def add_together(task, numbers)
  todo = Array.new(THREADS) { Queue.new }
  done = Queue.new
  threads = todo.map do |shares|
    Thread.new { while (share = shares.pop) do done << add_one(task, share) end }
  end
  numbers.each_slice(TOGETHER) do |some|
    some.each_slice((some.size / THREADS.to_f).ceil).zip(todo) { |share, to| to << share }
    THREADS.times { done.pop }
  end
  todo.each(&:close)
  threads.each(&:join)
end

def add_bulk(task, numbers)
  numbers.each_slice(BULK) do |some|
    Sidekiq::Client.push_bulk('class' => task, 'args' => some.map { |number| [number] })
  end
end

def ping(count, seconds)
  began = now
  count.times do |sent|
    break if sent.positive? && seconds_since(began) > seconds

    Ping.perform_async(now)
    waiting = now
    while arrivals <= sent
      raise 'a ping did not arrive' if seconds_since(waiting) > PATIENCE_SECONDS

      sleep LOOK_SECONDS
    end
    sleep IDLE_SECONDS
  end
end

def measure(verb, arguments)
  began = now
  if verb == 'ping'
    ping(arguments[0].to_i, arguments[1].to_f)
  else
    first, count = arguments[1..2].map(&:to_i)
    send("add_#{verb}", TASKS.fetch(arguments[0]), first...(first + count))
  end
  seconds_since(began)
end

if __FILE__ == $PROGRAM_NAME
  verb, *arguments = ARGV
  if verb == 'work'
    exec('sidekiq', '-r', File.expand_path(__FILE__), '-c', arguments[1], '-e', 'production')
  end
  puts JSON.generate(seconds: measure(verb, arguments))
end
