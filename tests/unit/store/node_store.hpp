#pragma once
/// \file
/// NodeStore: a data directory and its store, driven call by call; and builders of what goes in.
#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/blake3.hpp"
#include "tenzro/store/store.hpp"

namespace tenzro::store {

class NodeStore {
 public:
  explicit NodeStore(std::string path, Options options = {});
  NodeStore(std::string path, FileSystem& files, Options options = {});

  /// Opens directory and store, once more after close().
  Status open();
  void close();

  /// Error of the operation, or nothing. Opens first where that was not done yet.
  std::optional<Error> save(const work::HoldingRow& row, std::string_view blob);
  /// Names a blob that is there already.
  std::optional<Error> save_again(const work::HoldingRow& row);
  bool remove(const work::HoldingRow& row);
  Result<BlobHash> publish(std::string_view blob);
  Result<std::string> read(const BlobHash& hash);
  Result<std::string> read_range(const BlobHash& hash, std::uint64_t offset, std::uint64_t length);
  Result<bool> quarantine(const BlobHash& hash);
  work::StoreResult call(work::StoreOp op);

  /// Rows of the last open.
  [[nodiscard]] const std::vector<work::HoldingRow>& rows() const { return rows_; }

  [[nodiscard]] const std::vector<work::LoggedJob>& jobs() const { return jobs_; }

  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

  [[nodiscard]] Store& store() { return *store_; }

  [[nodiscard]] std::string blob_dir() const;
  [[nodiscard]] std::string path_of(const BlobHash& hash) const;
  /// Hex names of every blob on the disk, sorted.
  [[nodiscard]] std::vector<std::string> blobs_on_disk() const;
  /// Files in tmp/.
  [[nodiscard]] std::vector<std::string> temps_on_disk() const;

 private:
  std::string path_;
  std::unique_ptr<FileSystem> own_files_;
  FileSystem& files_;
  Options options_;
  std::optional<DataDir> dir_;
  std::unique_ptr<Store> store_;
  std::vector<work::HoldingRow> rows_;
  std::vector<work::LoggedJob> jobs_;
  std::vector<std::string> warnings_;
  std::mutex mutex_;  // guards the two below
  std::map<JobId, std::promise<work::StoreResult>> waiting_;
  work::JobIds ids_;
};

/// Waits for the value that a call hands to its callback.
template <typename T>
T wait_for(const std::function<void(std::function<void(T)>)>& start) {
  auto promise = std::make_shared<std::promise<T>>();
  std::future<T> future = promise->get_future();
  start([promise](T value) { promise->set_value(std::move(value)); });
  return future.get();
}

BlobHash hash_of(std::string_view blob);
/// A holding of expert `expert` of layer 3 of model "m", whose blob is `blob`.
work::HoldingRow expert_row(ExpertIndex expert, std::string_view blob);
work::HoldingRow gate_row(std::string_view blob);

}  // namespace tenzro::store
