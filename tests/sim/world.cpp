#include "sim/world.hpp"

#include <cstdio>
#include <cstdlib>

#include "tenzro/kernels/cpu.hpp"

#include "sim/bounds.hpp"

namespace tenzro::testing {
namespace {

std::string address_of(std::size_t index) {
  return "10.0." + std::to_string(index / 250) + "." + std::to_string(index % 250 + 1) + ":9001";
}

}  // namespace

World::World(const Options& options)
    : options_(options), prng_(options.seed), catalog_(catalog::Catalog::builtin()) {
  auto backend = kernels::make_cpu_backend({});
  if (!catalog_ || !backend) broken("no catalog or no backend");
  backend_ = std::move(*backend);
  lives_.resize(options.nodes);
  bytes_sent_.resize(options.nodes);
  for (std::size_t i = 0; i < options.nodes; ++i) {
    SimNode::Setup setup{.index = i,
                         .seed = options.seed,
                         .options = options.node,
                         .address = address_of(i),
                         .disk_bytes = options.disk_bytes,
                         .backend = backend_.get(),
                         .catalog = &*catalog_};
    if (options.tune) options.tune(i, setup.options);
    nodes_.push_back(std::make_unique<SimNode>(setup, *this));
  }
  for (const auto& node : nodes_) node->start();
}

World::~World() = default;

void World::broken(std::string_view rule) const {
  std::fprintf(stderr, "simulation, seed %llu, %lld us: %.*s\n",
               static_cast<unsigned long long>(options_.seed),
               static_cast<long long>(now_.since_start.count() / 1000),
               static_cast<int>(rule.size()), rule.data());
  std::abort();
}

void World::note(std::uint64_t what) {
  trace_ = (trace_ ^ what) * 0x100000001B3ULL;
}

void World::after(std::size_t index, Duration delay, std::function<void()> event) {
  queue_.emplace(std::pair(now_ + delay, ++events_), Event{index, lives_[index], std::move(event)});
}

bool World::step() {
  if (queue_.empty()) return false;
  auto next = queue_.extract(queue_.begin());
  now_ = next.key().first;
  Event event = std::move(next.mapped());
  if (event.life != lives_[event.index]) return true;  // its process has died
  if (stopped_.contains(event.index)) {
    held_back_[event.index].push_back(std::move(event));
    return true;
  }
  note(static_cast<std::uint64_t>(now_.since_start.count()) * 1'000'003 + event.index);
  event.run();
  const SimNode& node = at(event.index);
  if (const auto limit = exceeded_limit(node)) broken(node.address() + ": " + *limit);
  return true;
}

void World::go_on(std::size_t index) {
  stopped_.erase(index);
  for (Event& event : std::exchange(held_back_[index], {})) {
    queue_.emplace(std::pair(now_, ++events_), std::move(event));
  }
}

void World::run_for(Duration time) {
  run_until([] { return false; }, time);
}

bool World::run_until(const std::function<bool()>& is_done, Duration time) {
  const Instant end = now_ + time;
  while (!is_done()) {
    if (queue_.empty() || queue_.begin()->first.first > end) {
      now_ = end;
      return is_done();
    }
    step();
  }
  return true;
}

RequestId World::begin(std::size_t index, rpc::Call call) {
  const RequestId request{++last_request_};
  asked_.insert({index, request});
  at(index).deliver([&](node::Node& node, node::Outbox& out) {
    node.on_call(now_, request, std::move(call), out);
  });
  return request;
}

void World::cancel(std::size_t index, RequestId request) {
  asked_.erase({index, request});
  at(index).deliver(
      [&](node::Node& node, node::Outbox& out) { node.on_cancel(now_, request, out); });
}

void World::on_answer(std::size_t index, RequestId request, Result<rpc::Answer> answer) {
  if (asked_.erase({index, request}) == 0) {
    broken("a request was answered twice, or after it was cancelled");
  }
  answers_.emplace(std::pair(index, request), std::move(answer));
}

std::optional<Result<rpc::Answer>> World::answer(std::size_t index, RequestId request) {
  auto answer = answers_.extract({index, request});
  if (!answer) return std::nullopt;
  return std::move(answer.mapped());
}

Result<rpc::Answer> World::call(std::size_t index, rpc::Call call, Duration time) {
  const RequestId request = begin(index, std::move(call));
  run_until([&] { return answers_.contains({index, request}); }, time);
  auto answered = answer(index, request);
  if (answered) return std::move(*answered);
  return fail(ErrorCode::internal, "", "the call was never answered");
}

void World::crash(std::size_t index) {
  ++lives_[index];
  at(index).crash();
  std::erase_if(asked_, [&](const auto& asked) { return asked.first == index; });
  std::erase_if(calls_, [&](const auto& call) { return call.first.first == index; });
}

void World::restart(std::size_t index) {
  if (at(index).is_up()) crash(index);
  at(index).start();
}

}  // namespace tenzro::testing
