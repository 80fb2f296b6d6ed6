#include "command.hpp"

#include <utility>

namespace tenzro::cli {

Outcome<void> run(const Command& command, Session& session) {
  if (command.program) return command.program(session);
  const Outcome<Request> request = command.make_request(session.node);
  if (!request) return failure(request.error());
  const Outcome<Json> result = session.node.call(*request);
  if (!result) return failure(result.error());
  if (command.keep) {
    if (Outcome<void> kept = command.keep(*result); !kept) return kept;
  }
  if (session.settings.json) {
    session.out << dump(*result) << "\n";
  } else {
    session.out << command.show(*result);
  }
  return {};
}

Command call_of(std::string method, Json params, std::function<std::string(const Json&)> show) {
  Command command;
  command.make_request = [request = Request{std::move(method), std::move(params)}](Node&) {
    return Outcome<Request>(request);
  };
  command.show = std::move(show);
  return command;
}

}  // namespace tenzro::cli
