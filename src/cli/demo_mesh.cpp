#include "demo_mesh.hpp"

#include <algorithm>
#include <filesystem>

namespace tenzro::cli {
namespace {

constexpr std::chrono::milliseconds kPollInterval{20};
constexpr int kPollsMax = 30'000;
/// How long the mesh may take to know of all holders: 60 s of polls.
constexpr int kMapPollsMax = 3'000;

Outcome<Json> wait_for_job(Session& session, const std::string& job_id) {
  for (int polls = 0; polls < kPollsMax; ++polls) {
    auto job =
        session.node.call({.method = "tenzro_moePrepareStatus", .params = {{"job_id", job_id}}});
    if (!job) return job;
    const std::string state = text(*job, "state");
    if (state == "completed") return job;
    if (state != "running" && state != "waiting")
      return failure(ExitCode::refused, "prepare job " + state + ": " + text(*job, "error"));
    if (!session.wait(kPollInterval)) return failure(ExitCode::interrupted, "interrupted");
  }
  return failure(ExitCode::refused, "prepare job " + job_id + " does not end");
}

Outcome<Json> prepare_layer(Session& session, const std::string& model_dir,
                            const std::string& quant, const std::string& model,
                            std::uint32_t layer) {
  std::error_code error;
  const std::string source =
      std::filesystem::absolute(model_dir, error).lexically_normal().string();
  const auto started = session.node.call(
      {.method = "tenzro_moePrepareExperts",
       .params = {{"model_id", model}, {"layer", layer}, {"quant", quant}, {"source", source}}});
  if (!started) return failure(started.error());
  return wait_for_job(session, text(*started, "job_id"));
}

/// Loads every expert of a prepared layer on one node. `hint`: where the blobs can be had, or
/// empty.
Outcome<void> load_experts(Node& node, const Json& job, const std::string& hint) {
  for (const Json& expert : list(job, "experts")) {
    const std::string uri = text(expert, "uri") + (hint.empty() ? "" : "?n=" + hint);
    const auto row = node.call({.method = "tenzro_moeExpertLoad",
                                .params = {{"model_id", text(job, "model_id")},
                                           {"layer", member(job, "layer")},
                                           {"expert", member(expert, "expert")},
                                           {"uri", uri}}});
    if (!row) return failure(row.error());
  }
  return {};
}

/// Waits until a node knows of so many nodes, itself included.
Outcome<void> wait_for_meeting(Session& session, Node& node, std::size_t count) {
  std::size_t known = 0;
  for (int polls = 0; polls < kMapPollsMax; ++polls) {
    const auto providers = node.call({.method = "tenzro_listProviders"});
    if (!providers) return failure(providers.error());
    known = providers->size();
    if (known >= count) return {};
    if (!session.wait(kPollInterval)) return failure(ExitCode::interrupted, "interrupted");
  }
  return failure(ExitCode::refused, "a holder knows of " + std::to_string(known) + " of " +
                                        std::to_string(count) + " nodes");
}

/// Experts of the model that so many holders hold.
std::size_t count_covered(const Json& map, std::size_t holders) {
  const Json& rows = list(map, "holders");
  return static_cast<std::size_t>(std::count_if(rows.begin(), rows.end(), [&](const Json& row) {
    return number(row, "replication").value_or(0) >= holders;
  }));
}

}  // namespace

Outcome<std::size_t> bring_up_layer(Session& session, DemoMesh& mesh, const std::string& model_dir,
                                    const std::string& quant, const std::string& model,
                                    std::uint32_t layer) {
  const auto job = prepare_layer(session, model_dir, quant, model, layer);
  if (!job) return failure(job.error());
  const auto gate = mesh.router.call(
      {.method = "tenzro_moeGateLoad",
       .params = {
           {"model_id", model}, {"layer", layer}, {"uri", text(member(*job, "gate"), "uri")}}});
  if (!gate) return failure(gate.error());
  if (mesh.holders.empty()) {
    if (auto loaded = load_experts(mesh.router, *job, ""); !loaded) return failure(loaded.error());
    return list(*job, "experts").size();
  }
  const auto router = mesh.router.call({.method = "tenzro_nodeStatus"});
  if (!router) return failure(router.error());
  for (const auto& holder : mesh.holders) {
    if (auto met = wait_for_meeting(session, *holder, mesh.holders.size() + 1); !met)
      return failure(met.error());
    const auto loaded = load_experts(*holder, *job, text(*router, "endpoint_id"));
    if (!loaded) return failure(loaded.error());
  }
  return list(*job, "experts").size();
}

Outcome<void> wait_for_holders(Session& session, DemoMesh& mesh, const std::string& model,
                               std::size_t experts) {
  if (mesh.holders.empty()) return {};
  std::size_t covered = 0;
  for (int polls = 0; polls < kMapPollsMax; ++polls) {
    const auto map =
        mesh.router.call({.method = "tenzro_moeShardMap", .params = {{"model_id", model}}});
    if (!map) return failure(map.error());
    covered = count_covered(*map, mesh.holders.size());
    if (covered >= experts) return {};
    if (!session.wait(kPollInterval)) return failure(ExitCode::interrupted, "interrupted");
  }
  return failure(ExitCode::refused, "the router knows " + std::to_string(covered) + " of " +
                                        std::to_string(experts) + " experts on every holder");
}

}  // namespace tenzro::cli
