#include "client_thread.hpp"

#include <csignal>
#include <new>
#include <utility>

#include "tenzro/base/assert.hpp"

namespace tenzro::http {
namespace {

/// Nothing depends on it: requests and the end wake the thread.
constexpr int kPollMilliseconds = 1000;

CurlMulti make_multi(const ClientOptions& options) {
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  TENZRO_ASSERT(ready == CURLE_OK);
  CurlMulti multi(curl_multi_init());
  if (!multi) throw std::bad_alloc();
  const auto connections = static_cast<long>(options.connections_max);
  curl_multi_setopt(multi.get(), CURLMOPT_MAX_TOTAL_CONNECTIONS, connections);
  curl_multi_setopt(multi.get(), CURLMOPT_MAXCONNECTS, connections);
  curl_multi_setopt(multi.get(), CURLMOPT_MAX_HOST_CONNECTIONS,
                    static_cast<long>(options.connections_per_host_max));
  return multi;
}

/// Short enough to need no memory itself.
Error out_of_memory() {
  return {ErrorCode::busy, {}, "out of memory"};
}

}  // namespace

ClientThread::ClientThread(const ClientOptions& options, Report report)
    : options_(options), report_(std::move(report)), multi_(make_multi(options)) {
  // Signals are for the main thread; what is blocked here is blocked there.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ClientThread::~ClientThread() {
  {
    const std::lock_guard lock(mutex_);
    inbox_.is_over = true;
  }
  curl_multi_wakeup(multi_.get());
  thread_.join();
  while (!transfers_.empty()) end(transfers_.begin()->first);
}

void ClientThread::begin(CallRef call, ClientRequest request) {
  {
    const std::lock_guard lock(mutex_);
    inbox_.begun.emplace_back(call, std::move(request));
  }
  curl_multi_wakeup(multi_.get());
}

void ClientThread::drop(CallRef call) {
  {
    const std::lock_guard lock(mutex_);
    inbox_.dropped.push_back(call);
  }
  curl_multi_wakeup(multi_.get());
}

void ClientThread::run() {
  int running = 0;
  while (take_inbox()) {
    curl_multi_perform(multi_.get(), &running);
    take_outcomes();
    curl_multi_poll(multi_.get(), nullptr, 0, kPollMilliseconds, nullptr);
  }
}

bool ClientThread::take_inbox() {
  Inbox inbox;
  {
    const std::lock_guard lock(mutex_);
    if (inbox_.is_over) return false;
    inbox = std::exchange(inbox_, {});
  }
  for (auto& [call, request] : inbox.begun) {
    // Nothing above this thread would catch it; the call alone fails, through no fault of its peer.
    try {
      start(call, std::move(request));
    } catch (const std::bad_alloc&) {
      report_(call, {.answer = fail(out_of_memory())});
    }
  }
  for (const CallRef call : inbox.dropped) end(call);
  return true;
}

void ClientThread::start(CallRef call, ClientRequest request) {
  auto transfer = std::make_unique<Transfer>(std::move(request), call, options_, replies_bytes_);
  const auto added = transfers_.emplace(call, std::move(transfer)).first;
  if (curl_multi_add_handle(multi_.get(), added->second->handle()) == CURLM_OK) return;
  transfers_.erase(added);
  throw std::bad_alloc();
}

Outcome ClientThread::outcome_of(Transfer& transfer, CURLcode code) {
  try {
    return transfer.outcome(code);
  } catch (const std::bad_alloc&) {
    return {.answer = fail(out_of_memory())};
  }
}

void ClientThread::take_outcomes() {
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi_.get(), &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    char* owner = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &owner);
    auto* const transfer = static_cast<Transfer*>(static_cast<void*>(owner));
    const CallRef call = transfer->call();
    Outcome outcome = outcome_of(*transfer, message->data.result);
    end(call);  // before the report: the message dies with the handle
    report_(call, std::move(outcome));
  }
}

void ClientThread::end(CallRef call) {
  const auto transfer = transfers_.find(call);
  if (transfer == transfers_.end()) return;
  curl_multi_remove_handle(multi_.get(), transfer->second->handle());
  transfers_.erase(transfer);
}

}  // namespace tenzro::http
