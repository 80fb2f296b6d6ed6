#include "tenzro/http/client.hpp"

#include <map>
#include <utility>

#include "client_thread.hpp"

namespace tenzro::http {

/// The loop's side: who waits for what.
class Client::State {
 public:
  State(exec::Loop& loop, const ClientOptions& options)
      : loop_(loop),
        calls_max_(options.calls_max),
        alive_(std::make_shared<bool>(true)),
        thread_(options, [this, alive = alive_](CallRef call, Outcome outcome) {
          auto shared = std::make_shared<Outcome>(std::move(outcome));
          loop_.post([this, alive, call, shared] {
            if (*alive) finish(call, std::move(*shared));
          });
        }) {}

  ~State() { *alive_ = false; }

  State(const State&) = delete;
  State& operator=(const State&) = delete;

  CallRef download(ClientRequest request, DownloadDone done) {
    const CallRef call{++last_};
    ++stats_.calls;
    const bool is_full = waiting_.size() >= calls_max_;
    waiting_.emplace(call, Waiting{.downloaded = std::move(done)});
    if (is_full) {
      refuse(call, {ErrorCode::busy, "", "busy: too many HTTP calls are under way"});
    } else {
      thread_.begin(call, std::move(request));
    }
    return call;
  }

  CallRef begin(const std::string& endpoint, ClientRequest request, Done done) {
    const CallRef call{++last_};
    ++stats_.calls;
    const bool is_full = waiting_.size() >= calls_max_;
    waiting_.emplace(call, Waiting{.answered = std::move(done)});
    auto where = Endpoint::parse(endpoint);
    if (!where) {
      refuse(call, where.error());
    } else if (is_full) {
      refuse(call, {ErrorCode::busy, "", "busy: too many HTTP calls are under way"});
    } else {
      request.endpoint = std::move(*where);
      thread_.begin(call, std::move(request));
    }
    return call;
  }

  void cancel(CallRef call) {
    if (waiting_.erase(call) == 0) return;
    ++stats_.cancelled;
    thread_.drop(call);
  }

  [[nodiscard]] ClientStats stats() const {
    ClientStats stats = stats_;
    stats.in_progress = waiting_.size();
    return stats;
  }

 private:
  struct Waiting {
    Done answered = {};
    DownloadDone downloaded = {};  ///< of a download
  };

  void refuse(CallRef call, Error error) {
    loop_.post([this, alive = alive_, call, error = std::move(error)] {
      if (*alive) finish(call, {.answer = fail(error)});
    });
  }

  void finish(CallRef call, Outcome outcome) {
    stats_.bytes_sent += outcome.bytes_sent;
    stats_.bytes_received += outcome.bytes_received;
    auto waiting = waiting_.extract(call);
    if (!waiting) return;  // cancelled while the outcome was on its way
    if (!waiting.mapped().downloaded) {
      ++(outcome.answer ? stats_.answered : stats_.failed);
      return waiting.mapped().answered(std::move(outcome.answer));
    }
    Downloaded& downloaded = outcome.downloaded;
    if (!outcome.answer) downloaded.failure = outcome.answer.error().message();
    ++(downloaded.failure.empty() ? stats_.answered : stats_.failed);
    waiting.mapped().downloaded(std::move(downloaded));
  }

  exec::Loop& loop_;
  std::size_t calls_max_;
  std::uint64_t last_ = 0;
  std::map<CallRef, Waiting> waiting_;
  ClientStats stats_;
  /// False after destruction: outcomes still on their way are dropped.
  std::shared_ptr<bool> alive_;
  ClientThread thread_;  // last: it ends before what it reports to
};

Client::Client(exec::Loop& loop, const ClientOptions& options)
    : state_(std::make_unique<State>(loop, options)) {}

Client::~Client() = default;

CallRef Client::post(Post post, Done done) {
  ClientRequest request{.path = std::move(post.path),
                        .headers = std::move(post.headers),
                        .body = std::move(post.body),
                        .bytes_max = post.bytes_max,
                        .timeout = post.timeout};
  return state_->begin(post.endpoint, std::move(request), std::move(done));
}

CallRef Client::get(RangedGet get, Done done) {
  const std::uint64_t last = get.offset + get.size - 1;
  ClientRequest request{.path = std::move(get.path),
                        .headers = std::move(get.headers),
                        .range = std::to_string(get.offset) + "-" + std::to_string(last),
                        .bytes_max = get.size,
                        .timeout = get.timeout};
  return state_->begin(get.endpoint, std::move(request), std::move(done));
}

CallRef Client::download(Download download, DownloadDone done) {
  const std::uint64_t last = download.offset + download.room.size() - 1;
  ClientRequest request{.headers = std::move(download.headers),
                        .range = std::to_string(download.offset) + "-" + std::to_string(last)};
  request.download = std::move(download);
  return state_->download(std::move(request), std::move(done));
}

void Client::cancel(CallRef call) {
  state_->cancel(call);
}

ClientStats Client::stats() const {
  return state_->stats();
}

}  // namespace tenzro::http
