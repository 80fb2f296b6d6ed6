#pragma once
/// \file
/// Shared: what the server and its sessions hold in common.
///
/// It outlives the server for as long as a session's last I/O handler is on its way; from then on
/// `handler` is null and nobody is called. Thread: the loop's.
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include "tenzro/http/byte_budget.hpp"
#include "tenzro/http/server.hpp"

#include "host_list.hpp"

namespace tenzro::http {

class Session;

struct Shared {
  Shared(asio::io_context& loop_context, Options server_options, HostList host_list, Handler& node)
      : context(loop_context),
        options(std::move(server_options)),
        hosts(std::move(host_list)),
        handler(&node),
        bodies(options.bodies_bytes_max) {}

  [[nodiscard]] bool is_busy() const;
  /// Runs `on_drained`, once, when a drain is on and no session works on a request.
  void check_drained();

  asio::io_context& context;
  const Options options;
  const HostList hosts;
  Handler* handler;
  ByteBudget bodies;
  Stats stats;
  std::map<RequestRef, std::weak_ptr<Session>> requests;
  std::set<std::shared_ptr<Session>> sessions;
  std::uint64_t last_request = 0;
  bool is_draining = false;
  std::function<void()> on_drained;
};

}  // namespace tenzro::http
