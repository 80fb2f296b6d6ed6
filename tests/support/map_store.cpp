#include "support/map_store.hpp"

#include <algorithm>
#include <fstream>
#include <memory>
#include <utility>

#include "tenzro/crypto/blake3.hpp"

namespace tenzro::testing {
namespace {

work::StoreResult read_source(const work::ReadSource& op) {
  std::ifstream in(op.root + "/" + op.file, std::ios::binary | std::ios::ate);
  if (!in) return fail(ErrorCode::not_found, op.file, "is not there");
  const auto file_bytes = static_cast<std::uint64_t>(in.tellg());
  const std::string version = std::to_string(file_bytes);
  if (!op.version.empty() && op.version != version)
    return fail(ErrorCode::io, op.file, "was changed since it was first read");
  in.seekg(static_cast<std::streamoff>(op.offset));
  std::string bytes(op.length, '\0');
  in.read(bytes.data(), static_cast<std::streamsize>(op.length));
  bytes.resize(static_cast<std::size_t>(in.gcount()));
  if (bytes.size() < op.length && !op.allow_short)
    return fail(ErrorCode::io, op.file, "is too short");
  return work::ReadBytes{
      .bytes = BufferRef::copy_of(bytes), .file_bytes = file_bytes, .version = version};
}

/// A blob as it was when it was opened.
class MapSource final : public work::ArrivingBlob {
 public:
  explicit MapSource(BufferRef bytes) : bytes_(std::move(bytes)) {}

  [[nodiscard]] std::uint64_t size_bytes() const override { return bytes_.size(); }

  [[nodiscard]] Status read(std::uint64_t offset, std::span<std::byte> to) const override {
    if (offset > bytes_.size() || to.size() > bytes_.size() - offset)
      return fail(ErrorCode::io, "blob", "became shorter while it was read");
    const auto from = bytes_.bytes().subspan(static_cast<std::size_t>(offset), to.size());
    std::copy(from.begin(), from.end(), to.begin());
    return {};
  }

  [[nodiscard]] Result<BlobHash> hash() const override { return crypto::blake3(bytes_.bytes()); }

 private:
  BufferRef bytes_;
};

}  // namespace

std::vector<work::HoldingRow> MapStore::rows() const {
  std::vector<work::HoldingRow> rows;
  for (const auto& [key, row] : rows_) rows.push_back(row);
  return rows;
}

work::StoreResult MapStore::log_job(const work::LogJob& op) {
  for (work::LoggedJob& job : jobs_) {
    if (job.id != op.id) continue;
    job.record = op.record;
    return work::Saved{};
  }
  jobs_.push_back({op.id, op.record, {}});
  return work::Saved{};
}

work::StoreResult MapStore::run(const work::StoreOp& op) {
  if (const auto* save = std::get_if<work::SaveHolding>(&op)) {
    if (!save->blob.empty()) blobs_.insert_or_assign(save->row.hash, save->blob);
    rows_.insert_or_assign({save->row.layer, save->row.expert}, save->row);
    return work::Saved{};
  }
  if (const auto* remove = std::get_if<work::RemoveHolding>(&op)) {
    return work::Removed{rows_.erase({remove->layer, remove->expert}) > 0};
  }
  if (const auto* publish = std::get_if<work::PublishBlob>(&op)) {
    const BlobHash hash = crypto::blake3(publish->bytes.bytes());
    blobs_.insert_or_assign(hash, publish->bytes);
    if (publish->part) {
      for (work::LoggedJob& job : jobs_) {
        if (job.id != publish->part->job) continue;
        job.parts.push_back(
            {publish->part->name, publish->part->record, hash, publish->bytes.size(), true});
      }
    }
    return work::Published{hash, publish->bytes.size()};
  }
  if (const auto* read = std::get_if<work::ReadBlob>(&op)) {
    const auto it = blobs_.find(read->hash);
    if (it == blobs_.end()) return fail(ErrorCode::not_found, "", "blob is not in the store");
    if (read->may_arrive) return work::Arriving{std::make_shared<MapSource>(it->second)};
    return work::ReadBytes{it->second};
  }
  if (const auto* open = std::get_if<work::OpenBlob>(&op)) {
    const auto it = blobs_.find(open->hash);
    if (it == blobs_.end()) return fail(ErrorCode::not_found, "", "blob is not in the store");
    return work::OpenedBlob{std::make_shared<MapSource>(it->second)};
  }
  if (const auto* quarantine = std::get_if<work::QuarantineBlob>(&op)) {
    const auto blob = blobs_.find(quarantine->hash);
    const bool is_intact =
        blob != blobs_.end() && crypto::blake3(blob->second.bytes()) == quarantine->hash;
    if (is_intact) return work::Removed{false};
    blobs_.erase(quarantine->hash);
    std::erase_if(rows_, [&](const auto& row) { return row.second.hash == quarantine->hash; });
    return work::Removed{true};
  }
  if (const auto* source = std::get_if<work::ReadSource>(&op)) return read_source(*source);
  if (const auto* job = std::get_if<work::LogJob>(&op)) return log_job(*job);
  if (const auto* job = std::get_if<work::ForgetJob>(&op)) {
    std::erase_if(jobs_, [&](const work::LoggedJob& logged) { return logged.id == job->id; });
    return work::Saved{};
  }
  if (const auto* space = std::get_if<work::CheckSpace>(&op)) {
    if (space->bytes <= space_bytes) return work::Saved{};
    return fail(ErrorCode::no_space, "disk", std::to_string(space->bytes) + " bytes do not fit");
  }
  return run_partial(op);
}

work::StoreResult MapStore::run_partial(const work::StoreOp& op) {
  if (const auto* open = std::get_if<work::OpenPartial>(&op)) {
    if (blobs_.contains(open->hash)) {
      ++leases_[open->hash];
      return work::OpenedPartial{.is_complete = true};
    }
    partials_[open->hash].assign(open->size_bytes, '\0');
    return work::OpenedPartial{};
  }
  if (const auto* write = std::get_if<work::WritePartial>(&op)) {
    partials_.at(write->hash).replace(write->offset, write->bytes.size(), write->bytes.text());
    return work::WrittenPartial{crypto::blake3(write->bytes.bytes())};
  }
  if (const auto* finish = std::get_if<work::FinishPartial>(&op)) {
    const std::string& bytes = partials_.at(finish->hash);
    if (crypto::blake3(bytes) != finish->hash) return work::FinishedPartial{false};
    blobs_.insert_or_assign(finish->hash, BufferRef::copy_of(bytes));
    partials_.erase(finish->hash);
    ++leases_[finish->hash];
    return work::FinishedPartial{true};
  }
  if (const auto* close = std::get_if<work::ClosePartial>(&op)) {
    partials_.erase(close->hash);
    return work::Saved{};
  }
  if (const auto* release = std::get_if<work::ReleaseBlob>(&op)) {
    leases_[release->hash] -= release->leases;
    const bool is_held = std::any_of(rows_.begin(), rows_.end(), [&](const auto& row) {
      return row.second.hash == release->hash;
    });
    if (leases_[release->hash] == 0 && !release->is_kept && !is_held) blobs_.erase(release->hash);
    return work::Removed{true};
  }
  const auto& range = std::get<work::ReadBlobRange>(op);
  const auto it = blobs_.find(range.hash);
  if (it == blobs_.end()) return fail(ErrorCode::not_found, "", "blob is not in the store");
  if (range.offset + range.length > it->second.size())
    return fail(ErrorCode::invalid_params, "range", "is not inside the blob");
  return work::BlobRange{it->second.slice(range.offset, range.length), it->second.size()};
}

}  // namespace tenzro::testing
