#pragma once
/// \file
/// The client's thread: requests in, outcomes out, libcurl between.
///
/// `begin` and `drop` are called by the client's owner; `report` is called on the thread, once a
/// call that was not dropped before its end. (A drop may cross an outcome on its way.) The inbox
/// holds at most two entries a call, and the client bounds the calls. A call that memory runs out
/// for ends as `busy`.
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tenzro/http/client.hpp"

#include "client_transfer.hpp"

namespace tenzro::http {

class ClientThread {
 public:
  using Report = std::function<void(CallRef, Outcome)>;

  ClientThread(const ClientOptions& options, Report report);
  /// Breaks off every call and waits for the thread.
  ~ClientThread();
  ClientThread(const ClientThread&) = delete;
  ClientThread& operator=(const ClientThread&) = delete;

  void begin(CallRef call, ClientRequest request);
  void drop(CallRef call);

 private:
  struct Inbox {
    std::vector<std::pair<CallRef, ClientRequest>> begun;
    std::vector<CallRef> dropped;
    bool is_over = false;
  };

  void run();
  /// False once the client is gone.
  bool take_inbox();
  /// Throws std::bad_alloc, and then there is no transfer.
  void start(CallRef call, ClientRequest request);
  void take_outcomes();
  [[nodiscard]] static Outcome outcome_of(Transfer& transfer, CURLcode code);
  void end(CallRef call);

  ClientOptions options_;
  Report report_;
  CurlMulti multi_;
  std::mutex mutex_;
  Inbox inbox_;
  // The thread's own.
  std::map<CallRef, std::unique_ptr<Transfer>> transfers_;
  std::size_t replies_bytes_ = 0;
  std::thread thread_;
};

}  // namespace tenzro::http
