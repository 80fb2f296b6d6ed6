#include "node_store.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "support/temporary_directory.hpp"

namespace tenzro::store {
namespace {

std::optional<Error> error_of(const work::StoreResult& result) {
  if (result) return std::nullopt;
  return result.error();
}

}  // namespace

NodeStore::NodeStore(std::string path, Options options)
    : path_(std::move(path)),
      own_files_(std::make_unique<FileSystem>()),
      files_(*own_files_),
      options_(std::move(options)) {}

NodeStore::NodeStore(std::string path, FileSystem& files, Options options)
    : path_(std::move(path)), files_(files), options_(std::move(options)) {}

Status NodeStore::open() {
  close();
  Result<DataDir> dir = DataDir::open(path_, files_);
  if (!dir) return fail(dir.error());
  dir_.emplace(std::move(*dir));
  Result<OpenedStore> opened =
      Store::open(*dir_, options_, [this](JobId id, work::StoreResult result) {
        std::promise<work::StoreResult> promise;
        {
          const std::lock_guard lock(mutex_);
          const auto it = waiting_.find(id);
          promise = std::move(it->second);
          waiting_.erase(it);
        }
        promise.set_value(std::move(result));
      });
  if (!opened) {
    dir_.reset();
    return fail(opened.error());
  }
  store_ = std::move(opened->store);
  rows_ = std::move(opened->rows);
  jobs_ = std::move(opened->jobs);
  warnings_ = std::move(opened->warnings);
  return {};
}

void NodeStore::close() {
  store_.reset();
  dir_.reset();
}

work::StoreResult NodeStore::call(work::StoreOp op) {
  if (!store_) {
    if (Status opened = open(); !opened) return fail(opened.error());
  }
  std::future<work::StoreResult> future;
  JobId id{};
  {
    const std::lock_guard lock(mutex_);
    id = ids_.next();
    future = waiting_[id].get_future();
  }
  store_->submit(id, std::move(op));
  return future.get();
}

std::optional<Error> NodeStore::save(const work::HoldingRow& row, std::string_view blob) {
  return error_of(call(work::SaveHolding{row, BufferRef::copy_of(blob)}));
}

std::optional<Error> NodeStore::save_again(const work::HoldingRow& row) {
  return error_of(call(work::SaveHolding{row, {}}));
}

bool NodeStore::remove(const work::HoldingRow& row) {
  return std::get<work::Removed>(call(work::RemoveHolding{row.layer, row.expert}).value()).existed;
}

Result<BlobHash> NodeStore::publish(std::string_view blob) {
  const work::StoreResult result = call(work::PublishBlob{BufferRef::copy_of(blob)});
  if (!result) return fail(result.error());
  return std::get<work::Published>(*result).hash;
}

Result<std::string> NodeStore::read(const BlobHash& hash) {
  const work::StoreResult result = call(work::ReadBlob{hash});
  if (!result) return fail(result.error());
  return std::string(std::get<work::ReadBytes>(*result).bytes.text());
}

Result<std::string> NodeStore::read_range(const BlobHash& hash, std::uint64_t offset,
                                          std::uint64_t length) {
  const auto bytes = wait_for<Result<BufferRef>>(
      [&](auto done) { store_->read_range(hash, offset, length, std::move(done)); });
  if (!bytes) return fail(bytes.error());
  return std::string(bytes->text());
}

Result<bool> NodeStore::quarantine(const BlobHash& hash) {
  const work::StoreResult result = call(work::QuarantineBlob{hash});
  if (!result) return fail(result.error());
  return std::get<work::Removed>(*result).existed;
}

std::string NodeStore::blob_dir() const {
  return options_.blob_dir.empty() ? path_ + "/blobs" : options_.blob_dir;
}

std::string NodeStore::path_of(const BlobHash& hash) const {
  const std::string name = to_hex(hash);
  return blob_dir() + "/" + name.substr(0, 2) + "/" + name;
}

std::vector<std::string> NodeStore::blobs_on_disk() const {
  std::vector<std::string> blobs;
  for (const std::string& folder : testing::names_in(blob_dir())) {
    if (folder.size() != 2) continue;  // lock, tmp, quarantine
    for (const std::string& name : testing::names_in(blob_dir() + "/" + folder))
      blobs.push_back(name);
  }
  std::sort(blobs.begin(), blobs.end());
  return blobs;
}

std::vector<std::string> NodeStore::temps_on_disk() const {
  return testing::names_in(blob_dir() + "/tmp");
}

BlobHash hash_of(std::string_view blob) {
  return crypto::blake3(blob);
}

work::HoldingRow expert_row(ExpertIndex expert, std::string_view blob) {
  work::HoldingRow row;
  row.layer = {"m", 3};
  row.expert = expert;
  row.hash = hash_of(blob);
  row.facts.d_model = 64;
  row.facts.d_ff = 128;
  row.facts.resident_bytes = blob.size();
  return row;
}

work::HoldingRow gate_row(std::string_view blob) {
  work::HoldingRow row;
  row.layer = {"m", 3};
  row.hash = hash_of(blob);
  row.gate_experts = 8;
  row.gate_d_model = 64;
  row.gate_bytes = blob.size();
  return row;
}

}  // namespace tenzro::store
