#pragma once
/// \file
/// Prepare jobs of a NodeWorld: begun, asked about, worked to their end.
#include <string>
#include <vector>

#include "support/node_world.hpp"

namespace tenzro::testing {

/// Works until the job has begun: its id, or what its start was refused with.
inline std::string begin(NodeWorld& world, const rpc::PrepareExpertsCall& call) {
  const RequestId request = world.begin(call);
  std::optional<Result<rpc::Answer>> started;
  while (!started && world.work()) started = world.answer(request);
  if (!started) return "";
  if (!*started) return started->error().message();
  return std::get<rpc::PrepareStartedAnswer>(**started).job_id;
}

/// Without working.
inline rpc::PrepareStatusAnswer status_of(NodeWorld& world, const std::string& id,
                                          bool is_summary = false) {
  const RequestId request = world.begin(rpc::PrepareStatusCall{id, is_summary});
  return expect_answer<rpc::PrepareStatusAnswer>(*world.answer(request));
}

/// The job's end, or the refusal of its start as a failed job.
inline rpc::PrepareStatusAnswer run(NodeWorld& world, const rpc::PrepareExpertsCall& call) {
  const auto started = world.call(call);
  if (!started) {
    return {.state = rpc::PrepareState::failed, .error = "start: " + started.error().message()};
  }
  return status_of(world, std::get<rpc::PrepareStartedAnswer>(*started).job_id);
}

/// Of the experts, then of the gates.
inline std::vector<std::string> uris_of(const rpc::PrepareStatusAnswer& status) {
  std::vector<std::string> uris;
  for (const rpc::PreparedBlob& blob : status.experts) uris.push_back(blob.uri);
  for (const rpc::PreparedBlob& gate : status.gates) uris.push_back(gate.uri);
  return uris;
}

}  // namespace tenzro::testing
