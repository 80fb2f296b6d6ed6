#include <vector>

#include <CLI/CLI.hpp>

#include "commands.hpp"
#include "format.hpp"

namespace tenzro::cli {
namespace {

enum class Verdict { ok, remark, fault };

struct Finding {
  Verdict verdict = Verdict::ok;
  std::string check;
  std::string sentence;
};

using Findings = std::vector<Finding>;

const char* word_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::ok:
      return "ok";
    case Verdict::remark:
      return "note";
    case Verdict::fault:
      break;
  }
  return "FAULT";
}

void check_readiness(Node& node, Findings& findings) {
  const Outcome<Page> ready = node.get("/readyz");
  if (!ready) {
    findings.push_back({Verdict::fault, "readiness", ready.error().message});
  } else if (ready->status == 200) {
    findings.push_back({Verdict::ok, "readiness", "The node takes work."});
  } else {
    findings.push_back({Verdict::fault, "readiness",
                        "The node is up but not ready (HTTP " + std::to_string(ready->status) +
                            "): it is still starting, or draining."});
  }
}

void check_versions(const Json& status, Findings& findings) {
  const std::string version = text(status, "version");
  if (version == TENZRO_VERSION) {
    findings.push_back({Verdict::ok, "version", "Node and client are both " + version + "."});
  } else {
    findings.push_back({Verdict::remark, "version",
                        "The node is " + version +
                            " and this client is " TENZRO_VERSION
                            ": some commands may be unknown on one side."});
  }
}

void check_memory(const Json& status, Findings& findings) {
  const std::uint64_t used = number(status, "memory_bytes").value_or(0);
  const std::uint64_t budget = number(status, "memory_budget_bytes").value_or(0);
  const std::string amount = bytes_text(used) + " of " + bytes_text(budget);
  if (budget != 0 && used > budget / 10 * 9) {
    findings.push_back({Verdict::remark, "memory",
                        amount + " are in use: further experts will be kept on disk. Raise "
                                 "[holder] memory_budget, or hold fewer experts."});
  } else {
    findings.push_back({Verdict::ok, "memory", amount + " are in use."});
  }
}

void check_queue(const Json& status, Findings& findings) {
  const std::uint64_t depth = number(status, "queue_depth").value_or(0);
  const std::uint64_t depth_max = number(status, "queue_max").value_or(0);
  const std::string amount = std::to_string(depth) + " of " + std::to_string(depth_max);
  if (depth_max != 0 && depth > depth_max / 2) {
    findings.push_back({Verdict::remark, "queue",
                        amount + " places are taken: the node is overloaded and will soon refuse "
                                 "work."});
  } else {
    findings.push_back({Verdict::ok, "queue", amount + " places are taken."});
  }
}

void check_mesh(const Json& status, Findings& findings) {
  const std::uint64_t peers = number(status, "peers").value_or(0);
  if (peers == 0) {
    findings.push_back({Verdict::remark, "peers",
                        "The node knows no other node and serves alone. For a mesh, name one in "
                        "[gossip] bootstrap and open UDP " +
                            text(status, "quic_address") + "."});
  } else {
    findings.push_back({Verdict::ok, "peers", "The node knows " + std::to_string(peers) + "."});
  }
}

void check_holdings(const Json& status, Findings& findings) {
  const std::uint64_t experts = number(status, "experts").value_or(0);
  const std::uint64_t gates = number(status, "gates").value_or(0);
  if (experts == 0 && gates == 0) {
    findings.push_back(
        {Verdict::remark, "holdings",
         "The node holds nothing yet: see tenzro moe prepare-experts and load-expert."});
    return;
  }
  findings.push_back(
      {Verdict::ok, "holdings",
       std::to_string(experts) + " experts and " + std::to_string(gates) + " gates."});
}

void check_compute(const Json& status, Findings& findings) {
  const std::string backend = text(status, "compute_backend");
  if (backend == "cpu") {
    findings.push_back({Verdict::remark, "compute",
                        "The portable CPU code runs: slow. Either this machine lacks AVX2, or "
                        "TENZRO_ISA or [compute] backend forces it."});
  } else {
    findings.push_back({Verdict::ok, "compute", "Backend " + backend + "."});
  }
}

void check_node(Node& node, Findings& findings) {
  const Outcome<Json> status = node.call({.method = "tenzro_nodeStatus", .params = Json::object()});
  if (!status) {
    const bool is_forbidden = status.error().message.find("-32001") != std::string::npos;
    findings.push_back(
        {Verdict::fault, "access",
         status.error().message +
             (is_forbidden ? " -- put a token with the read scope into TENZRO_TOKEN" : "")});
    return;
  }
  check_versions(*status, findings);
  check_memory(*status, findings);
  check_queue(*status, findings);
  check_mesh(*status, findings);
  check_holdings(*status, findings);
  check_compute(*status, findings);
}

void print(const Findings& findings, Session& session) {
  if (session.settings.json) {
    Json rows = Json::array();
    for (const Finding& finding : findings) {
      rows.push_back({{"check", finding.check},
                      {"verdict", word_of(finding.verdict)},
                      {"sentence", finding.sentence}});
    }
    session.out << dump(rows) << "\n";
    return;
  }
  for (const Finding& finding : findings) {
    std::string word = word_of(finding.verdict);
    word.resize(7, ' ');
    session.out << word << finding.check << ": " << finding.sentence << "\n";
  }
}

Outcome<void> examine(Session& session) {
  const Outcome<Page> health = session.node.get("/healthz");
  if (!health) {
    return failure(health.error().code,
                   health.error().message +
                       "\nNothing answers there: is tenzrod running, and does --rpc name its "
                       "[rpc] listen address?");
  }
  if (health->status != 200) {
    return failure(ExitCode::unreachable,
                   "something answers at " + session.settings.rpc_url + " with HTTP " +
                       std::to_string(health->status) +
                       " for /healthz: another program, or a node that does not know this name "
                       "([rpc] allowed_hosts)");
  }
  Findings findings;
  findings.push_back({Verdict::ok, "reachable", session.settings.rpc_url + " answers."});
  check_readiness(session.node, findings);
  check_node(session.node, findings);
  print(findings, session);
  std::size_t faults = 0;
  for (const Finding& finding : findings) faults += finding.verdict == Verdict::fault ? 1 : 0;
  if (faults == 0) return {};
  return failure(ExitCode::refused, std::to_string(faults) + " faults");
}

}  // namespace

void add_doctor_command(CLI::App& app, Selection& selection) {
  app.add_subcommand("doctor", "say in sentences what is wrong with a node")
      ->callback([&selection] {
        selection.command = Command{};
        selection.command->program = examine;
      });
}

}  // namespace tenzro::cli
