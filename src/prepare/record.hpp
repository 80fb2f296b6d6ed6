#pragma once
/// \file
/// What the log keeps of a job and of a blob that it published, as JSON text.
///
/// Reading is forgiving in one way only: a record that is not one gives nothing, and the job is not
/// remembered. Pure.
#include <optional>
#include <string>
#include <string_view>

#include "tenzro/rpc/answer.hpp"
#include "tenzro/rpc/call.hpp"

#include "source_reader.hpp"

namespace tenzro::prepare {

struct JobRecord {
  rpc::PrepareExpertsCall call;  ///< as it came
  rpc::PrepareState state = rpc::PrepareState::running;
  std::optional<std::string> error;
  /// What "all" came to, or the list, or the one. Empty: the checkpoint has not said what it is.
  std::vector<LayerIndex> layers;
  std::uint32_t total_experts = 0;
  FileVersions files;
};

[[nodiscard]] std::string to_text(const JobRecord& record);
[[nodiscard]] std::optional<JobRecord> read_job_record(std::string_view text);

/// The name of a part, which says which it is: "3/17", or "3/gate".
[[nodiscard]] std::string part_name(LayerIndex layer, std::optional<ExpertIndex> expert);

struct Part {
  std::optional<ExpertIndex> expert;  ///< absent: the gate
  rpc::PreparedBlob blob;
};

[[nodiscard]] std::string to_text(const rpc::PreparedBlob& blob);
[[nodiscard]] std::optional<Part> read_part(const work::LoggedPart& logged);

}  // namespace tenzro::prepare
