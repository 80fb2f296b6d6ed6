#pragma once
/// \file
/// JobLog: what prepare jobs are and what they published, in an SQLite file of its own.
///
///     jobs   one row a job, in order of their start
///     parts  one row a (job, name): the blob that this part of the job became
/// Rules
///  - What a call has written outlives a kill of the process. A power cut may cost the last of it,
///  not more: those parts are then made again.
///  - A file that is damaged, of another program or of a later version is moved aside under a name
///  that ends in `.damaged`, and a new one begun: it holds history, never the only trace of a blob.
/// Thread: one at a time.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tenzro/base/ids.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/work/job_log.hpp"

#include "sqlite.hpp"

namespace tenzro::store {

class JobLog {
 public:
  /// `warning` says where a file was moved aside. Error: io, busy, no_space.
  [[nodiscard]] static Result<std::unique_ptr<JobLog>> open(const std::string& path,
                                                            std::string& warning);

  /// Every job with its parts, the first started first.
  [[nodiscard]] Result<std::vector<work::LoggedJob>> jobs();
  [[nodiscard]] Status log(const work::LogJob& job);
  /// A part that is there already is replaced.
  [[nodiscard]] Status add(const work::JobPart& part, const BlobHash& hash,
                           std::uint64_t size_bytes);
  [[nodiscard]] Status forget(const std::string& id);

 private:
  explicit JobLog(std::unique_ptr<Database> database) : database_(std::move(database)) {}

  [[nodiscard]] static Result<std::unique_ptr<JobLog>> open_file(const std::string& path);
  [[nodiscard]] Result<std::vector<work::LoggedPart>> parts(const std::string& job);

  std::unique_ptr<Database> database_;
};

}  // namespace tenzro::store
